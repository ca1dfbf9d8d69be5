"""Faults in the system calls of a running process, by strace."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def injected(
    pid: int, calls: str, fault: str, *, path: Path | None = None, output: Path | str = os.devnull
) -> Iterator[None]:
    """While the block runs, calls of the process whose names match `calls` have a fault, such as `error=EIO:when=3`.

    strace counts the calls of each name and of each thread for themselves. A call that is killed is not made. With
    `path`, only calls for this file have the fault. `output` gets the calls, with the paths of their files.
    """
    expressions = ["-e", f"trace=/^({calls})$", "-e", f"inject=/^({calls})$:{fault}"]
    expressions += [] if path is None else ["-P", str(path)]
    command = ["strace", "-f", "-y", *expressions, "-o", output, "-p", str(pid)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert strace.stderr is not None
    with strace.stderr:
        try:
            said = strace.stderr.readline()
            assert b"attached" in said, said
            yield
        finally:
            if strace.poll() is None:
                strace.send_signal(signal.SIGINT)  # it lets go of the process
            strace.wait()
