"""Row 10, its second half: an fsync of a mount's daemon fails once, and its caller gets the error.

The kernel reports a page that it could not write once; the next fsync succeeds. So after the failure
nothing may be acknowledged on the log any more, until a new daemon has looked at what is on disk. Only a temporary file
may fail to be synced: it is written again, under the same name.
"""

from __future__ import annotations

import errno
import os
import random
import re
from pathlib import Path

from daemons import Daemon, mounted
from fault_program import Row
from tracing import injected

OPTIONS = "create,linger-ms=1,flush-ms=off,segment.bytes=4000"
_SYNCS_MAX = 12
"""Four of the log, eight of the roll that follows."""


def play(seed: int, scratch: Path) -> int:
    """Let the n-th fsync fail, n by the seed: of a log, an index, a time index, a directory, before and in a roll."""
    chance = random.Random(seed)
    (scratch / "log").mkdir()
    promised: list[bytes] = []
    with mounted(scratch / "log", scratch / "mnt", OPTIONS) as daemon:
        (daemon.path / "orders-0").mkdir()
        promised.append(_synced(daemon, 0))
        failed = _fail(daemon, seed % _SYNCS_MAX + 1, promised, scratch / "calls")
        _check_reported(daemon, promised)
        _check_refused(daemon, promised, may_go_on=all(path.endswith(".tmp") for path in failed))
        if chance.random() < 0.5:
            daemon.kill()
        else:
            daemon.unmount()
        said = "orders-0: sync failed" in daemon.said or "orders-0: 1 record was not written" in daemon.said
        assert said and "Traceback" not in daemon.said, daemon.said
    with mounted(scratch / "log", scratch / "again", OPTIONS) as daemon:
        _check_values(daemon, promised)
        promised.append(_synced(daemon, len(promised)))
        _check_values(daemon, promised)
        assert daemon.unmount() == 0, daemon.said
    return 1


def _synced(daemon: Daemon, number: int) -> bytes:
    """Append a line and sync it; OSError when one of the two fails."""
    line = b"%d:%s" % (number, b"x" * 700)
    append = os.open(daemon.path / "orders-0" / "append", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(append, line + b"\n")
        os.fsync(append)
    finally:
        _close(append)
    return line


def _close(append: int) -> None:
    try:
        os.close(append)
    except OSError as error:  # reports the failure once more
        assert error.errno == errno.EIO, error


def _fail(daemon: Daemon, count: int, promised: list[bytes], calls: Path) -> list[str]:
    """Sync lines until the `count`-th fsync of a thread of the daemon fails; `promised` takes the lines before it.

    Return the paths of the files that were not synced: usually one.
    """
    with injected(daemon.pid, "fsync|fdatasync", f"error=EIO:when={count}", output=calls):
        failed = _lines_until_one_fails(daemon, promised)
    assert failed, "an fsync failed, and no error was returned"
    paths: list[str] = re.findall(r"sync\(\d+<([^>]*)>\) .*INJECTED", calls.read_text())
    assert paths
    return paths


def _lines_until_one_fails(daemon: Daemon, promised: list[bytes]) -> bool:
    for _ in range(3 * _SYNCS_MAX):
        try:
            promised.append(_synced(daemon, len(promised)))
        except OSError as error:
            assert error.errno == errno.EIO, error
            return True
    return False


def _check_reported(daemon: Daemon, promised: list[bytes]) -> None:
    """Assert that what was promised is still shown, and that the fault is reported."""
    _check_values(daemon, promised)
    reported = (daemon.path / ".offsetfs" / "errors").read_text()
    assert "EIO fsync orders-0/append: " in reported, reported


def _check_refused(daemon: Daemon, promised: list[bytes], *, may_go_on: bool) -> None:
    """Assert that nothing more is promised, or, with `may_go_on`, that what is promised stays."""
    for _ in range(3):
        try:
            promised.append(_synced(daemon, len(promised)))
        except OSError:
            continue
        assert may_go_on, "a sync failed, and a later one was acknowledged"


def _check_values(daemon: Daemon, promised: list[bytes]) -> None:
    """Assert that the log begins with what was promised; the line that was refused may follow, whole."""
    found = (daemon.path / "orders-0" / "values").read_bytes().splitlines()
    rest = iter(found)
    assert all(line in rest for line in promised), (len(found), len(promised))
    assert all(len(line.partition(b":")[2]) == 700 for line in found), "a torn line"


ROW = Row(
    10,
    "failed_fsync_on_a_mount",
    "an fsync of a daemon fails once",
    play,
    seeds_in_ci=range(_SYNCS_MAX),
    goal=_SYNCS_MAX,
    unit="sites",
    needs=("root", "fuse", "strace"),
    promises=("After a failed sync, a log acknowledges no further writes.",),
)
