"""Row 9: another process fills the disk and frees it again, while a log is written, rolled, closed and recovered.

Fills are steps of the writer, so that a seed says when they come. Everything stays readable, also where there is no
space at all; a writer gets ENOSPC and nothing worse, and goes on when there is space.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from pathlib import Path

from daemons import Daemon, mounted
from disks import NEEDS, SMALL, Disk, made, small_memory
from fault_program import Row
from history import History
from life import fill
from nursery import Nursery
from row_sigkill import kill_somewhere

LIVES = 5
LIVES_MAX = 20
MOUNTS = 3
OPTIONS = "create,linger-ms=2,batch-bytes=4096,segment.bytes=40000,segment.index.bytes=4000"
_STEPS = 150
_APPENDS_MAX = 5000
_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def play(seed: int, scratch: Path) -> int:
    """Let writers live on a small disk, some to be killed when it is full; the seed says which file system."""
    chance = random.Random(seed)
    with small_memory(scratch) if seed % 2 else made(SMALL, scratch) as disk:
        return _play_mounts(disk, scratch, chance) if seed % 10 > 7 else _play_lives(disk, seed, chance)


def _play_lives(disk: Disk, seed: int, chance: random.Random) -> int:
    """Through the engine: writers fill the disk, free it, and are killed.

    What a writer does comes from the seed, when it is killed does not. So lives go on until one met a full disk.
    """
    history, errors, lives = History(seed), 0, 0
    with Nursery() as nursery:
        while lives < LIVES or (errors == 0 and lives < LIVES_MAX):
            errors += _live(nursery, disk, history, lives, chance)
            lives += 1
            nursery.verify(os.fspath(disk.log), history, read_only=True)
            if chance.random() < 0.5:
                _neighbor(disk).unlink(missing_ok=True)
                nursery.verify(os.fspath(disk.log), history)
        _neighbor(disk).unlink(missing_ok=True)
        nursery.verify(os.fspath(disk.log), history)
    assert errors > 0 and history.promises > 0, "the disk was never full"
    return lives


def _neighbor(disk: Disk) -> Path:
    return disk.path / "neighbor"


def _live(nursery: Nursery, disk: Disk, history: History, number: int, chance: random.Random) -> int:
    """Let a writer live to its end, or kill it; return how often it got the error that the disk is full."""
    neighbor = os.fspath(_neighbor(disk))
    writer = nursery.start(
        "live", path=os.fspath(disk.log), seed=history.seed, number=number, steps=_STEPS, neighbor=neighbor
    )
    if number and chance.random() < 0.4:
        kill_somewhere(writer, history, chance)
    for line in writer.lines():
        history.take(line)
    ended = writer.end()
    assert not ended.finding and (not ended.killed or ended.status == 9), ended
    before: list[str] = []
    for code, what in history.failures:
        errors = "\n\n".join(before)
        assert code in _IS_FULL, f"the disk was full, and the writer got: {what}\n\nErrors before it:\n{errors}"
        assert not what.startswith(("read", "free")), f"with space, or without a need of it: {what}"
        before.append(what)
    count = len(history.failures)
    history.failures.clear()
    return count


# --- through a mount -------------------------------------------------------------------------------------------------


def _play_mounts(disk: Disk, scratch: Path, chance: random.Random) -> int:
    """Through the kernel: mounts of one log on a disk that is full, and then not."""
    written: list[bytes] = []
    for number in range(MOUNTS):
        with mounted(disk.log, scratch / f"mnt{number}", OPTIONS) as daemon:
            _fill_under(daemon, disk, written, chance)
            if chance.random() < 0.5:
                daemon.kill()
                _start_on_a_full_disk(disk, scratch / f"mnt{number}-full", written)
                continue
            _neighbor(disk).unlink()
            written += _append(daemon.path, len(written))
            _check_values(daemon.path, written)
            assert daemon.unmount() == 0 and "Traceback" not in daemon.said, daemon.said
    with mounted(disk.log, scratch / "mnt", OPTIONS) as daemon:
        _check_values(daemon.path, written)
        assert daemon.unmount() == 0, daemon.said
    return MOUNTS


def _fill_under(daemon: Daemon, disk: Disk, written: list[bytes], chance: random.Random) -> None:
    """Append, fill the disk, append until ENOSPC comes, and read everything; `written` takes the lines that went in."""
    (daemon.path / "orders-0").mkdir(exist_ok=True)
    _check_values(daemon.path, written)
    for _ in range(chance.randrange(1, 20)):
        written += _append(daemon.path, len(written))
    fill(os.fspath(_neighbor(disk)), chance.choice((0, 0, 1 << 13, 1 << 16)))
    for _ in range(_APPENDS_MAX):
        try:
            written += _append(daemon.path, len(written))
        except OSError as error:
            assert error.errno in _IS_FULL, error
            break
    else:
        raise AssertionError("the disk was full, and no error was raised")
    _check_values(daemon.path, written)


def _start_on_a_full_disk(disk: Disk, path: Path, written: list[bytes]) -> None:
    """Mount after a kill, with no space for the tail that recovery keeps: all is read, and with space appends go on."""
    with mounted(disk.log, path, OPTIONS) as daemon:
        _check_values(daemon.path, written)
        with contextlib.suppress(OSError):
            written += _append(daemon.path, len(written))
        _neighbor(disk).unlink()
        written += _append(daemon.path, len(written))
        _check_values(daemon.path, written)
        assert daemon.unmount() == 0 and "Traceback" not in daemon.said, daemon.said


def _append(path: Path, number: int) -> list[bytes]:
    """Append some lines through one open file; OSError unless every call, close as well, was glad of them."""
    lines = [b"%d:%s" % (number + each, b"x" * 97) for each in range(20)]
    append = os.open(path / "orders-0" / "append", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(append, b"".join(line + b"\n" for line in lines))
    except OSError:
        with contextlib.suppress(OSError):
            os.close(append)
        raise
    os.close(append)
    return lines


def _check_values(path: Path, written: list[bytes]) -> None:
    """Assert that what went in is there in order. Lines of a call that failed may be there too, if they are whole."""
    found = (path / "orders-0" / "values").read_bytes().splitlines()
    rest = iter(found)
    assert all(line in rest for line in written), f"{len(written)} lines went in, and not all of {len(found)} are those"
    assert all(len(line.partition(b":")[2]) == 97 for line in found), "a torn line"


ROW = Row(
    9,
    "disk_full",
    "the disk is full, and has space again",
    play,
    seeds_in_ci=range(20),
    goal=100,
    unit="lives on a full disk",
    needs=(*NEEDS, "fuse"),
    promises=(
        "On a full disk, writers get ENOSPC, no record is torn, everything stays readable, and "
        "appends continue once there is free space.",
        "A mount that starts on a full disk shows every record; partitions that it could not recover "
        "accept writes once there is free space.",
    ),
)
