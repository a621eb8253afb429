"""The kernels once more in NumPy and plain Python: the oracle of the tests.

Written from the headers. Every float32 operation rounds once and sums run in the order that the
headers name, so that results are compared bit by bit.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

F = np.float32
H = float.fromhex

STREAMS = {
    "noise": 1,
    "noise_index": 2,
    "init": 3,
    "env_reset": 4,
    "env_step": 5,
    "env_layout": 6,
    "action": 7,
    "action_noise": 8,
    "explore": 9,
    "replay": 10,
    "evaluation": 11,
}


# Random numbers


def philox(key, c0, c1, c2, c3):
    """Philox4x32-10: (..., 4) uint32 for a key and arrays of counters."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in np.broadcast_arrays(c0, c1, c2, c3))
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c2 = (p1 >> shift) ^ c1 ^ np.uint64(k0), (p0 >> shift) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & mask, p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], -1).astype(np.uint32)


def block(key, stream, item, iteration, number):
    """Draws of blocks of a stream: (..., 4) uint32."""
    number = np.asarray(number, np.uint64)
    high = STREAMS[stream] << 24 | (number >> np.uint64(32) & np.uint64(0xFFFFFF)).astype(int)
    return philox(key, number & np.uint64(0xFFFFFFFF), item, iteration, high)


def derive(key, kind):
    """The key of evaluation episodes of a kind."""
    draws = block(key, "evaluation", 0, 0, kind)
    return int(draws[1]) << 32 | int(draws[0])


def unit(draw):
    """A draw as a float32 in [0, 1)."""
    return F(int(draw) >> 8) * F(2.0**-24)


def polynomial(x, *coefficients):
    """Horner's scheme in float32, the highest power first."""
    p = F(H(coefficients[0]))
    for c in coefficients[1:]:
        p = p * x + F(H(c))
    return p


def log_unit(u):
    """log(u) for float32 u in (0, 1]."""
    shifted = u.view(np.int32) - np.int32(0x3F3504F3)
    e = (shifted >> 23).astype(F)
    m = ((shifted & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3)).view(F)
    f = m - F(1)
    p = polynomial(
        f,
        "0x1.645eacp-4",
        "-0x1.2432b8p-3",
        "0x1.317458p-3",
        "-0x1.53824ap-3",
        "0x1.98d7f2p-3",
        "-0x1.000382p-2",
        "0x1.5556d8p-2",
    )
    z = f * f
    return (f - F(0.5) * z + z * f * p) + e * F(H("0x1.62e430p-1"))


def sin_half_turn(t):
    """sin(pi/2 * t) for float32 t in [-1, 1]."""
    p = polynomial(
        t * t,
        "0x1.3e17c8p-13",
        "-0x1.32535ap-8",
        "0x1.4668f2p-4",
        "-0x1.4abbc4p-1",
        "0x1.921fb6p+0",
    )
    return p * t


def cos_half_turn(t):
    """cos(pi/2 * t) for float32 t in [-1, 1]."""
    z = t * t
    p = polynomial(
        z, "-0x1.901bd6p-16", "0x1.e12f86p-11", "-0x1.55d0b8p-6", "0x1.03c1e6p-2", "-0x1.3bd3ccp+0"
    )
    return p * z + F(1)


def normal_pairs(radius, angle):
    """Box and Muller: the cosine and the sine normals of two arrays of draws."""
    u = (radius >> 1).astype(np.int32).astype(F) * F(2.0**-31) + F(2.0**-32)
    r = np.sqrt(F(-2) * log_unit(u))
    t = (angle << np.uint32(1)).view(np.int32).astype(F) * F(2.0**-31)
    cosine = (r * cos_half_turn(t)).view(np.uint32) ^ (angle & np.uint32(0x80000000))
    return cosine.view(F), r * sin_half_turn(t)


def normals(size, key, stream, item=0, iteration=0, start=0):
    """Normals start, start + 1, ... of a stream: (size,) float32."""
    first, last = start // 64, (start + size + 63) // 64
    groups = np.arange(first, last, dtype=np.uint64)[:, None]
    lanes = np.arange(16, dtype=np.uint64)
    draws = block(key, stream, item, iteration, groups * np.uint64(16) + lanes)
    words = [np.ascontiguousarray(draws[..., w]) for w in range(4)]
    rows = [*normal_pairs(words[0], words[1]), *normal_pairs(words[2], words[3])]
    flat = np.stack(rows, 1).reshape(-1)
    return flat[start - 64 * first :][:size]


