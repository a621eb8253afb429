"""The command line: `rollmill train | evaluate | bench | info`."""

from .main import main

__all__ = ["main"]
