import json
import os
import subprocess
import sys

import pytest
import rollmill

HEAVY = ("ray", "matplotlib", "torch", "tensorboard", "scipy.linalg", "pandas")

SCRIPT = """
import json, sys
{0}
print(json.dumps([name for name in {1} if name in sys.modules]))
"""


def loaded_by(code, names=HEAVY):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(code, names)],
        capture_output=True, text=True, check=True, env=os.environ,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_nothing_heavy():
    assert loaded_by("import rollmill", (*HEAVY, "scipy")) == []


def test_import_registers_the_environments():
    code = "import rollmill, gymnasium\ngymnasium.make('rollmill/Maze-v0').close()"
    assert loaded_by(code) == []


def test_training_in_threads_loads_nothing_heavy():
    code = "from rollmill import ESConfig\nwith ESConfig(num_threads=1).build() as a: a.train()"
    assert loaded_by(code) == []


def test_help_loads_no_algorithm():
    code = "from rollmill.cli import main; assert main(['train', '--help']) == 0"
    assert loaded_by(code, (*HEAVY, "tqdm", "rollmill.algorithms")) == []


def test_public_names():
    for name in rollmill.__all__:
        assert getattr(rollmill, name)
    assert sorted(rollmill.__all__) == dir(rollmill)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = rollmill.nothing


def test_version_is_a_version():
    assert rollmill.__version__[0].isdigit()


def test_headers_are_found():
    assert os.path.isfile(os.path.join(rollmill.get_include(), "rollmill", "rollmill.h"))
