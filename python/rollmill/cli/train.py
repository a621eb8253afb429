"""`rollmill train`: train a policy, show the progress, leave results and a checkpoint."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .main import INTERRUPTED, TERMINATED, UsageError, checkpoint_of, restored, say

DESCRIPTION = """\
Train a policy. With no further argument: evolve the 5x5 maze's policy until it walks the shortest
path, and draw it.

Results (progress.csv, result.json) and checkpoints go to OUTPUT/NAME."""

EXAMPLES = """\
examples:
  rollmill train
  rollmill train --seed 1 --stop '{"training_iteration": 20}'
  rollmill train --num-workers 2                      # on a Ray cluster of this machine
  rollmill train --env ./libmyenv.so:my_env --config '{"episodes_per_batch": 500}'
  rollmill train --resume                             # go on with the newest checkpoint"""


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    p = commands.add_parser(
        "train",
        help="train a policy",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.set_defaults(handler=command)
    p.add_argument("-r", "-a", "--run", "--algo", dest="algorithm", metavar="ALGO",
                   help="algorithm: ES (default) or ARS")  # fmt: skip
    p.add_argument("-e", "--env", metavar="ENV",
                   help="environment id, or path/to/library.so:symbol (default: "
                        "rollmill/Maze-v0)")  # fmt: skip
    p.add_argument("-c", "--config", metavar="JSON", help="options of the algorithm")
    p.add_argument("-s", "--stop", metavar="JSON",
                   help="stop when a result reaches a number; default: the environment's preset, "
                        "else never")  # fmt: skip
    p.add_argument("--seed", type=int, metavar="N", help="default: drawn, and reported")
    p.add_argument("--preset", metavar="NAME", help="auto (default): values tuned for the "
                   "environment where you set none; none: plain defaults; es, ars: those of that "
                   "algorithm")  # fmt: skip
    p.add_argument("--num-workers", type=int, metavar="N", help="slots of a Ray cluster that "
                   "compute units; 0 (default): threads of this process")  # fmt: skip
    p.add_argument("--num-threads", type=int, metavar="N",
                   help="threads of this process (default: its processors)")  # fmt: skip
    p.add_argument("--address", "--ray-address", "--redis-address", metavar="ADDR",
                   help='address of a Ray cluster; "local" starts one here')  # fmt: skip
    p.add_argument("-o", "--output", "--local-dir", metavar="DIR",
                   help="where runs go (default: ~/rollmill_results)")  # fmt: skip
    p.add_argument("-n", "--name", "--experiment-name", metavar="NAME",
                   help="directory of this run there (default: ALGO_ENV)")  # fmt: skip
    p.add_argument("--checkpoint-freq", type=int, default=0, metavar="N",
                   help="iterations between checkpoints; 0 (default): one at the end, and one a "
                        "minute that replaces the last")  # fmt: skip
    p.add_argument("--resume", "--restore", nargs="?", const=True, metavar="CHECKPOINT",
                   help="go on from a checkpoint, bit for bit, on any engine; without a value "
                        "from the newest under OUTPUT and NAME")  # fmt: skip
    p.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    p.add_argument("-q", "--quiet", action="store_true", help="no progress line")


def command(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    from rollmill.results import json_dumps
    from rollmill.run import interruptions, run

    if args.checkpoint_freq < 0:
        raise UsageError(f"--checkpoint-freq must be at least 0, got {args.checkpoint_freq}")
    with interruptions() as seen:
        with _output_apart() if args.json else contextlib.nullcontext():
            algorithm, directory, stop = _new(args) if args.resume is None else _resume(args)
            with algorithm:
                seen.arm()  # Ray has installed its own handlers
                if not stop and not args.quiet:
                    say("no stop criterion: Ctrl-C ends the run with a checkpoint")
                outcome = run(
                    algorithm,
                    directory,
                    stop,
                    checkpoint_freq=args.checkpoint_freq,
                    progress=_progress(args, stop),
                )
                interrupted = outcome.stopped_by in ("interrupted", "terminated")
                if not outcome.iterations and not interrupted:
                    say(
                        "nothing was trained: the checkpoint has reached the stop criterion already"
                    )
                summary = _summary(algorithm, outcome, report=not interrupted)
                text = json_dumps(summary) if args.json else _text(algorithm, outcome, summary)
        print(text)
    if outcome.stopped_by == "terminated":
        return TERMINATED
    return INTERRUPTED if interrupted else 0


@contextlib.contextmanager
def _output_apart() -> Iterator[None]:
    """Send what environments and libraries print to standard error."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    try:
        kept = os.dup(1)
    except OSError:  # closed
        yield
        return
    try:
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        yield
    finally:
        sys.stdout.flush()
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _new(args: argparse.Namespace) -> tuple[Any, str, Any]:
    from rollmill.algorithms import ALGORITHMS
    from rollmill.names import unknown
    from rollmill.run import run_name

    given = "ARS" if (args.preset or "").lower() == "ars" else "ES"  # a preset names its algorithm
    if args.algorithm is not None:
        given = args.algorithm
    by_name = {known.upper(): known for known in ALGORITHMS}
    if given.upper() not in by_name:
        raise UsageError(unknown("algorithm", given, ALGORITHMS))
    name = by_name[given.upper()]
    try:
        config = ALGORITHMS[name]().update_from_dict(_json_object(args.config))
        config.update_from_dict(_flags(args))
        algorithm = config.build()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    try:
        stop = _stop(args, algorithm)
        return algorithm, _directory(args, run_name(name, algorithm.config.env)), stop
    except BaseException:
        algorithm.stop()
        raise


def _resume(args: argparse.Namespace) -> tuple[Any, str, Any]:
    from rollmill.checkpoint import as_checkpoint_path, find_resume
    from rollmill.results import RESULT_FILE
    from rollmill.run import default_output, run_name

    for name in ("algorithm", "env", "config", "seed", "preset"):
        if getattr(args, name) is not None:
            flag = "run" if name == "algorithm" else name
            raise UsageError(
                f"--resume goes on with the checkpoint's own options, got --{flag} too"
            )
    path = args.resume
    if path is True:
        path = find_resume(default_output() if args.output is None else args.output, args.name)
    else:
        path = checkpoint_of(path)
    algorithm = restored(path, **_flags(args))
    try:
        stop = _stop(args, algorithm)
        run = Path(as_checkpoint_path(path)).absolute().parent
        if args.resume is True or (args.name is None and (run / RESULT_FILE).is_file()):
            return algorithm, str(run), stop
        # A checkpoint that lies elsewhere than in a run's directory, or is to go on elsewhere.
        return algorithm, _directory(args, run_name(algorithm.name, algorithm.config.env)), stop
    except BaseException:
        algorithm.stop()
        raise


def _stop(args: argparse.Namespace, algorithm: Any) -> Any:
    """Return the criteria, checked against the names that results have."""
    from rollmill.names import unknown
    from rollmill.presets import find_stop
    from rollmill.stopping import StopCriteria, parse_stop

    if args.stop is None:
        config = algorithm.config
        return StopCriteria(find_stop(algorithm.name, config.env, config.env_config, config.preset))
    try:
        stop = parse_stop(args.stop)
    except ValueError as error:
        raise UsageError(str(error)) from error
    names = algorithm.result_names()
    for name in stop.criteria:
        if name not in names:
            raise UsageError(unknown("stop criterion", name, names))
    return stop


def _directory(args: argparse.Namespace, name: str) -> str:
    """Make the directory of a new run."""
    from rollmill.run import default_output, new_run_directory

    if args.output == "":
        raise UsageError("--output must be a directory, got an empty name")
    try:
        return new_run_directory(
            default_output() if args.output is None else args.output,
            name if args.name is None else args.name,
        )
    except ValueError as error:
        raise UsageError(f"--{error}") from error


def _flags(args: argparse.Namespace) -> dict[str, Any]:
    names = ("env", "seed", "preset", "num_workers", "num_threads", "address")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _json_object(text: str | None) -> dict[str, Any]:
    from rollmill.results import json_loads

    if text is None:
        return {}
    example = """'{"noise_stdev": 0.1}'"""
    try:
        value = json_loads(text)
    except ValueError as error:
        raise UsageError(f"--config must be a JSON object such as {example}: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"--config must be a JSON object such as {example}, got {text!r}")
    return value


@contextlib.contextmanager
def _progress(args: argparse.Namespace, stop: Any) -> Iterator[Any]:
    """Show a live line on standard error."""
    if args.quiet:
        yield None
        return
    from tqdm import tqdm

    most = stop.criteria.get("training_iteration") if stop else None
    with tqdm(
        total=most,
        unit="iter",
        desc="training",
        file=sys.stderr,
        dynamic_ncols=True,
        leave=False,
        mininterval=0.1 if sys.stderr.isatty() else 10.0,
    ) as bar:

        def show(result: dict[str, Any]) -> None:
            reward, length = result["episode_reward_mean"], result["episode_len_mean"]
            figures = {
                "reward": "-" if reward is None else f"{reward:.4g}",
                "length": "-" if length is None else f"{length:.4g}",
                "steps": f"{result['timesteps_total']:.3g}",
                "steps/s": f"{result['steps_per_second']:.3g}",
            }
            bar.set_postfix(figures, refresh=False)
            bar.n = result["training_iteration"]
            bar.update(0)
            if bar.n == 1:
                bar.refresh()

        yield show


def _summary(algorithm: Any, outcome: Any, *, report: bool) -> dict[str, Any]:
    """Return what `--json` prints."""
    best = algorithm.evaluate_best() if report else {}
    result, config = outcome.result, algorithm.config
    facts = algorithm.engine.facts()
    return {
        "algorithm": algorithm.name,
        "env": config.env,
        "seed": algorithm.seed,
        "engine": algorithm.engine.name,
        "num_workers": algorithm.engine.num_workers,
        "num_threads": algorithm.engine.num_threads,
        "iterations": algorithm.iteration,
        "timesteps_total": algorithm.timesteps_total,
        "episodes_total": algorithm.episodes_total,
        "episode_reward_mean": best.get("reward_mean", result.get("episode_reward_mean")),
        "episode_len_mean": best.get("len_mean", result.get("episode_len_mean")),
        "evaluation_episodes": best.get("episodes", 0),
        "evaluation_reward_sem": best.get("reward_sem"),
        "best_iteration": algorithm.best_iteration,
        "time_total_s": algorithm.time_total_s,
        "steps_per_second": algorithm.timesteps_total / max(algorithm.time_total_s, 1e-9),
        "pairs_dropped": algorithm.pairs_dropped,
        "tied_iterations": algorithm.tied_iterations,
        "reproducible": algorithm.reproducible,
        "stopped_by": outcome.stopped_by,
        "results": outcome.directory,
        "checkpoint": outcome.checkpoint,
        "parameters_sha256": algorithm.parameters_sha256,
        **({"ray": facts} if algorithm.engine.name == "ray" else {}),
    }


def _text(algorithm: Any, outcome: Any, summary: dict[str, Any]) -> str:
    """Return the summary for people."""
    s = summary
    where = f"{s['num_threads']} threads"
    if s["engine"] == "ray":
        where = f"{s['num_workers']} Ray workers"
    lines = [
        f"{s['algorithm']} on {s['env']}, seed {s['seed']}, {where}",
        f"{s['iterations']} iterations, {s['episodes_total']:,} episodes, "
        f"{s['timesteps_total']:,} steps in {s['time_total_s']:.2f} s "
        f"({s['steps_per_second']:,.0f} steps/s)",
    ]
    if outcome.stopped_by:
        lines.append(f"ended: {outcome.stopped_by}")
    if s["evaluation_episodes"] and s["episode_reward_mean"] is not None:
        lines.append(
            f"best policy (iteration {s['best_iteration']}): "
            f"reward {s['episode_reward_mean']:.4g}, length {s['episode_len_mean']:.4g}, "
            f"over {s['evaluation_episodes']} episodes of seeds not trained on"
        )
    if s["pairs_dropped"]:
        lines.append(f"{s['pairs_dropped']} pairs were dropped")
    if s["tied_iterations"]:
        lines.append(f"{s['tied_iterations']} iterations had equal returns throughout")
    if not s["reproducible"]:
        lines.append("not reproducible: a failure or a mixed cluster may have changed the result")
    picture = _picture(algorithm)
    lines += ["", picture, ""] if picture else [""]
    quoted = shlex.quote(s["checkpoint"])
    lines += [
        f"results:     {s['results']}",
        f"checkpoint:  {s['checkpoint']}",
        f"parameters:  sha256 {s['parameters_sha256']}",
        f"evaluate:    rollmill evaluate {quoted}",
        f"go on:       rollmill train --resume {quoted} --stop "
        + shlex.quote(json.dumps({"training_iteration": s["iterations"] + 10})),
    ]
    return "\n".join(lines)


def _picture(algorithm: Any) -> str:
    """Draw the best policy's way, where the environment is a maze."""
    from rollmill.envs.registration import MAZE_ID

    spec = algorithm.spec.env
    if spec.id != MAZE_ID or spec.kwargs.get("rows", 5) * spec.kwargs.get("columns", 5) > 1000:
        return ""
    from rollmill.envs.drawing import draw_path

    picture, steps, arrived = draw_path(algorithm.best_policy(), **spec.kwargs)
    return f"{picture}\n{'arrives after' if arrived else 'not there after'} {steps} steps"
