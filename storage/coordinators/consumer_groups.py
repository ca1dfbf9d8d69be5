"""The offsets that consumer groups have committed, as a broker would answer them, from `__consumer_offsets`.

A broker's group coordinator replays its partitions of that topic: the latest record of a key counts, a tombstone takes
it away, and what a transaction commits counts from the transaction's end on, if that is no abort. The same is done
here, at the first request and then as the logs grow. Follows GroupMetadataManager and OffsetMetadataManager of
Kafka's group coordinator. Which group hashes to which partition does not matter here: all of the directory's count.

Of a record only what is asked for is kept: key, committed offset, time. At most `COMMITS_MAX` of them; the rest is
passed over and said once, as is what cannot be read and what no known broker writes.

Threads: any; everything happens under one lock, which `nowait` does not wait for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from struct import Struct
from threading import Lock
from typing import NamedTuple

from offsetfs.storage.cluster.kafka_messages import MalformedMessage, read
from offsetfs.storage.coordinators import group_state
from offsetfs.storage.coordinators.consumer_offsets import TYPES
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import InvalidName, StorageError, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import RAW, LogReader
from offsetfs.storage.partition.producers import ABORT, COMMIT, end_marker
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.records.record import Record
from offsetfs.storage.views.view_blocks import UNREADABLE

OFFSETS_TOPIC = "__consumer_offsets"
COMMITS_MAX = 500_000
"""Commits kept in memory, some 250 bytes each: protects the daemon from a topic that holds more."""

DESCRIBED_BYTES_MAX = 64 << 20
"""Records of groups and their members kept in memory, over all partitions: protects it as `COMMITS_MAX` does."""

NOTES_MAX = 100

STEP_BYTES = 32 << 20
"""How much of the logs one step takes in: a second or two of work at most."""

_LEGACY_COMMIT, _COMMIT = 0, 1  # the types of key of commits
_KEY_START = Struct(">hh")  # type, size of the group's name, which comes first in each of them
_NAME_AT = 2  # where the key begins that both types of commit share
_VALUE_START = Struct(">hq")  # version, offset: in all versions
_VALUE_VERSION_MAX = 4
_VALUE_SIZE_MIN = 20


class Commit(NamedTuple):
    """Where a group goes on reading a partition. `timestamp`: of the record that says so, milliseconds."""

    partition: TopicPartition
    offset: int
    timestamp: int


class Lag(NamedTuple):
    """A commit against the end of its partition; None when the directory has no such partition, or it does not open."""

    partition: TopicPartition
    committed: int
    end: int | None


class _Kept(NamedTuple):
    offset: int
    timestamp: int
    at: int  # the offset of the record


class ConsumerGroups:
    """The groups of one log directory. `say` gets a sentence, once, for each kind of thing that is passed over."""

    def __init__(self, directory: AnyLogDirectory, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._notes = _Notes(say)
        self._replays: dict[TopicPartition, _Replay] = {}
        self._lock = Lock()

    @property
    def is_there(self) -> bool:
        """Whether the directory has a partition of `__consumer_offsets`."""
        return any(partition.topic == OFFSETS_TOPIC for partition in self._directory.partitions())

    def refresh(self, *, nowait: bool = False, bytes_max: int = STEP_BYTES) -> bool:
        """Take in what was committed since, about `bytes_max` of it; return whether that is all.

        With `nowait` `WouldBlock` when there is anything to take in.
        """
        with self._locked(nowait):
            left = bytes_max
            for replay in self._current(nowait):
                if replay.is_complete:
                    continue
                if nowait:
                    raise WouldBlock("commits are to be read", path=replay.log.path)
                others = [each for each in self._replays.values() if each is not replay]
                room = COMMITS_MAX - sum(each.count for each in others)
                bytes_room = DESCRIBED_BYTES_MAX - sum(each.described_bytes for each in others)
                left -= replay.advance(left, room, bytes_room)
                if left <= 0:
                    return False
            return True

    def names(self, *, nowait: bool = False) -> list[bytes]:
        """Return the groups that have committed something or have members, sorted, as of the last `refresh`."""
        with self._locked(nowait):
            return sorted({group for replay in self._replays.values() for group in replay.groups()})

    def commits(self, group: bytes, *, nowait: bool = False) -> list[Commit] | None:
        """Return the group's commits by partition, as of the last `refresh`; None when there is no such group."""
        with self._locked(nowait):
            mine = [replay for replay in self._replays.values() if replay.knows(group)]
            found = [commit for replay in mine for commit in self._decoded(replay.commits.get(group, {}))]
        return sorted(found) if mine else None

    def state(self, group: bytes, *, nowait: bool = False) -> dict[str, object] | None:
        """Return type, state and members of a group, as of the last `refresh` (see `group_state`); None where the
        records tell of commits alone."""
        with self._locked(nowait):
            records: dict[bytes, bytes] = {}
            for replay in self._replays.values():
                records |= replay.described.get(group, {})
        return group_state.describe(records)

    def lag(self, group: bytes, *, nowait: bool = False) -> list[Lag]:
        """Return the group's commits with the ends of their partitions, whose logs are opened for that."""
        commits = self.commits(group, nowait=nowait) or []
        return [Lag(commit.partition, commit.offset, self._end(commit.partition, nowait)) for commit in commits]

    def _end(self, partition: TopicPartition, nowait: bool) -> int | None:
        if not self._directory.has(partition):
            return None
        try:
            log = self._log(partition, nowait)
        except WouldBlock:
            raise
        except (StorageError, OSError):
            return None  # the partition's own files report the damage
        return log.next_offset

    def _log(self, partition: TopicPartition, nowait: bool) -> Log:
        opened = self._directory.opened(partition)
        if nowait and (opened is None or opened.is_gone):
            raise WouldBlock("the partition is not open", path=self._directory.path)
        log = self._directory.log(partition)
        log.refresh()
        return log

    def _decoded(self, kept: dict[bytes, _Kept]) -> Iterator[Commit]:
        for key, commit in kept.items():
            try:
                fields, _ = read(TYPES[_COMMIT].key, key, 0)
                topic, partition = fields["topic"], fields["partition"]
                assert isinstance(topic, str) and isinstance(partition, int)
                yield Commit(TopicPartition(topic, partition), commit.offset, commit.timestamp)
            except (MalformedMessage, InvalidName):
                self._notes.once("a commit names no partition")

    @contextlib.contextmanager
    def _locked(self, nowait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=not nowait):
            raise WouldBlock("commits are being read", path=self._directory.path)
        try:
            yield
        finally:
            self._lock.release()

    def _current(self, nowait: bool) -> list[_Replay]:
        """Return the replays of the partitions as they are now; one that was deleted or made anew begins again."""
        partitions = [each for each in self._directory.partitions() if each.topic == OFFSETS_TOPIC]
        for gone in self._replays.keys() - set(partitions):
            del self._replays[gone]
        for partition in partitions:
            try:
                log = self._log(partition, nowait)
            except WouldBlock:
                raise
            except (StorageError, OSError) as error:
                self._notes.once(f"{partition} does not open: {error}")
                continue
            replay = self._replays.get(partition)
            if replay is None or replay.log is not log:
                self._replays[partition] = _Replay(log, self._notes)
        return list(self._replays.values())