def noise_index(size, key, pair, iteration, d):
    """Where a pair's perturbation begins, in [0, size - d]."""
    draws = block(key, "noise_index", pair, iteration, 0)
    return (size - d + 1) * (int(draws[0]) << 32 | int(draws[1])) >> 64


def perturb(theta, key, index, stdev):
    """Both signs of a perturbation."""
    step = F(stdev) * normals(len(theta), key, "noise", start=index)
    return theta + step, theta - step


# Policies


def num_params(widths):
    """Length of a network's parameter vector."""
    return sum((a + 1) * b for a, b in pairwise(widths))


def tanh(x):
    """The networks' tanh of float32."""
    x = np.clip(x, F(-9.02), F(9.02))
    z = x * x
    p, q = F(1.33190585e-08), F(7.76201351e-07)
    for a, b in (
        (2.058347e-05, 0.000328309165),
        (0.0034940338, 0.0258710702),
        (0.133797173, 0.467130325),
        (0.999999979, 1.0),
    ):
        p = p * z + F(a)
        q = q * z + F(b)
    return x * p / q


def init(widths, key):
    """Initial parameters of a network."""
    parts = []
    for layer, (a, b) in enumerate(pairwise(widths)):
        scale = F(1) / np.sqrt(F(a))
        parts += [normals(a * b, key, "init", layer) * scale, np.zeros(b, F)]
    return np.concatenate(parts)


def forward(widths, activation, theta, x):
    """Outputs for one observation: (O,) float32, or an int for a one-hot row."""
    for layer, (a, b) in enumerate(pairwise(widths)):
        weight, bias = theta[: a * b].reshape(a, b), theta[a * b : (a + 1) * b]
        theta = theta[(a + 1) * b :]
        if isinstance(x, int):
            out = bias + weight[x]
        else:
            out = bias.copy()
            for i in range(a):
                out = out + x[i] * weight[i]
        if layer + 2 < len(widths):
            out = tanh(out) if activation == "tanh" else np.where(out < 0, F(0), out)
        x = out
    return x


def argmax(logits):
    """The first of the largest; a NaN only where all are NaN, and then the first."""
    best = 0
    for i, a in enumerate(logits):
        if a > logits[best] or (np.isnan(logits[best]) and not np.isnan(a)):
            best = i
    return best


def exp_negative(value):
    """exp(x) of float32 x <= 0; 0 below -87 and for NaN."""
    tiny = ~(value >= F(-87))
    x = np.where(tiny, F(-87), value)
    k = np.trunc(x * F(H("0x1.715476p+0")) - F(0.5))
    r = x - k * F(H("0x1.62ep-1")) - k * F(H("0x1.0bfbe8p-15"))
    p = polynomial(
        r,
        "0x1.6a2352p-10",
        "0x1.123a6cp-7",
        "0x1.5558f4p-5",
        "0x1.555490p-3",
        "0x1.fffffcp-2",
    )
    power = ((k.astype(np.int32) + 127) << 23).view(F)
    return np.where(tiny, F(0), (F(1) + (r + r * r * p)) * power)


def sample(logits, u):
    """An action of the softmax from a uniform draw."""
    with np.errstate(invalid="ignore"):
        numbers = logits[~np.isnan(logits)]
        most = numbers.max() if len(numbers) else F(-np.inf)
        weight = exp_negative(np.where(logits == most, F(0), logits - most))
    sums = np.add.accumulate(weight, dtype=F)
    chosen = int(np.count_nonzero(F(u) * sums[-1] >= sums[:-1]))
    last = np.flatnonzero(weight > 0)
    return min(chosen, int(last[-1]) if len(last) else 0)


# Statistics


def stats_push(stats, x):
    """Add one observation to a block (1 + 2*O,) float64, in place."""
    o = len(x)
    stats[0] += 1
    inverse = 1 / stats[0]
    before = x - stats[1 : 1 + o]
    stats[1 : 1 + o] += before * inverse
    stats[1 + o :] += before * (x - stats[1 : 1 + o])


