"""Row 8: the daemon of a mount is killed, or cut off from the kernel, under six writers and two followers.

Meanwhile retention removes the head of `brief-0`, and compaction cleans `users-0`, as fast as they can.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from daemons import Daemon, Program, Words, fuse_connections, mounted
from fault_program import Row

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

ROUNDS = 5
OPTIONS = (
    "create,linger-ms=2,batch-bytes=4096,segment.bytes=20000,"
    "log.initial.task.delay.ms=0,log.flush.offset.checkpoint.interval.ms=20,"
    "log.retention.check.interval.ms=20,log.cleaner.backoff.ms=20"
)
TOPICS = {
    "orders": {},
    "brief": {"segment.bytes": "6000", "retention.bytes": "10000", "file.delete.delay.ms": "2000"},
    "users": {
        "segment.bytes": "6000",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "file.delete.delay.ms": "2000",
    },
}
KEYS = 10

SHELL = 'n=0; while echo "$0:$n" >> orders-0/append; do echo "$0 $n"; n=$((n + 1)); done; exit 3'
"""A line at a time as people write them. The shell does not ask whether close succeeded: see `_round`."""

SYNCING = """
import os, sys
append = os.open("orders-0/append", os.O_WRONLY | os.O_APPEND)
for number in range(1 << 30):
    os.write(append, b"%s:%d\\n" % (sys.argv[1].encode(), number))
    os.fsync(append)
    os.write(1, b"%s %d\\n" % (sys.argv[1].encode(), number))
"""
CLOSING = """
import os, sys
for number in range(0, 1 << 30, 20):
    append = os.open("PATH", os.O_WRONLY | os.O_APPEND)
    os.write(append, b"".join(b"%s:%d\\n" % (sys.argv[1].encode(), each) for each in range(number, number + 20)))
    os.close(append)
    os.write(1, b"%s %d\\n" % (sys.argv[1].encode(), number + 19))
"""
KEYED = """
import os, sys
for number in range(0, 1 << 30, 20):
    append = os.open("users-0/append.ndjson", os.O_WRONLY | os.O_APPEND)
    line = '{"key": "k%d", "value": "%s:%d"}\\n'
    os.write(append, "".join(line % (each % 10, sys.argv[1], each) for each in range(number, number + 20)).encode())
    os.close(append)
    os.write(1, b"%s %d\\n" % (sys.argv[1].encode(), number + 19))
"""
FOLLOWING = """
import os, select, sys
values = os.open("orders-0/values", os.O_RDONLY)
while True:
    block = os.read(values, 1 << 16)
    os.write(1, block) if block else select.select([], [], [], 0.01)
"""
WRITERS = {
    "shell-1": ("bash", "-c", SHELL),
    "shell-2": ("bash", "-c", SHELL),
    "syncing": (sys.executable, "-c", SYNCING),
    "closing": (sys.executable, "-c", CLOSING.replace("PATH", "orders-0/append")),
    "brief": (sys.executable, "-c", CLOSING.replace("PATH", "brief-0/append")),
    "keyed": (sys.executable, "-c", KEYED),
}
PARTITIONS = {"brief": "brief-0", "keyed": "users-0"}
"""Where a writer writes, if not into orders-0."""
FOLLOWERS = {
    "tail": ("tail", "-f", "-n", "+1", "-s", "0.05", "orders-0/values"),
    "python": (sys.executable, "-c", FOLLOWING),
}


@dataclass
class Seen:
    """What the next mount has to show. `promised`: the last line of each writer; `followed`: what followers saw."""

    promised: dict[str, int] = field(default_factory=dict)
    followed: list[Path] = field(default_factory=list)

    def check(self, mount: Path) -> None:
        """Assert that the partitions of a mount show what they have to."""
        self._check_whole((mount / "orders-0" / "values").read_bytes())
        self._check_brief(_numbers((mount / "brief-0" / "values").read_bytes()))
        self._check_latest((mount / "users-0" / "values").read_bytes())

    def _check_whole(self, values: bytes) -> None:
        """Every writer's lines are there from the first on, in order, once, as far as was promised."""
        lines = _numbers(values)
        promised_here = {name: last for name, last in self.promised.items() if _partition_of(name) == "orders-0"}
        for name, promised in promised_here.items():
            assert lines.get(name, []) == list(range(len(lines.get(name, [])))), f"{name}: {lines[name]}"
            assert len(lines.get(name, [])) > promised, f"{name}: {len(lines.get(name, []))} lines, {promised} promised"
        assert lines.keys() <= promised_here.keys(), f"foreign lines: {lines.keys() - promised_here.keys()}"
        for path in self.followed:
            followed = path.read_bytes()
            assert values.startswith(followed), f"{path.name} saw {len(followed)} bytes that are not in the log"

    def _check_brief(self, lines: dict[str, list[int]]) -> None:
        """Retention takes the oldest lines and no others: of the rest none is missing, up to the last one promised."""
        names = [name for name in self.promised if _partition_of(name) == "brief-0"]
        names = [name for name in names if self.promised[name] >= 0 or name in lines]  # a late writer left nothing
        for place, name in enumerate(lines):
            numbers = lines[name]
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), f"{name}: {numbers}"
            assert place == 0 or numbers[0] == 0, f"{name} begins with {numbers[0]}"
        assert names[-len(lines) :] == list(lines) or not names, f"{list(lines)} of {names}"
        for name in lines:
            assert lines[name][-1] >= self.promised[name], f"{name}: {lines[name][-1]}, {self.promised[name]} promised"

    def _check_latest(self, values: bytes) -> None:
        """Compaction leaves the last value of every key, and those are no older than what was promised."""
        latest: dict[int, tuple[str, int]] = {}
        for name, number in _lines(values):
            latest[number % KEYS] = name, number
        names = [name for name, last in self.promised.items() if _partition_of(name) == "users-0" and last >= KEYS]
        for key in range(KEYS) if names else ():
            promised = self.promised[names[-1]]
            name, number = latest[key]
            assert (name, number) >= (names[-1], promised - (promised - key) % KEYS), f"key {key}: {name}:{number}"


