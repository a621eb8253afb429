"""The noise table as an object that the processes of a node share."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rollmill._noise import Noise
from rollmill.rollouts import RolloutSpec

#: Room for parameters beside the table: two generations and one on its way, in bytes.
BESIDE = 64 << 20


def fill_table(key: int, size: int) -> NDArray[np.float32]:
    """The whole noise of a key; (size,) float32."""
    return Noise(key, size).fill(0, size)


# Zero CPUs: actors may hold all there are. Ray builds a table that is lost again by itself.
_fill = ray.remote(num_cpus=0, max_retries=3)(fill_table)


class Tables:
    """One table a node, made when the node's first actor needs it. Losing one loses nothing.

    Raises ValueError if a node's object store cannot hold it: Ray would write it to disk silently.
    """

    def __init__(self, spec: RolloutSpec):
        self.key, self.size = spec.key, spec.noise_size
        self._refs: dict[str | None, Any] = {}
        needed = 4 * self.size + BESIDE
        for node in ray.nodes():
            store = int(node["Resources"].get("object_store_memory", 0))
            if node["Alive"] and store < needed:
                raise ValueError(
                    f"a noise table of {4 * self.size / 1e9:.1f} GB does not fit the object store "
                    f"of {node['NodeManagerHostname']}, {store / 1e9:.1f} GB: take generated "
                    f"noise, which has the same bits, or a larger object_store_memory"
                )

    def on(self, node: str | None) -> Any:
        """The reference of the node's table."""
        if node not in self._refs:
            fill = _fill
            if node is not None:
                strategy = NodeAffinitySchedulingStrategy(node, soft=True)
                fill = _fill.options(scheduling_strategy=strategy)
            self._refs[node] = fill.remote(self.key, self.size)
        return self._refs[node]
