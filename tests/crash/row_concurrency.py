"""Row 15: ten writers and four readers in one mount, with retention, compaction and rolls all the while.

No fault is injected: the row finds errors between concurrent users. Every writer numbers its lines. Each follower
from the beginning must have seen each line once, in the order of its writer, at the offset that was returned
for it; every other reader must have seen the same; and of each key the last value is there.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import crowd
from daemons import SECONDS_MAX, Daemon, Program, mounted
from fault_program import Row

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

SECONDS = 10
"""How long they all work; the 30 seconds of CI are those of its seeds together."""

OPTIONS = (
    "linger-ms=1,batch-bytes=16384,flush-ms=200,log.initial.task.delay.ms=0,log.retention.check.interval.ms=100,"
    "log.cleaner.backoff.ms=100,file.delete.delay.ms=60000"
)
SEGMENT_BYTES = 65536
RETENTION_BYTES = 300_000
SIZE_DUE = RETENTION_BYTES + SEGMENT_BYTES
"""From this size on, the log without its first segment is as large as `retention.bytes`, and that segment is due."""

TOPICS = {
    crowd.TOPIC: {"segment.bytes": str(SEGMENT_BYTES), "retention.bytes": str(RETENTION_BYTES)},
    crowd.KEYED: {"segment.bytes": "32768", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
SHELL = 'n=0; while [ ! -e "$1/stop" ]; do echo "$0:$n" >> orders-0/append || exit 3; n=$((n + 1)); done'
SHELL += '; echo "{\\"count\\": $n, \\"places\\": []}" > "$1/$0"'

WRITERS = (
    "shell-1",
    "shell-2",
    "closing-1",
    "syncing-1",
    "asking-1",
    "pieces-1",
    "unfinished-1",
    "unfinished-2",
    "keyed-1",
    "keyed-2",
)
FOLLOWERS = {
    "tail": ("tail", "-F", "-n", "+1", "-s", "0.05", "orders-0/values"),
    "tail of JSON": ("tail", "-f", "-n", "+1", "-s", "0.05", "orders-0/records.ndjson"),
    "follow": ("cat", "orders-0/follow@0"),
}


def play(seed: int, scratch: Path) -> int:
    """Let them all work; return how many lines the followers saw."""
    log = scratch / "log"
    log.mkdir()
    directory = LogDirectory.open(str(log))
    for name, settings in TOPICS.items():
        directory.create_partition(TopicPartition.parse(name), settings)
    directory.close()
    with mounted(log, scratch / "mnt", OPTIONS) as daemon:
        seen = _work(daemon, scratch, random.Random(seed))
        _check(daemon, scratch, seen)
        assert daemon.unmount() == 0, daemon.said
    assert "ERROR" not in daemon.said and "Traceback" not in daemon.said, daemon.said
    with mounted(log, scratch / "again", OPTIONS + ",ro") as daemon:
        _check_what_is_left(daemon.path, seen)
        assert daemon.unmount() == 0, daemon.said
    return len(seen)


def _work(daemon: Daemon, scratch: Path, chance: random.Random) -> list[str]:
    """Start everybody, stop after a while; return the values by offset, as all followers agree on them."""
    with ExitStack() as stack:
        followers = {name: _start(stack, command, daemon, scratch, name) for name, command in FOLLOWERS.items()}
        working = [_start(stack, _command(name, scratch), daemon, scratch) for name in (*WRITERS, "looking-1")]
        time.sleep(SECONDS * chance.uniform(0.8, 1.2))
        _until_retention_worked(daemon, scratch / "log" / crowd.TOPIC)
        (scratch / "stop").touch()
        for program in working:
            assert program.wait() == "", f"{program.command}"
        end = int((daemon.path / crowd.TOPIC / "next").read_text())
        for name in followers:
            _until_caught_up(scratch / name, end)
    whole = (scratch / "tail").read_text().splitlines()
    records = [json.loads(line) for line in (scratch / "tail of JSON").read_text().splitlines()]
    assert [record["offset"] for record in records] == list(range(end)), "gaps or repeats in the offsets"
    assert [record["value"] for record in records] == whole, "values and records.ndjson differ"
    assert (scratch / "follow").read_text().splitlines() == whole, "values and follow differ"
    return whole


def _command(name: str, scratch: Path) -> list[str]:
    role = name.rpartition("-")[0]
    if role == "shell":
        return ["bash", "-c", SHELL, name, str(scratch)]
    return [sys.executable, crowd.__file__, role, name, ".", str(scratch)]


def _until_retention_worked(daemon: Daemon, log: Path) -> None:
    """Wait until the writers have given retention a segment to remove, and until it has removed one.

    On a disk that others keep busy, the writers once needed more than a minute for the first 230 kB: Linux holds the
    lock of `append` during an fsync, and one of them syncs each line. So what hangs is a log that no longer grows, or
    one whose start stays although a segment is due.
    """
    place = daemon.path / crowd.TOPIC

    def has_removed() -> bool:
        return int((place / "start").read_text()) > 0

    def next_offset() -> int:
        return int((place / "next").read_text())

    _until(lambda: _size(log) >= SIZE_DUE or has_removed(), "the writers hang", progress=next_offset)
    _until(has_removed, "retention has removed nothing")


def _size(log: Path) -> int:
    """The bytes of its log files that are there when they are looked at."""
    size = 0
    for path in log.glob("*.log"):
        with suppress(FileNotFoundError):  # retention has renamed it
            size += path.stat().st_size
    return size


def _until_caught_up(path: Path, end: int) -> None:
    """Wait until a follower has left all lines there."""

    def count() -> int:
        return path.read_bytes().count(b"\n")

    _until(lambda: count() >= end, f"{path.name} lags behind", progress=count)


def _start(stack: ExitStack, command: Sequence[str], daemon: Daemon, scratch: Path, out: str = "out") -> Program:
    with (scratch / out).open("wb") as stream:
        program = Program(command, daemon.path, out=stream.fileno(), error=scratch / f"{out}.{len(out)}.error")
    stack.callback(program.end)
    return program


def _until(condition: Callable[[], bool], complaint: str, progress: Callable[[], int] = lambda: 0) -> None:
    """Wait for `condition`, at most SECONDS_MAX without progress: a loaded machine is slow, and that is no finding."""
    reached = progress()
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        if (now_reached := progress()) != reached:
            reached, end = now_reached, time.monotonic() + SECONDS_MAX
        assert time.monotonic() < end, complaint
        time.sleep(0.02)


# --- what must hold --------------------------------------------------------------------------------------------------


def _check(daemon: Daemon, scratch: Path, seen: list[str]) -> None:
    said = {name: json.loads((scratch / name).read_text()) for name in WRITERS}
    lines: dict[str, list[int]] = {}
    for value in seen:
        name, _, number = value.partition(":")
        lines.setdefault(name, []).append(int(number))
    for name, reported in said.items():
        if not name.startswith("keyed"):
            assert lines[name] == list(range(reported["count"])), f"{name}: lost, twice or out of order"
        for number, offset in reported["places"]:
            assert seen[offset] == f"{name}:{number}", f"offset {offset} was acknowledged for {name}:{number}"
    for line in (scratch / "looking-1").read_text().splitlines():
        offset, _, value = line.partition(" ")
        assert seen[int(offset)] == value, f"offset {offset} showed {value}"
    _check_keys(daemon.path / crowd.KEYED, {name: said[name]["count"] for name in WRITERS if name.startswith("keyed")})
    start = int((daemon.path / crowd.TOPIC / "start").read_text())
    assert 0 < start < len(seen), "retention has not worked, or too well: nothing was tried"


def _check_keys(partition: Path, counts: dict[str, int]) -> None:
    """Assert that the last value of each key is there, in order of offsets, and that compaction has removed others."""
    records = [json.loads(line) for line in (partition / "records.ndjson").read_text().splitlines()]
    offsets = [record["offset"] for record in records]
    assert offsets == sorted(set(offsets))
    assert len(records) < int((partition / "next").read_text()) == sum(counts.values()), "compaction has not worked"
    last = {record["key"]: record["value"] for record in records}
    for name, count in counts.items():
        for number in range(count - crowd.KEYS, count):
            assert last[f"{name}-{number % crowd.KEYS}"] == f"{name}:{number}"


def _check_what_is_left(mount: Path, seen: list[str]) -> None:
    start = int((mount / crowd.TOPIC / "start").read_text())
    assert (mount / crowd.TOPIC / "values").read_text().splitlines() == seen[start:]


ROW = Row(
    15,
    "concurrency",
    "ten writers and four readers at once, with retention and compaction",
    play,
    seeds_in_ci=range(3),
    goal=10_000_000,
    unit="lines",
    needs=("fuse", "tail", "bash"),
    promises=("Offsets increase strictly, and records of one writer stay in order.",),
)
