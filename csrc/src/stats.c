#include "rollmill/stats.h"

#include <math.h>
#include <string.h>

void rml_stats_push(double *stats, const double *x_o, size_t o) {
  double *mean = stats + 1, *m2 = mean + o, n = stats[0] + 1.0, inverse = 1.0 / n;
  stats[0] = n;
  for (size_t i = 0; i < o; i++) {
    double before = x_o[i] - mean[i];
    mean[i] += before * inverse;
    m2[i] += before * (x_o[i] - mean[i]);
  }
}

void rml_stats_merge(double *a, const double *b, size_t o) {
  if (b[0] == 0.0) return;
  if (a[0] == 0.0) {
    memcpy(a, b, RML_STATS_LENGTH(o) * sizeof(double));
    return;
  }
  double n = a[0] + b[0], share = b[0] / n, weight = a[0] * share;
  for (size_t i = 0; i < o; i++) {
    double delta = b[1 + i] - a[1 + i];
    a[1 + i] += delta * share;
    a[1 + o + i] += b[1 + o + i] + delta * delta * weight;
  }
  a[0] = n;
}

void rml_stats_freeze(double *mean_o, double *scale_o, const double *stats, size_t o) {
  double n = stats[0];
  for (size_t i = 0; i < o; i++) {
    double std = n < 2.0 ? 1.0 : sqrt(stats[1 + o + i] / (n - 1.0));
    mean_o[i] = n < 2.0 ? 0.0 : stats[1 + i];
    scale_o[i] = std < 1e-7 ? 0.0 : 1.0 / std;
  }
}
