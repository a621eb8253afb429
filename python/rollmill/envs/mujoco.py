"""Gymnasium's MuJoCo tasks in C, over the MuJoCo that is installed."""

import ctypes
import functools
import glob
import importlib.util
import inspect
import math
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rollmill import _mujoco
from rollmill._env import NativeEnv
from rollmill._mujoco import Simulator
from rollmill._vector import DISABLED, TERMINATED, Vector
from rollmill.envs.mujoco_tasks import TASKS, Task, observation, parameters
from rollmill.envs.native import check_options
from rollmill.names import unknown

_INSTALL = "pip install 'rollmill[mujoco]'"
_CHECK_STEPS = 3
_CHECK_TOLERANCE = 1e-9  # of the self-check, absolute and relative

# Tasks that agreed with Gymnasium in this process: id, time of the model's file, options.
_checked_already: set[tuple[str, int, str]] = set()


class MujocoMisfit(RuntimeError):
    """The installed MuJoCo or Gymnasium is not one that the C environments fit."""


def supported(env_id: str, **options: Any) -> tuple[bool, str]:
    """Tell whether the C environment of a MuJoCo task runs here.

    Parameters
    ----------
    env_id : str
        One of TASKS, such as "Humanoid-v5".
    **options
        Its options.

    Returns
    -------
    runs : bool
    why_not : str
        One sentence, empty if it runs. Gymnasium's own environment may run all the same.

    Raises
    ------
    ValueError, TypeError, OSError
        On an unknown id or option, an option out of its range, or a model file that cannot be
        read: what Gymnasium would refuse too.
    """
    if env_id not in TASKS:
        raise ValueError(unknown("MuJoCo task", env_id, TASKS))
    try:
        builder(env_id)(**options)
    except (ImportError, MujocoMisfit) as error:
        return False, str(error)
    return True, ""


def builder(env_id: str) -> Callable[..., NativeEnv]:
    """Return the function that builds a task's C environment.

    It takes Gymnasium's arguments of the task, as far as they change more than pictures, and
    `max_episode_steps` (None or -1: no limit); its signature names them.
    """
    task = TASKS[env_id]
    known = {**task.options, "max_episode_steps": task.max_episode_steps}

    def build(**options: Any) -> NativeEnv:
        check_options(env_id, options, known)
        return _build(task, {**task.fixed, **_checked(env_id, known, options)})

    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in known.items()
        ],
        return_annotation=NativeEnv,
    )
    return build


