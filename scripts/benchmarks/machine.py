"""The machine that figures belong to, and its memory made ready."""

from __future__ import annotations

import mmap
import os
import platform
import re
import subprocess
import time
from dataclasses import dataclass, field
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
    first_touch: float = 0.0
    second_touch: float = 0.0
    """Bytes per second at which memory was touched before the first row, and once more; 0 where nothing was touched."""

    def __str__(self) -> str:
        touched = ""
        if self.second_touch:
            first, second = (f"{rate / 1e9:.1f} GB/s" for rate in (self.first_touch, self.second_touch))
            touched = f"; first touch of memory {first}, second {second}"
        return f"{self.date}, {self.commit}: {self.hardware}; load at the start {self.load:.1f}{touched}"

    @property
    def hardware(self) -> str:
        """Processor, memory, kernel and versions, without date, commit and load."""
        return (
            f"{self.cores} cores ({self.processor}), {self.memory_gib} GiB, Linux {self.kernel}, Python {self.python}, "
            f"pyfuse3 {self.pyfuse3}"
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


def touch_memory(bytes_max: int) -> float:
    """Touch memory once, at most half of what is free, and give it back; return the bytes per second.

    On a virtual machine whose host takes free memory back, the first write to a page costs ten times the second. The
    page cache is made of the same pages, so that what is timed right after this finds memory that the guest has.
    """
    free = int((_field("/proc/meminfo", "MemAvailable") or "0 kB").split()[0]) << 10
    size = max(min(bytes_max, free // 2) // _PAGE_BYTES, 1) * _PAGE_BYTES
    begun = time.perf_counter()
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, 1 << 26):
            pages = len(range(start, min(start + (1 << 26), size), _PAGE_BYTES))
            memory[start : start + pages * _PAGE_BYTES : _PAGE_BYTES] = bytes(pages)
        taken = time.perf_counter() - begun
    return size / max(taken, 1e-9)


@dataclass(slots=True)
class ReadyMemory:
    """Memory made ready before each figure is taken, and the rounds in which that did not succeed.

    `bytes`: how much one round needs, on either side. `rate`: the rate of a second touch on this machine, in bytes per
    second; None measures nothing and takes every round for comparable.
    """

    bytes: int
    rate: float | None
    disturbed: set[int] = field(default_factory=set)

    def make_ready(self, number: int) -> None:
        """Touch the memory for a figure of round `number`. A second touch at less than half the rate is a disturbance:
        the host, or others on the machine, want the memory or the processor right now."""
        if self.rate is None:
            return
        touch_memory(self.bytes)
        if touch_memory(self.bytes) < self.rate / 2:
            self.disturbed.add(number)
