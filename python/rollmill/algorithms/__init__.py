"""Algorithms: configs and training loops."""

from .algorithm import Algorithm
from .es import ES
from .es_config import ESConfig

__all__ = ["ALGORITHMS", "ES", "Algorithm", "ESConfig"]

#: By the name that `--run` takes: the config class; its algorithm is `config.build()`.
ALGORITHMS = {"ES": ESConfig}