def __getattr__(name: str) -> Any:
    """Give `rollmill.envs.native` the builder of an id."""
    if name in TASKS:
        return builder(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _checked(env_id: str, known: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return all options, each of its default's type."""
    result = dict(known)
    for name, value in options.items():
        default = known[name]
        if name == "max_episode_steps":
            result[name] = 0 if value in (None, -1) else _integer(env_id, name, value)
        elif name == "main_body":
            result[name] = value if isinstance(value, str) else operator.index(value)
        elif name == "frame_skip":
            result[name] = _integer(env_id, name, value)
        elif isinstance(default, bool):
            if not isinstance(value, bool | np.bool_):
                raise TypeError(f"{env_id} option {name} must be a bool, got {value!r}")
            result[name] = bool(value)
        elif isinstance(default, tuple):
            result[name] = _pair(env_id, name, value)
        elif isinstance(default, str):
            result[name] = os.fspath(value)
        else:
            result[name] = _number(env_id, name, value)
    return result


def _integer(env_id: str, name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{env_id} option {name} must be an integer, got {value!r}") from None
    if not 1 <= number < 2**32:
        raise ValueError(f"{env_id} option {name} must be in [1, 2^32), got {value!r}")
    return number


def _number(env_id: str, name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{env_id} option {name} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{env_id} option {name} must be finite, got {value!r}")
    return number


def _pair(env_id: str, name: str, value: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise TypeError(f"{env_id} option {name} must be two numbers, got {value!r}") from None
    if not low <= high:
        raise ValueError(f"{env_id} option {name} must not decrease, got {value!r}")
    return low, high


def _mujoco_package() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(f"MuJoCo environments need mujoco ({error}): {_INSTALL}") from None
    return mujoco


def _build(task: Task, options: dict[str, Any]) -> NativeEnv:
    mujoco = _mujoco_package()
    if task.env_id == "Pusher-v4" and int(mujoco.__version__.split(".")[0]) >= 3:
        raise MujocoMisfit(
            f"Pusher-v4 refuses mujoco 3 and later, got mujoco {mujoco.__version__}: use Pusher-v5"
        )
    path = _model_path(options["xml_file"])
    changed = os.stat(path).st_mtime_ns
    model, simulator = _simulator(path, changed)
    bodies = _bodies(task, options, model)
    env = _mujoco.environment(
        simulator,
        task.env_id,
        task=task.kind,
        version=task.version,
        max_episode_steps=options["max_episode_steps"],
        frame_skip=options["frame_skip"],
        observation=observation(task, options, simulator.sizes, bodies),
        init_qpos=model.qpos0,
        init_qvel=np.zeros(model.nv),
        action_low=model.actuator_ctrlrange[:, 0].astype(np.float32),
        action_high=model.actuator_ctrlrange[:, 1].astype(np.float32),
        body_mass=model.body_mass,
        timestep=model.opt.timestep,
        bodies=bodies,
        parameters=parameters(task, options),
    )
    name = task.env_id, changed, repr(sorted(options.items()))
    if name not in _checked_already:
        _check(task, env, options)
        _checked_already.add(name)
    return env


def _bodies(task: Task, options: dict[str, Any], model: Any) -> list[int]:
    """Return the numbers of the bodies that the task names."""
    mujoco = _mujoco_package()
    names = [options["main_body"]] if task.kind == "ant" else task.bodies
    numbers = []
    for name in names:
        number: int = name  # type: ignore[assignment]
        if isinstance(name, str):
            number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        if not 0 <= number < model.nbody:
            raise ValueError(f"{task.env_id}: the model has no body {name!r}")
        numbers.append(number)
    return numbers


def _model_path(xml_file: str) -> str:
    """Return where a model lies, by Gymnasium's rule."""
    if xml_file.startswith(("/", ".")):
        path = xml_file
    elif xml_file.startswith("~"):
        path = os.path.expanduser(xml_file)
    else:
        found = importlib.util.find_spec("gymnasium")
        if found is None or found.origin is None:
            raise ImportError(f"MuJoCo environments need gymnasium: {_INSTALL}")
        path = str(Path(found.origin).parent / "envs" / "mujoco" / "assets" / xml_file)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no MuJoCo model {path!r}")
    return os.path.abspath(path)


@functools.lru_cache(maxsize=16)
def _simulator(path: str, _changed: int) -> tuple[Any, Simulator]:
    """Return the model of a file and what steps it, shared by the environments that use it."""
    mujoco = _mujoco_package()
    library = _library(mujoco)
    model = mujoco.MjModel.from_xml_path(path)
    signature = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    # One for each thread that can run and some for those that the system has put aside.
    count = len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else 16
    simulator = Simulator(
        library,
        {name: _address(library, name) for name in _mujoco.FUNCTIONS},
        model,
        [mujoco.MjData(model) for _ in range(count)],
        signature,
        mujoco.mj_stateSize(model, signature),
    )
    return model, simulator


def _library(mujoco: Any) -> ctypes.CDLL:
    """Return the libmujoco that the Python package has loaded; never loads another."""
    version = mujoco.__version__
    folder = glob.escape(os.path.dirname(mujoco.__file__))
    names = [f"libmujoco.so.{version}", *sorted(glob.glob(f"{folder}/libmujoco*"))]
    for name in names:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            continue
        break
    else:
        raise MujocoMisfit(f"mujoco {version} has loaded no library libmujoco.so.{version}")
    _address(library, "mj_version")
    found, wanted = library.mj_version(), mujoco.mj_version()
    if found != wanted:
        raise MujocoMisfit(
            f"the loaded libmujoco has version {found}, the package mujoco {version} wants {wanted}"
        )
    if not (hasattr(mujoco.MjModel, "_address") and hasattr(mujoco.MjData, "_address")):
        raise MujocoMisfit(f"mujoco {version} does not tell the addresses of its structs")
    if getattr(mujoco, "MJTNUM_DTYPE", np.float64) != np.float64:
        raise MujocoMisfit(f"mujoco {version} computes in another type than float64")
    return library


def _address(library: ctypes.CDLL, name: str) -> int:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise MujocoMisfit(f"the loaded libmujoco has no function {name}") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _check(task: Task, env: NativeEnv, options: dict[str, Any]) -> None:
    """Compare a few steps with Gymnasium's."""
    why = _difference(task, env, options)
    if why:
        raise MujocoMisfit(
            f"{task.env_id} of the installed mujoco and gymnasium is not the one that rollmill "
            f"computes: {why}"
        )


def _difference(task: Task, env: NativeEnv, options: dict[str, Any]) -> str:
    """Step the environment and Gymnasium's side by side; say where they part, or nothing."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    entry_point = gymnasium.registry[task.env_id].entry_point
    try:
        create = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        twin: Any = create(**{name: options[name] for name in task.options})  # type: ignore[misc]
    except ImportError as error:
        raise ImportError(f"MuJoCo environments need more packages ({error}): {_INSTALL}") from None
    vector = Vector(env, 1, DISABLED)
    vector.reset(keys=np.zeros(1, np.uint64))
    wanted, _ = twin.reset(seed=0)
    got = _mujoco.place(vector, 0, twin.data.qpos.copy(), twin.data.qvel.copy())
    if got.shape != wanted.shape or not _near(got, wanted):
        return "the first observation differs"
    low, high = (np.clip(bound, -1, 1) for bound in (twin.action_space.low, twin.action_space.high))
    for step in range(1, _CHECK_STEPS + 1):
        action = (low + (high - low) * step / (_CHECK_STEPS + 1)).astype(np.float32)
        wanted, reward, terminated, _, _ = twin.step(action)
        obs, rewards, flags, _ = vector.step(action[None])
        if not _near(obs[0], wanted):
            return f"the observation of step {step} differs"
        if not _near(rewards[0], reward):
            return f"the reward of step {step} is {rewards[0]} and Gymnasium's {reward}"
        if (flags[0] == TERMINATED) != terminated:
            return f"step {step} terminates in one of them alone"
        if flags[0]:
            break
    twin.close()
    return ""


def _near(got: Any, wanted: Any) -> bool:
    return np.allclose(got, wanted, rtol=_CHECK_TOLERANCE, atol=_CHECK_TOLERANCE, equal_nan=True)
