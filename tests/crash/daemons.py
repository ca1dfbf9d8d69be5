"""Mounts whose daemon is killed or cut off from the kernel, and programs that use them meanwhile.

Everything that is started here ends with the block that it was started in: programs are killed by their pid, what is
mounted is unmounted, if need be lazily.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fixtures.mounts.left_mounts import UMOUNT, unmount

READY = b" is mounted at "
SECONDS_MAX = 60
"""What takes longer hangs, and is a finding."""


class Daemon:
    """`offsetfs mount -f` of `log` at `path`, which answers. Use `mounted`."""

    def __init__(self, log: Path, path: Path, options: str, prefix: Sequence[str] = ()) -> None:
        command = [*prefix, sys.executable, "-m", "offsetfs", "mount", "-f", str(log), str(path), "-o", options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.path = path
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
        self._lines: list[bytes] = []
        self._is_ready = threading.Event()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        self._is_ready.wait(SECONDS_MAX)
        assert any(READY in line for line in self._lines), f"no mount: {self.said}"

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._lines.append(line)
                if READY in line:
                    self._is_ready.set()
        self._is_ready.set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        """What it logged so far."""
        return b"".join(self._lines).decode()

    def kill(self) -> None:
        """SIGKILL; what it had mounted answers nothing any more, and stays until `close`."""
        self._process.kill()
        self.wait()

    def abort(self, connections: Path) -> int:
        """Cut it off from the kernel, as an administrator does with a mount that hangs; return its exit code."""
        device = os.minor(self.path.stat().st_dev)
        (connections / str(device) / "abort").write_text("1")
        return self.wait()

    def unmount(self) -> int:
        """Unmount in order; return its exit code."""
        unmount(self.path, UMOUNT)
        return self.wait()

    def wait(self) -> int:
        """Return its exit code once it has ended; one that does not is a finding."""
        code = self._process.wait(SECONDS_MAX)
        self._listener.join()
        return code

    def close(self) -> None:
        """End it, and take its mount away, whatever state they are in."""
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        while str(self.path) in Path("/proc/self/mounts").read_text().split():
            subprocess.run(["umount", "-l", self.path], check=False)


@contextmanager
def mounted(log: Path, path: Path, options: str, prefix: Sequence[str] = ()) -> Iterator[Daemon]:
    """A mount of `log` at `path`, which is made; at the end the daemon is killed unless it has ended.

    `prefix`: words before the command, such as `prlimit --nofile=64`.
    """
    path.mkdir()
    daemon = Daemon(log, path, options, prefix)
    try:
        yield daemon
    finally:
        daemon.close()
        path.rmdir()


@contextmanager
def fuse_connections(scratch: Path) -> Iterator[Path]:
    """The directory of the kernel's FUSE connections, mounted for the time of the block."""
    path = scratch / "fusectl"
    path.mkdir()
    subprocess.run(["mount", "-t", "fusectl", "fusectl", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)
        path.rmdir()


class Program:
    """A program that works in a mount, and says so on its standard output. Use `running`."""

    def __init__(self, command: Sequence[str], directory: Path, *, out: int, error: Path) -> None:
        with error.open("wb") as stream:
            self._process = subprocess.Popen(command, cwd=directory, stdout=out, stderr=stream)
        self.command = command
        self._error = error

    def wait(self) -> str:
        """Return what it complained of when it had ended; one that does not end is a finding."""
        try:
            self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{' '.join(self.command)[:200]} hangs") from None
        return self._error.read_text()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


class Words:
    """Lines that several programs write into one pipe, each with a single write."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._rest = b""
        self._seconds_end = time.monotonic() + SECONDS_MAX

    def close_writer(self) -> None:
        """The programs have it now."""
        os.close(self.writer)

    def lines(self) -> Iterator[str]:
        """Yield lines until all the programs have ended."""
        while block := self._read():
            *whole, self._rest = (self._rest + block).split(b"\n")
            yield from (line.decode() for line in whole)

    def _read(self) -> bytes:
        left = self._seconds_end - time.monotonic()
        assert left > 0 and select.select([self._reader], [], [], left)[0], "programs in a dead mount hang"
        return os.read(self._reader, 1 << 16)

    def close(self) -> None:
        os.close(self._reader)
