"""Number of threads: the cores that this process may use, without those that others keep busy.

PyTorch divides each operation evenly among its threads and waits for the slowest one. If another
process occupies a core, all threads wait for the one on that core, and two threads can be many
times slower than one.
"""

import os
import time
from pathlib import Path

# Shorter measurements are not reliable: the kernel counts in steps of 10 ms.
MIN_SECONDS = 0.2
CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
# Columns of /proc/stat: time of other processes that is not available to this one.
USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL = 0, 1, 2, 5, 6, 7


class _Choice:
    """Whether the command line has chosen the number of threads, and may change it again."""

    is_automatic = False


def choose_threads(busy: "BusyCores", *, is_dynamic: bool) -> str:
    """Set the number of PyTorch threads for a command, unless $OMP_NUM_THREADS is set.

    A dynamic command gives threads on busy cores less work, so it can use all cores. Returns a
    message if there are fewer threads than cores, otherwise an empty string.
    """
    import torch

    if configured_threads():
        return ""
    _Choice.is_automatic = True
    n_threads = n_cores() if is_dynamic else busy.n_free()
    if n_threads >= torch.get_num_threads():
        return ""
    torch.set_num_threads(n_threads)
    limit = f"{n_cores()} cores are available"
    if not is_dynamic and n_threads < n_cores():
        limit = f"other processes keep {busy.count():.1f} of {len(allowed_cores())} cores busy"
    return (
        f"Using {n_threads} {'thread' if n_threads == 1 else 'threads'}: {limit}. "
        "OMP_NUM_THREADS sets another number."
    )


def restore_threads(n_threads: int) -> None:
    """Use the number of threads of the run being resumed, for equal rounding.

    Nothing is changed if the number was set by the user or if there are too few cores.
    """
    import torch

    if _Choice.is_automatic and n_threads <= n_cores():
        torch.set_num_threads(n_threads)


def configured_threads() -> int | None:
    """Return the value of $OMP_NUM_THREADS; None if it is not set or not a number."""
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(setting) if setting.isdigit() and int(setting) else None


def allowed_cores() -> set[int]:
    """Return the ids of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def n_cores() -> int:
    """Return the number of cores for this process: its CPU affinity and its container's limit."""
    quota = _cgroup_quota()
    cores = len(allowed_cores())
    return cores if quota is None else max(1, min(cores, int(quota)))


def _cgroup_quota() -> float | None:
    """Return the number of cores that the control group may use; None if it is not limited."""
    quotas = []
    try:
        lines = (PROC / "self/cgroup").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = CGROUPS / "cpu" if controllers else CGROUPS
        inside = Path(path.lstrip("/"))
        quotas += [_read_quota(root / folder) for folder in (inside, *inside.parents)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _read_quota(folder: Path) -> float | None:
    """Return the quota of one control group in cores, in the files of version 2 or 1."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip()
                for name in ("quota", "period")
            )
        limit = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" is not a number
        return None
    return limit if limit > 0 else None


class BusyCores:
    """Measures how many cores other processes keep busy, from the creation of the instance on.

    The load average is not used, because it still counts the previous command of a script.
    """

    def __init__(self) -> None:
        self._cores = allowed_cores()
        self._start = self._times()

    def _times(self) -> tuple[float, float, float | None]:
        """Return the current time, the CPU time of this process and that of all processes."""
        return time.monotonic(), time.process_time(), _busy_seconds(self._cores)

    def count(self) -> float:
        """Return the mean number of busy cores; 0 if it is unknown."""
        seconds, own, everything = (
            None if before is None or now is None else now - before
            for before, now in zip(self._start, self._times(), strict=True)
        )
        if everything is None or seconds is None or own is None or seconds < MIN_SECONDS:
            return 0.0
        return min(len(self._cores), max(0.0, everything - own) / seconds)

    def n_free(self) -> int:
        """Return the number of cores for this process that are not busy, at least 1."""
        free = len(self._cores) - self.count()
        return max(1, min(n_cores(), int(free + 0.5)))


def _busy_seconds(cores: set[int]) -> float | None:
    """Return the CPU time that was spent on the given cores so far; None if it is unknown.

    Processes of a lower priority than this one are not counted, because they make room for it.
    """
    columns = [USER, SYSTEM, IRQ, SOFTIRQ, STEAL]
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) > 0:
            columns.append(NICE)
        ticks = 0
        for line in (PROC / "stat").read_text(encoding="ascii").splitlines():
            name, *values = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
                ticks += sum(int(values[column]) for column in columns)
        return ticks / os.sysconf("SC_CLK_TCK") if ticks else None
    except (OSError, ValueError, IndexError, AttributeError):
        return None
