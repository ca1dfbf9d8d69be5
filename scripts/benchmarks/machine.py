"""The machine that figures belong to, and its memory made ready."""

from __future__ import annotations

import mmap
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when something was measured. `load`: how many processes wanted to run when it began."""

    date: str
    commit: str
    processor: str
    cores: int
    memory_gib: int
    kernel: str
    python: str
    pyfuse3: str
    load: float

    def __str__(self) -> str:
        return (
            f"{self.date}, {self.commit}: {self.cores} cores ({self.processor}), {self.memory_gib} GiB, "
            f"Linux {self.kernel}, Python {self.python}, pyfuse3 {self.pyfuse3}; load at the start {self.load:.1f}"
        )


def this_machine(root: Path) -> Machine:
    return Machine(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=_commit(root),
        processor=_field("/proc/cpuinfo", "model name") or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / (1 << 20)),
        kernel=platform.release().split("-")[0],
        python=platform.python_version(),
        pyfuse3=version("pyfuse3"),
        load=os.getloadavg()[0],
    )


def _field(path: str, name: str) -> str | None:
    match = re.search(rf"^{name}\s*:\s*(.*)$", Path(path).read_text(), re.MULTILINE)
    return match[1] if match else None


def _commit(root: Path) -> str:
    done = subprocess.run(
        ["git", "-C", root, "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def touch_memory(bytes_max: int) -> None:
    """Touch memory once, at most half of what is free, so that the host gives it to us before anything is timed.

    On a virtual machine that has just started, the first write to a page costs ten times the second.
    """
    free = int((_field("/proc/meminfo", "MemAvailable") or "0 kB").split()[0]) << 10
    size = min(bytes_max, free // 2) // _PAGE_BYTES * _PAGE_BYTES
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, 1 << 26):
            pages = len(range(start, min(start + (1 << 26), size), _PAGE_BYTES))
            memory[start : start + pages * _PAGE_BYTES : _PAGE_BYTES] = bytes(pages)
