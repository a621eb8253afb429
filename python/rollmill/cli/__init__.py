"""The command line: `rollmill train | evaluate | info | bench | list`."""

from .main import main

__all__ = ["main"]
