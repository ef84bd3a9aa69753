"""Description of machine, versions and commit, printed above every table."""

import os
import platform
import subprocess

import torch


def describe() -> str:
    """Return one line with the device, processor, versions and commit."""
    commit = _output("git", "rev-parse", "--short", "HEAD")
    dirty = _output("git", "status", "--porcelain")
    lscpu = _output("lscpu")
    names = [line.split(":")[1].strip() for line in lscpu.splitlines() if "Model name" in line]
    processor = names[0] if names else platform.machine()
    state = " with uncommitted changes" if dirty else ""
    device = f"{torch.cuda.get_device_name()}; " if torch.cuda.is_available() else ""
    return (
        f"{device}{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"commit {commit or 'unknown'}{state}"
    )


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
