"""Print what this machine can do on one core: the floors of the benchmarks.

Run: python benchmarks/machine.py
"""

from rollmill.machine import measure_machine
from rollmill.results import json_dumps

if __name__ == "__main__":
    for name, value in measure_machine().to_dict().items():
        print(f"{name:<24}{value if isinstance(value, str) else json_dumps(value)}")
