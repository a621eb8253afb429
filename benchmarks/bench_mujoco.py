"""MuJoCo environments in C: steps a second beside the physics alone and beside Gymnasium.

Run: python benchmarks/bench_mujoco.py [--json]

Three lines, one after the other in each round, on 1 thread and on 2:
- rollmill: an environment's `step` in a C loop, with observation, reward, termination and resets;
- floor: a C loop of the same calls of the same libmujoco (mj_step, mj_rnePostConstraint where the
  observation needs it, mj_resetData and mj_forward where an episode ended) on the same
  trajectories, with an mjData for each environment, and nothing else;
- gymnasium: its environment in a Python loop, in one process a thread.

Actions are random. Ratios are of figures of one round, measured within a second or two: of wall
time, and of processor time, which others on the machine disturb less.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from pathlib import Path

import numpy as np

SOURCE = r"""
#include <string.h>
#include "rollmill/env.h"

int run_env(const rml_env *env, size_t n, size_t t, uint64_t key, const float *action_tna,
            void *state, double *obs_no, double *reward_n, uint64_t *key_n, uint32_t *id_n,
            uint32_t *episode_n, uint32_t *elapsed_n, uint8_t *flags_n) {
  const size_t a = (size_t)env->action.n;
  for (size_t i = 0; i < n; i++) {
    key_n[i] = key;
    id_n[i] = (uint32_t)i;
    episode_n[i] = elapsed_n[i] = 0;
  }
  rml_batch batch = {.n = n, .end = n, .key_n = key_n, .id_n = id_n, .episode_n = episode_n,
                     .elapsed_n = elapsed_n, .state = state, .obs_no = obs_no,
                     .reward_n = reward_n, .flags_n = flags_n};
  if (env->reset(env, &batch)) return 1;
  for (size_t s = 0; s < t; s++) {
    batch.begin = 0;
    batch.end = n;
    batch.action_na = action_tna + s * n * a;
    if (env->step(env, &batch)) return 1;
    for (size_t i = 0; i < n; i++) {
      if (++elapsed_n[i] < env->max_episode_steps && !flags_n[i]) continue;
      elapsed_n[i] = 0;
      episode_n[i]++;
      batch.begin = i;
      batch.end = i + 1;
      if (env->reset(env, &batch)) return 1;
    }
  }
  return 0;
}

typedef void (*call)(const void *model, void *data);

