"""The parts of the Ray engine that need no Ray."""

import os
import secrets
import subprocess
import sys
import threading

import numpy as np
import pytest
from engines import make_spec, make_task
from rollmill.cluster import marker
from rollmill.cluster.jobs import EpisodeJob
from rollmill.cluster.troubles import CRASHES, DEATHS, DROPS, EnvironmentCrash, Troubles
from rollmill.cluster.worker import UnitWorker
from rollmill.rollouts import Rollouts

WAYS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "Segmentation fault",
    "ctypes.string_at(0)": "Segmentation fault",
    "ctypes.CDLL(None).abort()": "Aborted",
    "ctypes.CDLL(None).exit(3)": "exit",
    "ctypes.CDLL(None).exit(0)": "exit",
    "os.kill(os.getpid(), signal.SIGFPE)": "Floating point exception",
    "os.kill(os.getpid(), signal.SIGKILL)": "",
    "os._exit(3)": "",
}


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(("way", "said"), WAYS.items())
def test_marker_says_how_a_process_ended(way, said, thread):
    name = secrets.token_hex(8)
    run = f"threading.Thread(target=lambda: {way}).start()" if thread else way
    program = (
        "import ctypes, os, signal, sys, threading; from rollmill.cluster.marker import Marker; "
        f"marker = Marker({name!r}); {run}; signal.pause()"
    )
    subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, timeout=60)
    assert marker.read(name) == said
    assert marker.read(name) is None, "it is read once"


def test_marker_of_a_process_that_leaves_is_removed():
    name = secrets.token_hex(8)
    program = f"from rollmill.cluster.marker import Marker; Marker({name!r}).remove()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert marker.read(name) is None


def test_old_markers_of_the_dead_are_swept_and_those_of_the_living_kept():
    dead, living, new = (secrets.token_hex(8) for _ in range(3))
    program = "import sys; from rollmill.cluster.marker import Marker; marker = Marker(sys.argv[1])"
    folder = marker.directory()
    subprocess.run([sys.executable, "-c", program, dead], check=True, timeout=60)
    wait = [sys.executable, "-c", f"{program}; print(flush=True); sys.stdin.read()", living]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        for name in (dead, living):
            os.utime(folder / f"worker-{name}", (0, 0))
        subprocess.run([sys.executable, "-c", program, new], check=True, timeout=60)
        assert marker.read(dead) is None
        assert (folder / f"worker-{living}").exists()
        process.communicate()
    for name in (living, new):
        assert marker.read(name) is not None


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "ABCDEF0123", "0" * 65])
def test_marker_name_is_checked(name):
    with pytest.raises(ValueError, match="hexadecimal"):
        marker.read(name)


def test_marker_folder_of_others_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(marker.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / f"rollmill-{os.getuid()}").mkdir(mode=0o700)
    assert marker.directory() is not None
    os.chmod(tmp_path / f"rollmill-{os.getuid()}", 0o777)
    assert marker.directory() is None
    assert marker.Marker(secrets.token_hex(8)).path is None


@pytest.fixture
def worker(drift):
    worker = UnitWorker(secrets.token_hex(8), 2)
    spec = make_spec(drift, "drift_slow")
    worker.configure(spec)
    yield worker, spec
    worker.leave()


def test_worker_gives_all_units_in_pieces(worker):
    worker, spec = worker
    task = make_task(spec)
    reply = worker.run(1, task, "units", 3, 5)
    want = Rollouts(spec).units(task, 3, 5, np.zeros(1, np.int32))
    assert [piece.first_unit for piece in reply.pieces] == [3, 5, 7]
    assert np.concatenate([piece.pairs for piece in reply.pieces]).tobytes() == want.pairs.tobytes()
    assert reply.seconds > 0