class _Notes:
    """Says each sentence once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def once(self, text: str) -> None:
        if text not in self._said and len(self._said) < NOTES_MAX:
            self._said.add(text)
            self._say(f"{OFFSETS_TOPIC}: {text}; it is passed over")


class _Replay:
    """What the records of one partition below `reached` come to. Keys are kept without their type."""

    def __init__(self, log: Log, notes: _Notes) -> None:
        self.log = log
        self.reached = log.log_start_offset
        self.commits: dict[bytes, dict[bytes, _Kept]] = {}
        self.described: dict[bytes, dict[bytes, bytes]] = {}
        """By group: what its coordinator has written of it and of its members, values by keys."""
        self.described_bytes = 0
        self.count = 0
        self._bytes_room = 0
        self._notes = notes
        self._pending: dict[int, list[Record]] = {}
        self._room = 0

    @property
    def is_complete(self) -> bool:
        return self.reached >= self.log.next_offset

    def groups(self) -> set[bytes]:
        """Return the groups that anything is known of."""
        return {*self.commits, *self.described}

    def knows(self, group: bytes) -> bool:
        return group in self.commits or group in self.described

    def advance(self, bytes_max: int, room: int, bytes_room: int) -> int:
        """Take in about `bytes_max` bytes of the log, at most `room` commits and `bytes_room` bytes of descriptions in
        all; return how many it were."""
        self._room, self._bytes_room = room, bytes_room
        end, taken = self.log.next_offset, 0
        # What retention or compaction has taken counts no longer, as for a coordinator that loads the partition now.
        reader = LogReader(
            self.log,
            start=self.reached,
            stop=end,
            isolation=RAW,
            on_damage=self._damaged,
            on_lost=lambda error: None,
        )
        for batch in reader.batches():
            self._take(batch)
            self.reached = max(self.reached, batch.header.next_offset)
            taken += batch.header.size
            if taken >= bytes_max:
                return taken
        self.reached = max(self.reached, end)
        return taken

    def _take(self, batch: Batch) -> None:
        header = batch.header
        try:
            if header.is_control:
                self._end_transaction(header.producer_id, end_marker(batch))
                return
            records = [record for record in batch.records() if record.offset >= self.log.log_start_offset]
        except UNREADABLE as error:
            self._damaged(error)
            return
        if header.is_transactional:
            if self._has_room(len(records)):
                self._pending.setdefault(header.producer_id, []).extend(records)
                self.count += len(records)
            return
        for record in records:
            self._apply(record)

    def _damaged(self, error: StorageError) -> None:
        self.log.note_damage(error)
        self._notes.once(str(error))

    def _end_transaction(self, producer_id: int, marker: tuple[int, int] | None) -> None:
        if marker is None or marker[0] not in (ABORT, COMMIT):
            return
        pending = self._pending.pop(producer_id, [])
        self.count -= len(pending)
        for record in pending if marker[0] == COMMIT else ():
            self._apply(record)

    def _apply(self, record: Record) -> None:
        key = record.key or b""
        if len(key) < _KEY_START.size:
            self._notes.once("a record without a whole key")
            return
        kind, size = _KEY_START.unpack_from(key)
        if kind not in (_LEGACY_COMMIT, _COMMIT) and kind not in group_state.DESCRIBED:
            if kind not in TYPES:
                self._notes.once(f"a record of the unknown type {kind}")
            return
        group = key[_KEY_START.size : _KEY_START.size + size]
        if size < 0 or len(group) < size:
            self._notes.once("a key that ends inside the group's name")
        elif kind in group_state.DESCRIBED:
            self._describe(group, key, record.value)
        else:
            self._apply_commit(group, key[_NAME_AT:], record)

    def _describe(self, group: bytes, key: bytes, value: bytes | None) -> None:
        known = self.described.get(group, {})
        before = known.pop(key, None)
        if before is not None:
            self.described_bytes -= len(key) + len(before)
            self.count -= 1
        if value is not None:
            size = len(key) + len(value)
            if self.described_bytes + size > self._bytes_room:
                self._notes.once(f"there are more than {DESCRIBED_BYTES_MAX} bytes of groups and members")
            elif self._has_room(1):
                self.count += 1
                self.described_bytes += size
                known[key] = value
        if known:
            self.described[group] = known
        else:
            self.described.pop(group, None)

    def _apply_commit(self, group: bytes, key: bytes, record: Record) -> None:
        commits = self.commits.get(group, {})
        before = commits.get(key)
        if before is not None and before.at > record.offset:
            return  # a transaction that ended after a later commit
        if record.value is None:
            if before is not None:
                del commits[key]
                self.count -= 1
                if not commits:
                    del self.commits[group]
            return
        offset = self._offset_in(record.value)
        if offset is None or (before is None and not self._has_room(1)):
            return
        self.count += before is None
        self.commits.setdefault(group, commits)[key] = _Kept(offset, record.timestamp, record.offset)

    def _offset_in(self, value: bytes) -> int | None:
        if len(value) < _VALUE_SIZE_MIN:
            self._notes.once("a commit that ends too early")
            return None
        version, offset = _VALUE_START.unpack_from(value)
        if not 0 <= version <= _VALUE_VERSION_MAX:
            self._notes.once(f"a commit of the unknown version {version}")
            return None
        return int(offset)

    def _has_room(self, count: int) -> bool:
        if self.count + count <= self._room:
            return True
        self._notes.once(f"there are more than {COMMITS_MAX} commits")
        return False
