"""Optimisers with their state: the kernels of `rollmill._optim` over flat float32 vectors."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._optim import adam_step, clipup_step, sgd_step
from .names import unknown

Vector = NDArray[np.float32]


class Optimizer(Protocol):
    """Moves parameters against a gradient."""

    steps: int  #: updates made so far
    stepsize: float  #: of the next update

    def update(self, theta: Vector, gradient: Vector) -> Vector:
        """Return the new parameters; theta is left as it is."""
        ...

    def state(self) -> dict[str, Vector]:
        """Return the arrays that a checkpoint keeps, beside `steps`."""
        ...


class Adam:
    """Adam (Kingma and Ba, 2015), and AdamW (Loshchilov and Hutter, 2019) with a weight decay.

    Parameters
    ----------
    num_params : int
    stepsize : float
    beta1, beta2 : float in [0, 1)
    epsilon : float > 0
    weight_decay : float >= 0
        theta -= stepsize*weight_decay*theta, beside the step of Adam.
    """

    def __init__(
        self,
        num_params: int,
        stepsize: float,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        self.stepsize, self.beta1, self.beta2, self.epsilon = stepsize, beta1, beta2, epsilon
        self.weight_decay = weight_decay
        self.steps = 0
        self.m = np.zeros(num_params, np.float32)
        self.v = np.zeros(num_params, np.float32)

    def update(self, theta: Vector, gradient: Vector) -> Vector:
        """Return the new parameters; theta is left as it is."""
        new = np.array(theta, np.float32)
        self.steps += 1
        adam_step(
            new, self.m, self.v, gradient, self.steps, self.stepsize, self.beta1, self.beta2,
            self.epsilon, self.weight_decay,
        )  # fmt: skip
        return new

    def state(self) -> dict[str, Vector]:
        """Return the decayed means of the gradient and of its square."""
        return {"m": self.m, "v": self.v}


class SGD:
    """SGD with momentum: v = momentum*v + (1 - momentum)*gradient; theta -= stepsize*v.

    Parameters
    ----------
    num_params : int
    stepsize : float
    momentum : float in [0, 1)
    """

    def __init__(self, num_params: int, stepsize: float, momentum: float = 0.9):
        self.stepsize, self.momentum = stepsize, momentum
        self.steps = 0
        self.v = np.zeros(num_params, np.float32)

    def update(self, theta: Vector, gradient: Vector) -> Vector:
        """Return the new parameters; theta is left as it is."""
        new = np.array(theta, np.float32)
        self.steps += 1
        sgd_step(new, self.v, gradient, self.stepsize, self.momentum)
        return new

    def state(self) -> dict[str, Vector]:
        """Return the velocity."""
        return {"v": self.v}


class ClipUp:
    """ClipUp (Toklu, Liskowski, Srivastava, 2020): normalised gradients, steps of bounded length.

    v = momentum*v + stepsize*gradient/|gradient|, cut to the length max_speed; theta -= v.

    Parameters
    ----------
    num_params : int
    stepsize : float
    momentum : float in [0, 1)
    max_speed : float > 0, optional
        Default: twice the stepsize, also where that changes.
    """

    def __init__(
        self,
        num_params: int,
        stepsize: float,
        momentum: float = 0.9,
        max_speed: float | None = None,
    ):
        self.stepsize, self.momentum, self.max_speed = stepsize, momentum, max_speed
        self.steps = 0
        self.v = np.zeros(num_params, np.float32)

    def update(self, theta: Vector, gradient: Vector) -> Vector:
        """Return the new parameters; theta is left as it is."""
        new = np.array(theta, np.float32)
        self.steps += 1
        speed = 2 * self.stepsize if self.max_speed is None else self.max_speed
        clipup_step(new, self.v, gradient, self.stepsize, speed, self.momentum)
        return new

    def state(self) -> dict[str, Vector]:
        """Return the velocity."""
        return {"v": self.v}


def make_optimizer(name: str, num_params: int, **options: Any) -> Optimizer:
    """Build an optimiser: "adam", "adamw", "sgd" or "clipup", with its own options."""
    kinds: dict[str, Any] = {"adam": Adam, "adamw": Adam, "sgd": SGD, "clipup": ClipUp}
    if name not in kinds:
        raise ValueError(unknown("optimizer", name, kinds))
    return kinds[name](num_params, **options)
