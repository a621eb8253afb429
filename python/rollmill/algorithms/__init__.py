"""Algorithms: configs and training loops."""

from .algorithm import Algorithm
from .ars import ARS
from .ars_config import ARSConfig
from .es import ES
from .es_config import ESConfig
from .es_worker import EsBatch, EsWorker, gradient

__all__ = [
    "ALGORITHMS",
    "ARS",
    "ES",
    "ARSConfig",
    "Algorithm",
    "ESConfig",
    "EsBatch",
    "EsWorker",
    "gradient",
]

#: By the name that `--run` takes: the config class; its algorithm is `config.build()`.
ALGORITHMS: dict[str, type[ESConfig] | type[ARSConfig]] = {"ES": ESConfig, "ARS": ARSConfig}
