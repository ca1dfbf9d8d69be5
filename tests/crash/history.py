"""What was asked of the partitions of a log directory, what was promised in return, and whether a directory keeps it.

A history stands in another process than the writer, and on another disk than the log: what a writer says (`take`)
outlives whatever happens to it. Records need not be kept, for a record is a function of the seed, the partition, the
life in which it was appended, and its offset; a *life* is what a writer did between two opens.

Promised are offsets: those below `handed` were in the segment file when `append` returned, those below `synced` on disk
when `flush` did, and `start` is a log start that was on disk. `check` is the exact prefix of docs/use/promises.md:
every record is the one appended there last, none is missing, foreign, or there twice, and none that was promised is
gone.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from zlib import crc32

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record import Record

FIRST_MS = 1_700_000_000_000
STEP_MS = 10
_FILLING = random.Random(0).randbytes(1 << 14)
_SIZES = (0, 1, 10, 30, 60, 100, 150, 300, 700, 2500)
_KEYS = 19
Keyed = tuple[bytes | None, bytes | None]


def timestamp_of(offset: int) -> int:
    """Return a record's time, in milliseconds: it rises with the offset, so that every look-up has one answer."""
    return FIRST_MS + offset * STEP_MS


@dataclass
class Partition:
    """The history of one partition. `lives`: (first offset, life), rising.

    `made`: it may not be missing. `going`: it is being deleted, and there as it was, or not at all.
    """

    seed: int
    name: str
    made: bool = False
    going: bool = False
    handed: int = 0
    synced: int = 0
    start: int = 0
    start_max: int = 0
    lives: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_compacted(self) -> bool:
        return self.name.startswith("keyed")

    def record(self, offset: int, life: int | None = None) -> Keyed:
        """Return key and value of the record at `offset`, appended in `life` (left out: the one that got there)."""
        life = self.life_at(offset) if life is None else life
        reported = b"%x/%s/%d/%d" % (self.seed, self.name.encode(), life, offset)
        draw = crc32(reported)
        value = reported + _FILLING[draw >> 20 :][: _SIZES[draw % len(_SIZES)]]
        if not self.is_compacted:
            return None, value
        return b"key-%d" % (draw // 16 % _KEYS), None if draw % 13 == 0 else value

    def life_at(self, offset: int) -> int:
        number = bisect_right(self.lives, offset, key=lambda each: each[0])
        assert number, f"{self.name} holds offset {offset}, below the first offset that was written"
        return self.lives[number - 1][1]

    def begin(self, offset: int, life: int) -> None:
        """A writer found the log to end at `offset`: what was there before is on disk, what comes is of this life."""
        promised = max(self.handed, self.synced)
        if self.going and offset < promised:
            assert offset == 0, f"{self.name} was being deleted, and opened at {offset} of {promised}"
            self.start = self.start_max = 0
        else:
            assert offset >= promised, f"{self.name} was opened at {offset}, and {promised} were promised"
        self.lives = [each for each in self.lives if each[0] < offset] + [(offset, life)]
        self.made, self.going = True, False
        self.handed = self.synced = offset

    def begin_without_promise(self, offset: int, life: int) -> None:
        """A writer found the log to end at `offset`, which may not be on disk."""
        if self.going and offset == 0:
            self.gone()
        self.lives = [each for each in self.lives if each[0] < offset] + [(offset, life)]

    def go(self) -> None:
        """It is being deleted."""
        self.made, self.going = False, True

    def gone(self) -> None:
        """It was deleted; the next of its name begins at 0."""
        self.made = self.going = False
        self.handed = self.synced = self.start = self.start_max = 0


@dataclass
class History:
    """All partitions by name, and what else a writer said: `failures` as (errno or 0, what), `closed` in order.

    `promises`: how often it acknowledged that something is on disk. A check of none finds nothing.
    """

    seed: int
    partitions: dict[str, Partition] = field(default_factory=dict)
    failures: list[tuple[int, str]] = field(default_factory=list)
    closed: bool = False
    promises: int = 0

    def of(self, name: str) -> Partition:
        return self.partitions.setdefault(name, Partition(self.seed, name))

    def take(self, line: str) -> None:
        """Note one thing that a writer said, after it was so; before it `raising` and `dropping`."""
        word, *rest = line.split(" ", 2)
        self.closed = word == "closed"
        match word, rest:
            case "opened", [name, numbers]:
                offset, life = map(int, numbers.split())
                self.of(name).begin(offset, life)
            case "handed", [name, offset]:
                self.of(name).handed = int(offset)
            case "synced", [name, offset]:
                self.of(name).synced = int(offset)
                self.promises += int(offset) > 0
            case "raising", [name, offset]:
                self.of(name).start_max = max(int(offset), self.of(name).start_max)
            case "start", [name, offset]:
                self.of(name).start = int(offset)
            case "dropping", [name]:
                self.of(name).go()
            case "dropped", [name]:
                self.of(name).gone()
            case "failed", [number, what]:
                self.failures.append((int(number), what.replace("\\n", "\n")))
            case "closed", []:
                pass
            case _:
                raise AssertionError(f"the writer said {line!r}")

    def take_after_cut(self, line: str) -> None:
        """Note one thing that a writer said after the power was cut, or just before: what it has begun, no promise.

        A shutdown of ext4 lets a sync that it interrupts succeed (31 of 120 cuts); after a real cut there is no writer.
        """
        word, *rest = line.split(" ", 2)
        if word == "opened":
            self.of(rest[0]).begin_without_promise(*map(int, rest[1].split()))
        elif word not in ("handed", "synced", "start", "dropped"):
            self.take(line)

    def foresee(self, line: str) -> None:
        """Let the disk show already what a writer said only afterwards that it would do."""
        word, *rest = line.split(" ", 2)
        if word == "raising":
            self.take(line)
        elif word == "dropping":
            partition = self.of(rest[0])
            partition.gone()
            partition.start_max = 1 << 62

    def power_cut(self) -> None:
        """What was handed over and not on disk may be gone."""
        for partition in self.partitions.values():
            partition.handed = partition.synced

    def dump(self) -> str:
        return json.dumps(asdict(self))

    def copy(self) -> History:
        return History.load(self.dump())

    @classmethod
    def load(cls, text: str) -> History:
        content = json.loads(text)
        partitions = {
            name: Partition(**{**each, "lives": [(offset, life) for offset, life in each["lives"]]})
            for name, each in content.pop("partitions").items()
        }
        return cls(**content, partitions=partitions)


# --- the check -------------------------------------------------------------------------------------------------------


def check(directory: LogDirectory, history: History) -> None:
    """Assert that `directory` keeps what was promised."""
    assert directory.failed == {}, directory.failed
    found = {}
    for partition in directory.partitions():
        try:
            found[str(partition)] = directory.log(partition)
        except StorageError:  # a reader does not finish what was only begun
            assert directory.read_only and not history.of(str(partition)).made
    missing = [name for name, each in history.partitions.items() if each.made and name not in found]
    assert missing == [], f"{missing} were made, and are gone"
    for name, log in found.items():
        check_log(log, history.of(name))


def check_log(log: Log, history: Partition) -> None:
    """Assert that a log is an exact prefix of what was appended, with everything that was promised."""
    if not history.made and log.next_offset == 0:
        return  # begun, and not acknowledged
    promised = max(history.handed, history.synced)
    assert log.next_offset >= promised, f"{log.path} ends at {log.next_offset}, and {promised} were promised"
    start = log.log_start_offset
    assert history.start <= start <= max(history.start_max, history.start), (log.path, start, history)
    _check_damage(log)
    if not log.read_only:
        log.check()  # a reader may find indexes that lie: they cost it time
    records = [record for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]
    offsets = [record.offset for record in records]
    for record in records:
        expected = history.record(record.offset)
        assert (record.key, record.value) == expected, f"{log.path}: a foreign record at {record.offset}"
        assert record.timestamp == timestamp_of(record.offset), (log.path, record.offset)
    assert offsets == sorted(set(offsets)), f"{log.path}: offsets do not rise"
    if history.is_compacted:
        _check_keys(log, history, records)
    else:
        assert offsets == list(range(offsets[0] if offsets else start, log.next_offset)), f"{log.path}: a gap"
        assert not offsets or offsets[0] <= start, f"{log.path} begins at {offsets[0]}, not at {start}"
    _check_look_ups(log, [offset for offset in offsets if offset >= start])


def look(directory: LogDirectory, history: History) -> None:
    """Assert that a reader, which recovers nothing, is shown all that was on disk, and nothing foreign."""
    for known in (each for each in history.partitions.values() if each.made):
        log = directory.log(TopicPartition.parse(known.name))
        offset, end = log.log_start_offset, log.next_offset
        assert end >= known.synced, f"{log.path}: a reader sees {end} of {known.synced}"
        while offset < known.synced and (batch := log.batch_at(offset)) is not None:
            for record in batch.records():
                assert (record.key, record.value) == known.record(record.offset), f"{log.path}: {record.offset}"
            assert known.is_compacted or batch.base_offset <= offset, f"{log.path}: a gap at {offset}"
            offset = batch.header.next_offset


def _check_damage(log: Log) -> None:
    """Recovery may cut what was never on disk. Anything else that it found was once, and is damage."""
    for damage in log.damage:
        assert "; cut " in damage.reason or "; whole segment kept" in damage.reason, damage


def _check_keys(log: Log, history: Partition, records: Iterable[Record]) -> None:
    """Each key shows its last value, or nothing at all where that was a tombstone."""
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for offset in range(log.log_start_offset, log.next_offset):
        key, value = history.record(offset)
        last[key] = offset, value
    shown = {record.key: record.offset for record in records if record.offset >= log.log_start_offset}
    for key, (offset, value) in last.items():
        assert shown.get(key) == offset or (value is None and key not in shown), (log.path, key, offset, shown.get(key))


def _check_look_ups(log: Log, offsets: list[int]) -> None:
    """Offsets and times are found where a walk over all batches finds them."""
    for offset in random.Random(len(offsets)).sample(offsets, min(len(offsets), 12)):
        batch = log.batch_at(offset)
        assert batch is not None and batch.record(offset) is not None, (log.path, offset)
        assert log.find_timestamp(timestamp_of(offset)) == (offset, timestamp_of(offset)), (log.path, offset)
    assert log.batch_at(log.next_offset) is None and log.find_timestamp(timestamp_of(log.next_offset)) is None