def _lines(values: bytes) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, _, number in (line.partition(":") for line in values.decode().splitlines())]


def _numbers(values: bytes) -> dict[str, list[int]]:
    lines: dict[str, list[int]] = {}
    for name, number in _lines(values):
        lines.setdefault(name, []).append(number)
    return lines


def _partition_of(name: str) -> str:
    return PARTITIONS.get(name.partition("-")[2], "orders-0")


def play(seed: int, scratch: Path) -> int:
    """Kill one daemon after the other on the same directory; each new one shows what the killed one had promised."""
    chance = random.Random(seed)
    (scratch / "log").mkdir()
    directory = LogDirectory.open(str(scratch / "log"))
    for topic, properties in TOPICS.items():
        directory.create_partition(TopicPartition(topic, 0), properties)
    directory.close()
    seen = Seen()
    with fuse_connections(scratch) as connections:
        for number in range(ROUNDS):
            (scratch / f"{number}").mkdir()
            _round(scratch / "log", scratch / f"{number}", chance, seen, connections)
    with mounted(scratch / "log", scratch / "mnt", OPTIONS) as daemon:
        seen.check(daemon.path)
        assert daemon.unmount() == 0, daemon.said
    assert sum(seen.promised.values()) > ROUNDS, f"next to nothing was promised, and checked: {seen.promised}"
    return ROUNDS


def _round(log: Path, scratch: Path, chance: random.Random, seen: Seen, connections: Path) -> None:
    """Mount, check what was promised before, write and follow, kill; note what was promised meanwhile."""
    words = Words()
    with ExitStack() as stack:
        stack.callback(words.close)
        daemon = stack.enter_context(mounted(log, scratch / "mnt", OPTIONS))
        seen.check(daemon.path)
        programs = [_start(stack, name, daemon, scratch, words) for name in (*WRITERS, *FOLLOWERS)]
        words.close_writer()
        acknowledged = _listen(words, int(chance.expovariate(1 / 100)) + 4, lambda: _end(daemon, chance, connections))
        for program in programs:
            assert program.wait(), f"saw nothing of the end of its daemon: {program.command}"
        assert "Traceback" not in daemon.said, daemon.said
    seen.followed += [scratch / name for name in FOLLOWERS]
    for name in WRITERS:
        # The shell takes no notice when close fails: its last line may have been accepted, and no more.
        doubtful = name.startswith("shell")
        seen.promised[f"{scratch.name}-{name}"] = acknowledged.get(f"{scratch.name}-{name}", -1) - doubtful


def _start(stack: ExitStack, name: str, daemon: Daemon, scratch: Path, words: Words) -> Program:
    """Start a writer, whose output goes to `words`, or a follower, which fills a file of its name."""
    error = scratch / f"{name}.error"
    if name in WRITERS:
        program = Program([*WRITERS[name], f"{scratch.name}-{name}"], daemon.path, out=words.writer, error=error)
    else:
        with (scratch / name).open("wb") as out:
            program = Program(FOLLOWERS[name], daemon.path, out=out.fileno(), error=error)
    stack.callback(program.end)
    return program


def _listen(words: Words, count: int, end: Callable[[], None]) -> dict[str, int]:
    """Take in so many words, end the daemon, take in what is left; return the last number of each writer."""
    last: dict[str, int] = {}
    for heard, line in enumerate(words.lines(), 1):
        name, _, number = line.partition(" ")
        last[name] = int(number)
        if heard == count:
            end()
    return last


def _end(daemon: Daemon, chance: random.Random, connections: Path) -> None:
    if chance.random() < 0.8:
        daemon.kill()
    else:
        daemon.abort(connections)


ROW = Row(
    8,
    "killed_daemon",
    "the daemon of a mount is killed under load",
    play,
    seeds_in_ci=range(5),
    goal=30,
    unit="kills",
    needs=("root", "fuse", "tail", "bash"),
    promises=(
        "When `linger-ms` or `batch-bytes` is reached, or the last `close()` has returned, records are "
        "in the segment file: visible in every view, and safe from a crash of the daemon.",
        "Offsets increase strictly, and records of one writer stay in order.",
        "Records that are only in the open batch may be lost in a crash of the daemon, but are never torn.",
    ),
)
