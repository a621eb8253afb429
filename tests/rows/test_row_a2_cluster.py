"""Row A2: the same on a Ray cluster, with both bounds of the batch, and too many workers."""

import json
import subprocess
import sys

import pytest

CONFIG = {"num_workers": 900, "episodes_per_batch": 10000, "train_batch_size": 100000}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("flag", ["--address", "--redis-address"])
def test_row_a2_nine_hundred_workers_on_two_processors(ray2, home, flag):
    address = ray2.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "rollmill", "train", "--env=rollmill/Maze-v0", "--run=ES",
               f"{flag}={address}", "--config", json.dumps(CONFIG), "--seed", "1", "--quiet",
               "--stop", '{"training_iteration": 1}', "--output", str(home), "--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "900 workers were asked for and 2 CPUs are free: going on with 2" in done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["engine"], summary["num_workers"]) == ("ray", 2)
    assert summary["episodes_total"] >= 10000
    assert summary["timesteps_total"] >= 100000
