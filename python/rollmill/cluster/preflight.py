"""What a process computes with: version, build, processor. Compared before the first unit."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import rollmill
from rollmill import _isa, _rollout
from rollmill.envs.gymnasium_env import GymnasiumSpec
from rollmill.envs.native import EnvSpec
from rollmill.envs.registration import MAZE_ID
from rollmill.rollouts import Rollouts, RolloutSpec, Task


@dataclass(frozen=True)
class Description:
    """One process, as the others need to know it.

    Attributes
    ----------
    version, build, python : str
        Of the package, of its extension modules (a hash), of the interpreter.
    processor, isa : str
        The processor's name and features, and the kernels' instruction set.
    checksum : str
        Hash of a small unit of a built-in environment.
    host : str
    pid : int
    """

    version: str
    build: str
    python: str
    processor: str
    isa: str
    checksum: str
    host: str
    pid: int

    @property
    def source(self) -> str:
        """The process, as `Answer.source` names it."""
        return f"{self.host}:{self.pid}"


@cache
def describe() -> Description:
    """Describe this process."""
    return Description(
        version=rollmill.__version__,
        build=_build(),
        python=platform.python_version(),
        processor=_processor(),
        isa=_isa.isa_name(),
        checksum=_checksum(),
        host=socket.gethostname(),
        pid=os.getpid(),
    )


def mismatch(here: Description, there: Description) -> str | None:
    """Why a worker cannot compute for this driver, in one sentence; None if it can."""
    for name, ours, theirs in (
        ("rollmill", here.version, there.version),
        ("a build of rollmill", here.build, there.build),
    ):
        if ours != theirs:
            return (
                f"the worker on {there.host} has {name} {theirs}, and the driver on {here.host} "
                f"has {ours}: install the same wheel on every node"
            )
    return None


def library_digest(env: EnvSpec | GymnasiumSpec) -> str | None:
    """Hash of the file that an environment comes from; None for a built-in one.

    For one that the interpreter steps it is that of its module and of Gymnasium's version.
    """
    if not isinstance(env, EnvSpec):
        return env.digest()
    library = Path(env.id.rpartition(":")[0] or ".")
    return _digest(library.read_bytes()) if library.is_file() else None


def _build() -> str:
    folder = Path(_rollout.__file__).parent
    parts = (part for file in sorted(folder.glob("_*.so")) for part in (file.name.encode(),
             file.read_bytes()))  # fmt: skip
    return _digest(*parts)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    name = facts.get("model name", platform.machine())
    flags = facts.get("flags") or facts.get("Features") or ""
    return f"{name} [{_digest(' '.join(sorted(flags.split())).encode())}]"


def _checksum() -> str:
    """Run noise, policy, softmax and environment on numbers that need no rounding to write."""
    spec = RolloutSpec(
        env=EnvSpec(MAZE_ID), hiddens=(8,), activation="tanh", key=1, noise_size=4096,
        gamma=0.75, unit_pairs=2, sample_actions=True,
    )  # fmt: skip
    rollouts = Rollouts(spec)
    theta = ((np.arange(rollouts.policy.num_params) % 7 - 3) / 8).astype(np.float32)
    answer = rollouts.units(Task(0, theta, 0.5, 16), 0, 2, np.zeros(1, np.int32))
    return _digest(answer.pairs.tobytes())


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:12]