def stats_merge(a, b):
    """Merge block b into block a, in place (Chan, Golub, LeVeque)."""
    o = len(a) // 2
    if b[0] == 0:
        return
    if a[0] == 0:
        a[:] = b
        return
    n = a[0] + b[0]
    share = b[0] / n
    weight = a[0] * share
    delta = b[1 : 1 + o] - a[1 : 1 + o]
    a[1 : 1 + o] += delta * share
    a[1 + o :] += b[1 + o :] + delta * delta * weight
    a[0] = n


def stats_freeze(stats):
    """(mean, scale) that a policy applies."""
    o = len(stats) // 2
    if stats[0] < 2:
        return np.zeros(o), np.ones(o)
    std = np.sqrt(stats[1 + o :] / (stats[0] - 1))
    return stats[1 : 1 + o].copy(), np.where(std < 1e-7, 0, 1 / np.where(std < 1e-7, 1, std))


# Rollouts


class Maze:
    """The maze, an episode at a time. Its observation is an int."""

    def __init__(self, rows=5, columns=5, start=0, goal=24, max_episode_steps=100):
        self.rows, self.columns, self.start, self.goal = rows, columns, start, goal
        self.max_episode_steps = max_episode_steps

    def reset(self, key, item, episode):
        """Return the first observation."""
        self.place = divmod(self.start, self.columns)
        return self.start

    def step(self, action):
        """Return (observation, reward, terminated)."""
        row, column = self.place
        row += (action == 0) - (action == 2)
        column += (action == 3) - (action == 1)
        if 0 <= row < self.rows and 0 <= column < self.columns:
            self.place = row, column
        cell = self.place[0] * self.columns + self.place[1]
        return cell, float(cell == self.goal), cell == self.goal


class Drift:
    """consumers/drift.c, an episode at a time. Its observation is (4,) float64."""

    max_episode_steps = 60

    def reset(self, key, item, episode):
        """Return the first observation."""
        self.stream, self.elapsed = (key, item, episode), 0
        x, speed, field, wind = self._signed(block(key, "env_reset", item, episode, 0))
        self.state = [x, F(0.1) * speed, F(1000) + F(200) * field, wind]
        return np.array(self.state, float)

    def step(self, action):
        """Return (observation, reward, terminated)."""
        key, item, episode = self.stream
        gust, wander, *_ = self._signed(block(key, "env_step", item, episode, self.elapsed))
        x, speed, field, wind = self.state
        push = F(action - 1) * (field * F(0.001))
        speed = F(0.9) * speed + F(0.1) * push + F(0.05) * wind + F(0.1) * gust
        x = F(1.02) * x + speed
        self.state = [x, speed, field + F(5) * wander, wind]
        self.elapsed += 1
        return np.array(self.state, float), 1 - float(x) * float(x) / 9, bool(abs(x) > 3)

    @staticmethod
    def _signed(draws):
        return [F(2) * unit(draw) - F(1) for draw in draws]


@dataclass
class Episode:
    """What an episode gives."""

    total: float
    fitness: float
    length: int
    terminated: bool
    truncated: bool
    stats: np.ndarray | None


def episode(env, choose, key, item, iteration, *, gamma, cap, frozen=None, gather=False):
    """Run an episode; choose(x, t) gives the action for a policy's input at step t."""
    obs = env.reset(key, item, iteration)
    stats = np.zeros(1 + 2 * len(obs)) if gather else None
    total = fitness = 0.0
    discount, t, terminated, truncated = 1.0, 0, False, False
    while not (terminated or truncated):
        x = obs
        if not isinstance(obs, int):
            if gather:
                stats_push(stats, obs)
            x = (obs if frozen is None else (obs - frozen[0]) * frozen[1]).astype(F)
        obs, reward, terminated = env.step(choose(x, t))
        total += reward
        fitness += discount * reward
        discount *= gamma
        t += 1
        truncated = t in (env.max_episode_steps, cap)
    return Episode(total, fitness, t, terminated, truncated, stats)


