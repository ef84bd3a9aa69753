"""Tests of the number of threads: affinity, container limits and busy cores."""

import json
import subprocess
import sys

import pytest
import torch

from elmo import threads
from elmo.threads import BusyCores, choose_threads, n_cores, restore_threads


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Simulate a machine with four cores; return a function that sets its CPU times in ticks."""
    monkeypatch.setattr(threads, "PROC", tmp_path / "proc")
    monkeypatch.setattr(threads, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(threads, "allowed_cores", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(threads.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(threads.os, "getpriority", lambda which, who: 0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads._Choice, "is_automatic", False)
    clock = {"now": 0.0, "own": 0.0}
    monkeypatch.setattr(threads.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(threads.time, "process_time", lambda: clock["own"])
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "cgroup").mkdir()

    def set_times(now, own, user=0, nice=0, steal=0, other_core=0):
        clock.update(now=now, own=own)
        lines = ["cpu 1 1 1 1 1 1 1 1 0 0"]
        lines += [f"cpu{core} 100 0 0 50 0 0 0 0 0 0" for core in range(1, 4)]
        lines += [f"cpu0 {100 + user} {nice} 0 50 0 0 0 {steal} 0 0"]
        lines += [f"cpu7 {other_core} 0 0 0 0 0 0 0 0 0", "intr 5"]
        (tmp_path / "proc" / "stat").write_text("\n".join(lines))

    set_times(0.0, 0.0)
    return set_times


@pytest.fixture
def four_threads():
    """Set the number of PyTorch threads to four during a test."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("times", "n_free"),
    [
        ({"user": 200}, 4),  # only this process
        ({"user": 400}, 3),  # one other process
        ({"user": 280}, 4),  # less than half a core
        ({"user": 2000}, 1),
        ({"user": 200, "nice": 400}, 4),
        ({"user": 200, "steal": 200}, 3),
        ({"user": 200, "other_core": 800}, 4),
    ],
)
def test_busy_cores_are_not_free(machine, times, n_free):
    busy = BusyCores()
    machine(2.0, 2.0, **times)
    assert busy.n_free() == n_free


def test_processes_of_equal_low_priority_count_as_busy(machine, monkeypatch):
    monkeypatch.setattr(threads.os, "getpriority", lambda which, who: 19)
    busy = BusyCores()
    machine(2.0, 2.0, nice=400)
    assert busy.n_free() == 3


def test_short_measurement_and_missing_files_mean_no_busy_cores(machine, tmp_path):
    busy = BusyCores()
    machine(0.1, 0.0, user=1000)
    assert busy.n_free() == 4
    (tmp_path / "proc" / "stat").unlink()
    assert BusyCores().n_free() == 4


@pytest.mark.parametrize(
    ("line", "files", "expected"),
    [
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "max 100000"}, 4),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        (
            "3:cpu,cpuacct:/x",
            {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"},
            2,
        ),
        ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ("2:memory:/", {"cpu.max": "100000 100000"}, 4),
    ],
)
@pytest.mark.usefixtures("machine")
def test_n_cores_respects_limit_of_container(tmp_path, line, files, expected):
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"{line}\n")
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert n_cores() == expected


@pytest.mark.usefixtures("four_threads")
def test_choose_threads_leaves_busy_cores_to_other_processes(machine):
    busy = BusyCores()
    machine(2.0, 2.0, user=600)
    assert choose_threads(busy, is_dynamic=True) == ""
    assert torch.get_num_threads() == 4
    message = choose_threads(busy, is_dynamic=False)
    assert message.startswith("Using 2 threads: other processes keep 2.0 of 4 cores busy.")
    assert torch.get_num_threads() == 2
    restore_threads(3)
    assert torch.get_num_threads() == 3
    restore_threads(5)
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("four_threads")
def test_number_set_by_the_user_is_not_changed(machine, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    busy = BusyCores()
    machine(2.0, 2.0, user=600)
    assert choose_threads(busy, is_dynamic=False) == ""
    restore_threads(2)
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(
    ("command", "is_shown"),
    [(["info", "small-en"], False), (["evaluate", "missing.txt", "--model", "small-en"], True)],
)
def test_command_line_uses_one_thread_if_all_cores_are_busy(tmp_path, command, is_shown):
    """The measurement lasts as long as the import of torch."""
    program = """
import json, os, sys
from elmo import cli, threads
del os.environ["OMP_NUM_THREADS"]
threads._busy_seconds = lambda cores: 100.0 * threads.time.monotonic()
try:
    cli.application(sys.argv[1:])(sys.argv[1:])
finally:
    import torch
    print(json.dumps([torch.get_num_threads(), threads._Choice.is_automatic]), file=sys.stderr)
"""
    result = subprocess.run(
        [sys.executable, "-c", program, *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert json.loads(result.stderr.splitlines()[-1]) == [1, True]
    assert ("Using 1 thread" in result.stderr) == is_shown
