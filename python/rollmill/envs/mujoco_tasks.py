"""Gymnasium's MuJoCo tasks: their arguments, observations and parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollmill._mujoco import Segment

_INF = float("inf")


@dataclass(frozen=True)
class Task:
    """What Gymnasium's class of an id takes and fixes."""

    env_id: str
    kind: str  # in rollmill._mujoco.TASKS
    max_episode_steps: int
    options: dict[str, Any]  # arguments and their defaults
    fixed: dict[str, Any]  # what would be an argument in another version
    bodies: tuple[str, ...] = ()  # that the task looks at by name

    @property
    def version(self) -> int:
        """4 or 5."""
        return int(self.env_id[-1])


# The model, mj_step calls a step, and the arguments of v5; those that v4 has too under `old`.
_RUN = {"forward_reward_weight": 1.0}
_HEALTH = {"healthy_reward": 1.0, "terminate_when_unhealthy": True}
_NO_POSITION = {"exclude_current_positions_from_observation": True}
_BODY_PARTS = {
    "include_cinert_in_observation": True,
    "include_cvel_in_observation": True,
    "include_qfrc_actuator_in_observation": True,
    "include_cfrc_ext_in_observation": True,
}


def _model(xml_file: str, frame_skip: int) -> dict[str, Any]:
    return {"xml_file": xml_file, "frame_skip": frame_skip}


_SWIMMER = {**_RUN, "ctrl_cost_weight": 1e-4, "reset_noise_scale": 0.1, **_NO_POSITION}
_HALF_CHEETAH = {**_RUN, "ctrl_cost_weight": 0.1, "reset_noise_scale": 0.1, **_NO_POSITION}
_HOPPER = {
    **_RUN,
    "ctrl_cost_weight": 1e-3,
    **_HEALTH,
    "healthy_state_range": (-100.0, 100.0),
    "healthy_z_range": (0.7, _INF),
    "healthy_angle_range": (-0.2, 0.2),
    "reset_noise_scale": 5e-3,
    **_NO_POSITION,
}
_WALKER2D = {
    **_RUN,
    "ctrl_cost_weight": 1e-3,
    **_HEALTH,
    "healthy_z_range": (0.8, 2.0),
    "healthy_angle_range": (-1.0, 1.0),
    "reset_noise_scale": 5e-3,
    **_NO_POSITION,
}
_ANT = {
    "ctrl_cost_weight": 0.5,
    "contact_cost_weight": 5e-4,
    **_HEALTH,
    "healthy_z_range": (0.2, 1.0),
    "contact_force_range": (-1.0, 1.0),
    "reset_noise_scale": 0.1,
    **_NO_POSITION,
}
_HUMANOID = {
    "forward_reward_weight": 1.25,
    "ctrl_cost_weight": 0.1,
    "healthy_reward": 5.0,
    "terminate_when_unhealthy": True,
    "healthy_z_range": (1.0, 2.0),
    "reset_noise_scale": 0.01,
    **_NO_POSITION,
}
_HUMANOID_CONTACTS = {"contact_cost_weight": 5e-7, "contact_cost_range": (-_INF, 10.0)}
_STANDUP = {
    "uph_cost_weight": 1.0,  # Gymnasium takes it and does not use it
    "ctrl_cost_weight": 0.1,
    "impact_cost_weight": 5e-7,
    "impact_cost_range": (-_INF, 10.0),
    "reset_noise_scale": 0.01,
    **_NO_POSITION,
    **_BODY_PARTS,
}
_REACHER = {"reward_dist_weight": 1.0, "reward_control_weight": 1.0}
_PUSHER = {"reward_near_weight": 0.5, "reward_dist_weight": 1.0, "reward_control_weight": 0.1}
_PENDULUM = {"reset_noise_scale": 0.01}
_DOUBLE_PENDULUM = {"healthy_reward": 10.0, "reset_noise_scale": 0.1}