@dataclass
class Task:
    """What a unit is a function of, beside theta and its numbers."""

    env: Maze | Drift
    widths: tuple[int, ...]
    key: int
    noise_size: int
    activation: str = "tanh"
    gamma: float = 1.0
    sampled: bool = False
    gather: bool = False
    iteration: int = 0
    noise_stdev: float = 0.1
    max_episode_steps: int = 0
    frozen: tuple[np.ndarray, np.ndarray] | None = None

    def episode(self, theta, key, item, sampled, gather=False):
        """Run one episode of a parameter vector."""

        def choose(x, t):
            logits = forward(self.widths, self.activation, theta, x)
            if not sampled:
                return argmax(logits)
            draws = block(key, "action", item, self.iteration, t // 4)
            return sample(logits, unit(draws[t % 4]))

        return episode(
            self.env,
            choose,
            key,
            item,
            self.iteration,
            gamma=self.gamma,
            cap=self.max_episode_steps,
            frozen=self.frozen,
            gather=gather,
        )

    def unit(self, theta, first_pair, pairs):
        """Return the unit's ((index, plus, minus) of each pair) and its statistics."""
        answers, stats = [], None
        for pair in range(first_pair, first_pair + pairs):
            index = noise_index(self.noise_size, self.key, pair, self.iteration, len(theta))
            both = [
                self.episode(member, self.key, pair, self.sampled, self.gather)
                for member in perturb(theta, self.key, index, self.noise_stdev)
            ]
            answers.append((index, *both))
            if self.gather:
                stats = np.zeros_like(both[0].stats) if stats is None else stats
                for one in both:
                    stats_merge(stats, one.stats)
        return answers, stats

    def evaluation(self, theta, kind, first, episodes):
        """Return noiseless arg-max episodes under the derived key."""
        key = derive(self.key, kind)
        return [self.episode(theta, key, first + i, False) for i in range(episodes)]


# Updates


def centered_ranks(values):
    """Ranks in [-0.5, 0.5], ties sharing their mean: (N,) float32."""
    n = len(values)
    if n < 2:
        return np.zeros(n, F)
    ordered = np.sort(values)
    first, end = np.searchsorted(ordered, values), np.searchsorted(ordered, values, "right")
    return (0.5 * (first + end - 1) / (n - 1) - 0.5).astype(F)


def noise_sum(noise, index, weight, d):
    """Weighted rows in index order in blocks of 64, the blocks by a binary tree over numbers."""

    def node(first, span):
        if span == 1:
            total = np.zeros(d, F)
            for k in range(64 * first, min(64 * (first + 1), len(index))):
                total = total + weight[k] * noise[int(index[k]) :][:d]
            return total
        middle = first + span // 2
        left = node(first, span // 2)
        return left if 64 * middle >= len(index) else left + node(middle, span // 2)

    span = 1
    while 64 * span < len(index):
        span *= 2
    return node(0, span)


def power(base, t):
    """The power base ** t for an integer t by squaring, in float64."""
    result = 1.0
    while t:
        if t & 1:
            result *= base
        t >>= 1
        base *= base
    return result


def adam(
    theta, m, v, gradient, t, stepsize, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0
):
    """One step of AdamW, or of Adam without a decay: new (theta, m, v)."""
    rate = F(stepsize * np.sqrt(1 - power(beta2, t)) / (1 - power(beta1, t)))
    m = F(beta1) * m + F(1 - beta1) * gradient
    v = F(beta2) * v + F(1 - beta2) * (gradient * gradient)
    keep = F(1 - stepsize * weight_decay)
    return keep * theta - rate * m / (np.sqrt(v) + F(epsilon)), m, v


def length(x):
    """Square root of eight float64 sums, added as a tree."""
    padded = np.zeros(-(-max(len(x), 1) // 8) * 8)
    padded[: len(x)] = x
    total = np.zeros(8)
    for row in padded.reshape(-1, 8):
        total += row * row
    for half in (4, 2, 1):
        total = total[:half] + total[half:]
    return np.sqrt(total[0])


def clipup(theta, v, gradient, stepsize, max_speed, momentum=0.9):
    """One step of ClipUp: new (theta, v)."""
    norm = length(gradient)
    v = F(momentum) * v + F(stepsize / norm if norm > 0 else 0) * gradient
    speed = length(v)
    v = v * F(max_speed / speed if speed > max_speed else 1)
    return theta - v, v


def sgd(theta, v, gradient, stepsize, momentum=0.0):
    """One step of SGD: new (theta, v)."""
    v = F(momentum) * v + F(1 - momentum) * gradient
    return theta - F(stepsize) * v, v
