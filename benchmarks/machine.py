"""What every table of figures is headed with: machine, versions, commit."""

import os
import platform
import subprocess

import torch


def describe() -> str:
    """Give one line about this machine and this code."""
    commit = _output("git", "rev-parse", "--short", "HEAD")
    dirty = _output("git", "status", "--porcelain")
    told = _output("lscpu")
    names = [line.split(":")[1].strip() for line in told.splitlines() if "Model name" in line]
    processor = names[0] if names else platform.machine()
    state = " with changes" if dirty else ""
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