_REACHER_BODIES = ("fingertip", "target")
_PUSHER_BODIES = ("object", "tips_arm", "goal")

_ALL = [
    Task("Swimmer-v4", "swimmer", 1000, _SWIMMER, _model("swimmer.xml", 4)),
    Task("Swimmer-v5", "swimmer", 1000, {**_model("swimmer.xml", 4), **_SWIMMER}, {}),
    Task("HalfCheetah-v4", "half_cheetah", 1000, _HALF_CHEETAH, _model("half_cheetah.xml", 5)),
    Task(
        "HalfCheetah-v5",
        "half_cheetah",
        1000,
        {**_model("half_cheetah.xml", 5), **_HALF_CHEETAH},
        {},
    ),
    Task("Hopper-v4", "hopper", 1000, _HOPPER, _model("hopper.xml", 4)),
    Task("Hopper-v5", "hopper", 1000, {**_model("hopper.xml", 4), **_HOPPER}, {}),
    Task("Walker2d-v4", "walker2d", 1000, _WALKER2D, _model("walker2d.xml", 4)),
    Task("Walker2d-v5", "walker2d", 1000, {**_model("walker2d_v5.xml", 4), **_WALKER2D}, {}),
    Task(
        "Ant-v4",
        "ant",
        1000,
        {"xml_file": "ant.xml", "use_contact_forces": False, **_ANT},
        {"frame_skip": 5, "forward_reward_weight": 1.0, "main_body": "torso"},
    ),
    Task(
        "Ant-v5",
        "ant",
        1000,
        {
            **_model("ant.xml", 5),
            **_RUN,
            "main_body": 1,
            **_ANT,
            "include_cfrc_ext_in_observation": True,
        },
        {},
    ),
    Task("Humanoid-v4", "humanoid", 1000, _HUMANOID, _model("humanoid.xml", 5)),
    Task(
        "Humanoid-v5",
        "humanoid",
        1000,
        {**_model("humanoid.xml", 5), **_HUMANOID, **_HUMANOID_CONTACTS, **_BODY_PARTS},
        {},
    ),
    Task(
        "HumanoidStandup-v4",
        "humanoid_standup",
        1000,
        {},
        {**_model("humanoidstandup.xml", 5), **_STANDUP},
    ),
    Task(
        "HumanoidStandup-v5",
        "humanoid_standup",
        1000,
        {**_model("humanoidstandup.xml", 5), **_STANDUP},
        {},
    ),
    Task(
        "Reacher-v4", "reacher", 50, {}, {**_model("reacher.xml", 2), **_REACHER}, _REACHER_BODIES
    ),
    Task(
        "Reacher-v5", "reacher", 50, {**_model("reacher.xml", 2), **_REACHER}, {}, _REACHER_BODIES
    ),
    Task("Pusher-v4", "pusher", 100, {}, {**_model("pusher.xml", 5), **_PUSHER}, _PUSHER_BODIES),
    Task("Pusher-v5", "pusher", 100, {**_model("pusher_v5.xml", 5), **_PUSHER}, {}, _PUSHER_BODIES),
    Task(
        "InvertedPendulum-v4",
        "pendulum",
        1000,
        {},
        {**_model("inverted_pendulum.xml", 2), **_PENDULUM},
    ),
    Task(
        "InvertedPendulum-v5",
        "pendulum",
        1000,
        {**_model("inverted_pendulum.xml", 2), **_PENDULUM},
        {},
    ),
    Task(
        "InvertedDoublePendulum-v4",
        "double_pendulum",
        1000,
        {},
        {**_model("inverted_double_pendulum.xml", 5), **_DOUBLE_PENDULUM},
    ),
    Task(
        "InvertedDoublePendulum-v5",
        "double_pendulum",
        1000,
        {**_model("inverted_double_pendulum.xml", 5), **_DOUBLE_PENDULUM},
        {},
    ),
]
TASKS = {task.env_id: task for task in _ALL}

