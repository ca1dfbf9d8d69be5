"""Where the time of our daemon goes while a row is measured: samples by py-spy, which `pip install py-spy` brings.

It sees all threads and the compiled parts. It stops the daemon for each sample, which makes it several times slower:
look at the shares, not at the figures. It is attached from the first answer of each daemon to its unmounting, and not
before: a thread that waits for its own mount cannot be stopped. The samples of all daemons of a row are added up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SAMPLES_PER_SECOND = 500
SHOWN = 30
WAITING = ("epoll_wait", "PyThread_acquire_lock_timed")
"""Threads with nothing to do."""


def find_py_spy() -> str | None:
    """Return the path of py-spy, from .venv or from PATH."""
    return shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


@contextmanager
def sampled(pid: int, file: Path) -> Iterator[None]:
    """Write the stacks that process `pid` is seen with to `file`."""
    command = [find_py_spy() or "py-spy", "record", "--native", "--threads", "-r", str(SAMPLES_PER_SECOND)]
    sampler = subprocess.Popen([*command, "-f", "raw", "-o", file, "-p", str(pid)], stdout=subprocess.PIPE)
    assert sampler.stdout is not None
    sampler.stdout.readline()  # it says so when it samples
    try:
        yield
    finally:
        sampler.send_signal(signal.SIGINT)
        sampler.communicate()


def print_profile(folder: Path) -> None:
    """Print, over all samples in `folder`, the functions that were on top of the stack, and those that were in it."""
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for file in folder.glob("*.samples"):
        for row in file.read_text().splitlines():
            stack, _, count = row.rpartition(" ")
            frames = stack.split(";")
            if any(frame.startswith(WAITING) for frame in frames):
                continue
            own[frames[-1]] += int(count)
            within.update(dict.fromkeys(frames, int(count)))
    total = sum(own.values()) or 1
    for title, counts in (("itself", own), ("with all that it calls", within)):
        print(f"\n   %   samples   {title}")
        for frame, samples in counts.most_common(SHOWN):
            print(f"{samples / total:6.1%} {samples:8}   {frame}")
