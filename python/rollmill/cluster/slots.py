"""Where actors go: the free processors of a cluster."""

from __future__ import annotations

import logging
import time

import ray

logger = logging.getLogger(__name__)

#: Seconds in which slots that another run has just left become free.
GRANT_SECONDS = 3.0


def plan(num_workers: int, slots_per_actor: int) -> list[tuple[str | None, int]]:
    """Spread slots over nodes: (node, slots) for each actor, the freest nodes first.

    Fewer free slots than asked for are warned about; none is a RuntimeError.
    """
    until = time.monotonic() + GRANT_SECONDS
    while True:
        free = free_slots()
        if sum(free.values()) >= num_workers or time.monotonic() > until:
            break
        time.sleep(0.1)
    found = sum(free.values())
    if not found:
        total = int(ray.cluster_resources().get("CPU", 0))
        raise RuntimeError(
            f"{num_workers} workers were asked for, and none of the cluster's {total} CPUs is free"
        )
    if found < num_workers:
        logger.warning(
            "%d workers were asked for and %d CPUs are free: going on with %d",
            num_workers, found, found,
        )  # fmt: skip
    actors: list[tuple[str | None, int]] = []
    left = num_workers
    for node in sorted(free, key=lambda node: (-free[node], node or "")):
        here = min(left, free[node])
        left -= here
        while here > 0:
            actors.append((node, min(slots_per_actor, here)))
            here -= slots_per_actor
    return actors


def free_slots() -> dict[str | None, int]:
    """Whole CPUs that are free, by node; through Ray Client, where nodes do not show, in all."""
    from ray._private.state import available_resources_per_node

    if ray.util.client.ray.is_connected():
        return {None: int(ray.available_resources().get("CPU", 0))}
    alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    return {
        node: int(resources.get("CPU", 0))
        for node, resources in available_resources_per_node().items()
        if node in alive
    }