_SKIPPED = {"half_cheetah": 1, "hopper": 1, "walker2d": 1}  # qpos of the place; else 2


def observation(
    task: Task, options: Mapping[str, Any], sizes: Mapping[str, int], bodies: list[int]
) -> list[Segment]:
    """Return the parts of a task's observation.

    options : all of the task's, those that its class fixes too
    sizes : elements of each array of the model
    bodies : numbers of the bodies that the task names
    """

    def part(array: str, first: int = 0, stop: int | None = None, **kwargs: Any) -> Segment:
        end = sizes[array] if stop is None else min(stop, sizes[array])
        return Segment(array, min(first, end), max(end - first, 0), **kwargs)

    clipped: dict[str, Any] = {"map": "clip", "low": -10.0, "high": 10.0}
    kind, new = task.kind, task.version == 5
    if kind == "reacher":
        tip, target = bodies
        return [
            part("qpos", 0, 2, map="cos"),
            part("qpos", 0, 2, map="sin"),
            part("qpos", 2),
            part("qvel", 0, 2),
            Segment("xpos", 3 * tip, 2 if new else 3, "difference", 3 * target),
        ]
    if kind == "pusher":
        thing, arm, goal = bodies
        places = [Segment("xpos", 3 * body, 3) for body in (arm, thing, goal)]
        return [part("qpos", 0, 7), part("qvel", 0, 7), *places]
    if kind == "pendulum":
        return [part("qpos"), part("qvel")]
    if kind == "double_pendulum":
        return [
            part("qpos", 0, 1),
            part("qpos", 1, map="sin"),
            part("qpos", 1, map="cos"),
            part("qvel", **clipped),
            part("qfrc_constraint", 0, 1 if new else None, **clipped),
        ]
    skipped = _SKIPPED.get(kind, 2)
    parts = [part("qpos", skipped * options["exclude_current_positions_from_observation"])]
    parts.append(part("qvel", **(clipped if kind in ("hopper", "walker2d") else {})))
    forces = "include_cfrc_ext_in_observation" if new else "use_contact_forces"
    if kind == "ant" and options[forces]:
        low, high = options["contact_force_range"]
        parts.append(part("cfrc_ext", 6 * new, map="clip", low=low, high=high))
    if kind in ("humanoid", "humanoid_standup"):  # v5 leaves out the world and the free joint
        for array, world in (("cinert", 10), ("cvel", 6), ("qfrc_actuator", 6), ("cfrc_ext", 6)):
            if options.get(f"include_{array}_in_observation", True):
                parts.append(part(array, world * new))
    return parts


_PARAMETERS = {  # Gymnasium's name, and that of the C struct where it differs
    "forward_reward_weight": "forward_reward_weight",
    "ctrl_cost_weight": "ctrl_cost_weight",
    "reward_control_weight": "ctrl_cost_weight",
    "contact_cost_weight": "contact_cost_weight",
    "impact_cost_weight": "contact_cost_weight",
    "contact_cost_range": "contact_cost_range",
    "impact_cost_range": "contact_cost_range",
    "contact_force_range": "contact_force",
    "reward_near_weight": "reward_near_weight",
    "reward_dist_weight": "reward_dist_weight",
    "healthy_reward": "healthy_reward",
    "healthy_z_range": "healthy_z",
    "healthy_angle_range": "healthy_angle",
    "healthy_state_range": "healthy_state",
    "reset_noise_scale": "reset_noise_scale",
    "terminate_when_unhealthy": "terminate_when_unhealthy",
}


def parameters(task: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `rollmill._mujoco.environment`; arguments as `observation`."""
    result = {name: options[key] for key, name in _PARAMETERS.items() if key in options}
    if task.kind in ("ant", "humanoid"):
        result["contact_cost"] = options.get("use_contact_forces", task.version == 5)
    return result
