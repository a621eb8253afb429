"""`rollmill evaluate`: what a checkpoint's policy does."""

from __future__ import annotations

import argparse
from typing import Any

from .main import FAILURE, UsageError, checkpoint_of, restored


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    p = commands.add_parser(
        "evaluate",
        help="evaluate a checkpoint's policy",
        description="Run noiseless episodes of a checkpoint's policy on a fixed set of seeds that "
        "training has not seen.",
    )
    p.set_defaults(handler=command)
    p.add_argument("checkpoint", help="directory of a checkpoint, or of a run: its newest one")
    p.add_argument("--episodes", type=int, default=100, metavar="N", help="default: 100")
    p.add_argument("--last", action="store_true", help="the last policy instead of the best one")
    p.add_argument("--num-threads", type=int, metavar="N", help="default: the processors")
    p.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def command(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    from rollmill.results import json_dumps

    if not 1 <= args.episodes <= 2**31:
        raise UsageError(f"--episodes must be in [1, 2**31], got {args.episodes}")
    place: dict[str, Any] = {"engine": "threads", "noise_storage": "generated"}
    if args.num_threads is not None:
        place["num_threads"] = args.num_threads
    checkpoint = checkpoint_of(args.checkpoint)
    with restored(checkpoint, **place) as algorithm:
        figures = (algorithm.evaluate if args.last else algorithm.evaluate_best)(args.episodes)
        policy = algorithm.policy if args.last else algorithm.best_policy()
        summary = {
            "algorithm": algorithm.name,
            "env": algorithm.config.env,
            "seed": algorithm.seed,
            "engine": algorithm.engine.name,
            "num_workers": 0,
            "iterations": algorithm.iteration if args.last else algorithm.best_iteration,
            "timesteps_total": algorithm.timesteps_total,
            "episodes_total": algorithm.episodes_total,
            "episode_reward_mean": figures["reward_mean"],
            "episode_len_mean": figures["len_mean"],
            "evaluation": figures,
            "time_total_s": algorithm.time_total_s,
            "steps_per_second": algorithm.timesteps_total / max(algorithm.time_total_s, 1e-9),
            "reproducible": algorithm.reproducible,
            "checkpoint": checkpoint,
            "parameters_sha256": policy.sha256,
        }
    failed = figures["reward_mean"] is None
    if args.json:
        print(json_dumps(summary))
        return FAILURE if failed else 0
    which = "last" if args.last else "best"
    print(f"{summary['algorithm']} on {summary['env']}, {which} policy "
          f"(iteration {summary['iterations']}), {figures['episodes']} episodes")  # fmt: skip
    if failed:
        print("no episode could be run: the environment failed or its returns are not finite")
        return FAILURE
    sem = figures["reward_sem"]
    sem = "" if sem is None else f"  standard error {sem:.3g}"
    print(f"reward  mean {figures['reward_mean']:.6g}  min {figures['reward_min']:.6g}  "
          f"max {figures['reward_max']:.6g}" + sem)  # fmt: skip
    print(f"length  mean {figures['len_mean']:.6g}  min {figures['len_min']}  "
          f"max {figures['len_max']}")  # fmt: skip
    print(f"ended by the environment, not by a limit: {figures['terminated']}")
    return 0