void run_floor(call step, call post, call reset, call forward, const void *model, void **data_n,
               double **ctrl_n, double **qpos_n, double **qvel_n, size_t n, size_t t, size_t a,
               size_t skip, int forces, const float *action_tna, const uint8_t *begins_tn,
               const double *qpos_tnq, const double *qvel_tnv, size_t nq, size_t nv) {
  for (size_t s = 0; s <= t; s++)
    for (size_t i = 0; i < n; i++) {
      const size_t k = s * n + i;
      if (s > 0) {
        for (size_t j = 0; j < a; j++) ctrl_n[i][j] = action_tna[(k - n) * a + j];
        for (size_t j = 0; j < skip; j++) step(model, data_n[i]);
        if (forces) post(model, data_n[i]);
      }
      if (!begins_tn[k]) continue;
      reset(model, data_n[i]);
      memcpy(qpos_n[i], qpos_tnq + k * nq, nq * sizeof(double));
      memcpy(qvel_n[i], qvel_tnv + k * nv, nv * sizeof(double));
      forward(model, data_n[i]);
    }
}
"""

TASKS = {"Humanoid-v5": 150, "HalfCheetah-v5": 2000}  # steps of each environment in a round
N = 8  # environments a thread


def compiled(folder):
    """Return the loops above as a ctypes library."""
    source, library = Path(folder) / "loops.c", Path(folder) / "loops.so"
    source.write_text(SOURCE)
    header = files("rollmill").joinpath("include", "rollmill", "rollmill.h")
    flags = ["-O2", "-std=c11", "-fPIC", "-shared", f"-I{Path(str(header)).parents[1]}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def pointer(array):
    """Where an array lies."""
    return ctypes.c_void_p(array.ctypes.data)


class Job:
    """A thread's environments, with the trajectories that both loops follow."""

    def __init__(self, env_id, steps, key):
        import mujoco
        from rollmill import _mujoco
        from rollmill._vector import SAME_STEP, Vector
        from rollmill.envs import mujoco as tasks
        from rollmill.envs import native_env

        self.env, self.steps, self.key = native_env(env_id), steps, key
        options = tasks.TASKS[env_id].options
        path = tasks._model_path(options["xml_file"])
        self.model = mujoco.MjModel.from_xml_path(path)
        self.skip, self.forces = options["frame_skip"], env_id.startswith("Humanoid")
        self.library = tasks._library(mujoco)
        a = self.env.action_space_spec
        generator = np.random.Generator(np.random.PCG64(key))
        self.actions = generator.uniform(a.low, a.high, (steps, N, a.n)).astype(np.float32)
        self.begins = np.zeros((steps + 1, N), np.uint8)
        self.qpos = np.zeros((steps + 1, N, self.model.nq))
        self.qvel = np.zeros((steps + 1, N, self.model.nv))
        vector = Vector(self.env, N, SAME_STEP, ids=np.arange(N, dtype=np.uint32))
        vector.reset(keys=np.full(N, key, np.uint64))
        for s in range(steps + 1):
            self.begins[s] = vector.step(self.actions[s - 1])[2] != 0 if s else 1
            for i in np.flatnonzero(self.begins[s]):
                self.qpos[s, i], self.qvel[s, i] = _mujoco.read(vector, i)
        self.datas = [mujoco.MjData(self.model) for _ in range(N)]
        self.capsule = self.env.capsule()
        self.buffers = [
            np.zeros((N, self.env.state_size // 8)),
            np.zeros((N, self.env.observation_space_spec.n)),
            np.zeros(N),
            np.zeros(N, np.uint64),
            *(np.zeros(N, np.uint32) for _ in range(3)),
            np.zeros(N, np.uint8),
        ]

    def run_env(self, loops):
        """Our loop."""
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        env = ctypes.c_void_p(get(self.capsule, b"rollmill.rml_env"))
        sizes = ctypes.c_size_t(N), ctypes.c_size_t(self.steps), ctypes.c_uint64(self.key)
        if loops.run_env(env, *sizes, pointer(self.actions), *map(pointer, self.buffers)):
            raise RuntimeError("the environment failed")

    def run_floor(self, loops):
        """The physics alone."""
        names = ("mj_step", "mj_rnePostConstraint", "mj_resetData", "mj_forward")
        calls = [ctypes.cast(getattr(self.library, name), ctypes.c_void_p) for name in names]
        model, many = self.model, ctypes.c_void_p * N
        datas = many(*(data._address for data in self.datas))
        views = [
            many(*(getattr(data, name).ctypes.data for data in self.datas))
            for name in ("ctrl", "qpos", "qvel")
        ]
        sizes = [ctypes.c_size_t(size) for size in (N, self.steps, model.nu, self.skip)]
        arrays = map(pointer, (self.actions, self.begins, self.qpos, self.qvel))
        loops.run_floor(
            *calls, ctypes.c_void_p(model._address), datas, *views, *sizes, int(self.forces),
            *arrays, ctypes.c_size_t(model.nq), ctypes.c_size_t(model.nv)
        )  # fmt: skip

    def check(self):
        """Both loops have ended in the same places."""
        rows = self.buffers[0]
        nq = self.model.nq
        for i, data in enumerate(self.datas):
            if not np.array_equal(rows[i, 1 : 1 + nq], data.qpos):  # time comes first
                raise AssertionError("the floor has another trajectory")


def run_gymnasium(env_id, steps, key):
    """Step Gymnasium's environment; return wall and processor seconds."""
    import gymnasium

    env = gymnasium.make(env_id)
    generator = np.random.Generator(np.random.PCG64(key))
    low, high = env.action_space.low, env.action_space.high
    actions = generator.uniform(low, high, (steps, len(low))).astype(np.float32)
    env.reset(seed=key)
    begin, cpu = time.perf_counter(), time.process_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return time.perf_counter() - begin, time.process_time() - cpu


def seconds(functions):
    """Wall seconds until all functions, in a thread each, have ended; processor seconds in all."""
    spent = []

    def work(function):
        begin = time.thread_time()
        function()
        spent.append(time.thread_time() - begin)

    threads = [threading.Thread(target=work, args=(function,)) for function in functions]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin, sum(spent)


def measure(env_id, count, rounds, loops, pool):
    """Return for each line the steps a second, and a processor second, of each round."""
    steps = TASKS[env_id]
    jobs = [Job(env_id, steps, key) for key in range(count)]
    rates = {"rollmill": [], "floor": [], "gymnasium": []}
    for k in range(rounds + 1):  # the first one warms up
        spent = {
            "rollmill": seconds([lambda job=job: job.run_env(loops) for job in jobs]),
            "floor": seconds([lambda job=job: job.run_floor(loops) for job in jobs]),
        }
        for job in jobs:
            job.check()
        futures = [pool.submit(run_gymnasium, env_id, N * steps, key) for key in range(count)]
        walls, cpus = zip(*(future.result() for future in futures), strict=True)
        spent["gymnasium"] = max(walls), sum(cpus)
        for name, (wall, cpu) in spent.items():
            if k:
                rates[name].append((count * N * steps / wall, count * N * steps / cpu))
    return rates


def show(result):
    """Print a line's figures."""
    print(f"{result['task']:15} {result['threads']} thread(s) {result['line']:10}", end="")
    for kind in ("wall", "cpu"):
        low, median, high = result[f"rollmill_over_it_{kind}"]
        rate = result[f"steps_per_{kind}_second"]
        print(f" | {kind} {rate:7.0f}/s, rollmill {median:.3f} [{low:.3f}-{high:.3f}]", end="")
    print(flush=True)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        loops = compiled(folder)
        for env_id in TASKS:
            for count in (1, 2):
                rates = measure(env_id, count, arguments.rounds, loops, pool)
                for name, values in rates.items():
                    result = {"task": env_id, "threads": count, "line": name}
                    for k, kind in enumerate(("wall", "cpu")):
                        ratios = [
                            mine[k] / other[k]
                            for mine, other in zip(rates["rollmill"], values, strict=True)
                        ]
                        result[f"steps_per_{kind}_second"] = statistics.median(
                            value[k] for value in values
                        )
                        result[f"rollmill_over_it_{kind}"] = statistics.quantiles(ratios, n=4)
                    results.append(result)
                    if not arguments.json:
                        show(result)
    if arguments.json:
        print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
