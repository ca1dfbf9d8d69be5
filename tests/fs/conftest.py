"""Real mounts for tests: `offsetfs mount -f` in a process of its own, always unmounted, its log looked at."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from fixtures.mounts.fake_appends import MakeAppends, appends_in
from fixtures.mounts.left_mounts import UMOUNT, unmount

READY = b" is mounted at "


@dataclass
class Mounted:
    """A mount. `path`: the mount point; `log`: the log directory below it."""

    path: Path
    log: Path
    process: subprocess.Popen[bytes]
    lines: list[bytes] = field(default_factory=list)

    def unmount(self) -> int:
        """Unmount and return the exit code of the daemon, all of whose words are then in `lines`."""
        if os.path.ismount(self.path):
            unmount(self.path, UMOUNT)
        assert self.process.stderr is not None
        self.lines += self.process.stderr.readlines()
        return self.process.wait(timeout=240)

    def errors(self) -> str:
        return (self.path / ".offsetfs" / "errors").read_text()


Mount = Callable[..., Mounted]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Call it with a log directory and options; it returns when the mount answers.

    At the end everything is unmounted; a daemon that failed or logged an error fails the test, unless `faulty`.
    `prefix`: words before the command, such as `prlimit --nofile=64`.
    """
    mounts: list[tuple[Mounted, bool]] = []

    def start(log: Path, options: str = "", *, faulty: bool = False, prefix: Sequence[str] = ()) -> Mounted:
        point = tmp_path / f"mnt{len(mounts)}"
        point.mkdir()
        command = [*prefix, sys.executable, "-m", "offsetfs", "mount", "-f", str(log), str(point)]
        process = subprocess.Popen([*command, *(["-o", options] if options else [])], stderr=subprocess.PIPE)
        mounted = Mounted(point, log, process)
        mounts.append((mounted, faulty))
        assert process.stderr is not None
        for line in process.stderr:
            mounted.lines.append(line)
            if READY in line:
                return mounted
        pytest.fail(f"no mount: {b''.join(mounted.lines).decode()}")

    try:
        yield start
        codes = [(mounted.unmount(), mounted, faulty) for mounted, faulty in mounts]
        for code, mounted, faulty in codes:
            said = b"".join(mounted.lines).decode()
            assert faulty or (code == 0 and "ERROR" not in said and "Traceback" not in said), said
    finally:
        for mounted, _ in mounts:
            if mounted.process.poll() is None:
                with contextlib.suppress(OSError):
                    subprocess.run(["umount", "-l", mounted.path], check=False)
                mounted.process.kill()
                mounted.process.wait()
            if mounted.process.stderr is not None:
                mounted.process.stderr.close()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount point of the module's own, of an empty log directory in which `mkdir` creates topics."""
    point, log = tmp_path_factory.mktemp("mnt"), tmp_path_factory.mktemp("log")
    subprocess.run([sys.executable, "-m", "offsetfs", "mount", log, point, "-o", "create"], check=True)
    yield point
    unmount(point)


@pytest.fixture
async def appends(nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeAppends]:
    """Call it with options: the appends of a mount, without a disk and without threads."""
    async with appends_in(nursery, tmp_path, monkeypatch) as make:
        yield make


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An empty log directory."""
    path = tmp_path / "log"
    path.mkdir()
    return path