@pytest.mark.parametrize("how", ["cancel", "later call"])
def test_worker_stops_at_once_when_an_epoch_is_over(worker, how):
    worker, spec = worker
    task = make_task(spec)
    replies = []
    thread = threading.Thread(target=lambda: replies.append(worker.run(5, task, "units", 0, 4000)))
    thread.start()
    while worker._epoch != 5:
        pass
    if how == "cancel":
        worker.cancel(5)
    else:
        assert len(worker.run(6, task, "iteration", 0, 1).pieces) == 1
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert sum(piece.units for piece in replies[0].pieces) < 4000
    assert worker.run(4, task, "units", 0, 2).pieces == ()
    assert worker.run(5, task, "units", 0, 2).pieces == ()
    assert len(worker.run(7, task, "units", 0, 2).pieces) == 2


def test_worker_does_not_begin_what_was_cancelled_before(worker):
    worker, spec = worker
    worker.cancel(9)
    assert worker.run(9, make_task(spec), "units", 0, 100).pieces == ()


def test_episode_job_takes_what_comes_in_any_order():
    job = EpisodeJob("report", 10)
    assert job.claim(4) == (0, 4)
    assert job.claim(100) == (4, 6)
    assert job.claim(1) is None
    job.requeue(0, 3)
    assert job.claim(2) == (0, 2)
    assert job.reissued == 2
    records = np.zeros(10, job.records.dtype)
    records["episode"] = np.arange(10)
    job.add((2, records[2:7]), "a")
    assert job.wanted() == 0, "what has arrived is not wanted again"
    job.add((0, records[:3]), "b")
    assert not job.complete
    job.drop(9)
    job.add((7, records[7:9]), "c")
    assert job.complete
    assert job.records["episode"].tolist() == list(range(10))
    assert np.flatnonzero(job.records["status"]).tolist() == [9]


class TestTroubles:
    def test_first_death_costs_nothing(self):
        troubles = Troubles()
        assert troubles.death([1, 2, 3]) == ([1, 2, 3], [])
        assert troubles.verdict([1, 2, 3], [], crash=False) == []
        assert not troubles.suspects

    def test_second_death_is_held_until_it_is_known(self):
        troubles = Troubles()
        troubles.death([1, 2])
        assert troubles.death([2, 3]) == ([3], [2])
        assert troubles.alone == []
        troubles.verdict([2, 3], [2], crash=False)
        assert troubles.alone == [2]

    def test_only_who_crashed_alone_is_dropped(self):
        troubles = Troubles()
        for _ in range(CRASHES + 1):
            _, held = troubles.death([4, 5])
            assert troubles.verdict([4, 5], held, crash=True) == []
        troubles.alone.clear()
        _, held = troubles.death([5])
        assert troubles.verdict([5], held, crash=True) == [5]
        assert troubles.dropped == [5]
        assert 5 not in troubles.alone

    def test_kills_never_drop_and_end_the_run_at_last(self):
        troubles = Troubles()
        for _ in range(DEATHS - 1):
            _, held = troubles.death([7])
            assert troubles.verdict([7], held, crash=False) == []
        with pytest.raises(EnvironmentCrash, match=f"{DEATHS} processes .* unit 7, 0 of them"):
            troubles.death([7])

    def test_too_many_drops_end_the_run(self):
        troubles = Troubles()

        def crash(item):
            for _ in range(CRASHES):
                _, held = troubles.death([item])
                troubles.verdict([item], held, crash=True)

        for item in range(DROPS):
            crash(item)
        with pytest.raises(EnvironmentCrash, match="the environment crashes"):
            crash(DROPS)

    def test_third_deadline_ends_the_run(self):
        troubles = Troubles("episode")
        troubles.deadline([1, 2], 5)
        troubles.deadline([2], 5)
        assert sorted(troubles.alone) == [1, 2]
        with pytest.raises(EnvironmentCrash, match=r"episode 2 did not answer .* 5 s in 3"):
            troubles.deadline([2], 5)


def test_cluster_package_does_not_import_ray():
    program = "import sys, rollmill.cluster; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
