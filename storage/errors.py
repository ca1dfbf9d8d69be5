"""The errors that the engine raises, grouped by the operation that meets them.

Each error carries path, byte position and offset if they are known; its docstring names the remedy. Errors of the
operating system stay `OSError`. `assert` is for mistakes of this project only.
"""

from __future__ import annotations

import os


class StorageError(Exception):
    """An error of a log directory, its files, or a request."""

    def __init__(
        self, reason: str, *, path: str | None = None, position: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.position = position
        self.offset = offset

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("position", self.position), ("offset", self.offset))
            if value is not None
        ]
        location = ", ".join(([self.path] if self.path else []) + where)
        return f"{location}: {self.reason}" if location else self.reason


# --- when a directory is opened ------------------------------------------------------------------------------------


class NotALogDirectory(StorageError):
    """The path does not exist, is not a directory, or has other content. Cure: give a directory of `log.dirs`."""


class LogDirectoryLocked(StorageError):
    """Another process writes to the directory. Cure: stop it (the message has its pid), or mount with `-o ro`."""

    def __init__(self, reason: str, *, path: str | None = None, pid: int | None = None) -> None:
        super().__init__(reason, path=path)
        self.pid = pid


class InvalidCheckpoint(StorageError):
    """A small text file has invalid content. Cure: the message says what is lost and what is used instead."""


class InvalidSecurityFile(StorageError):
    """The file with credentials and ACLs is damaged or too large. Cure: the message names the file and what to do."""


class InheritedSecurity(StorageError):
    """A credential or ACL is that of the cluster. Cure: change it with Kafka's tools at a broker of the cluster."""


class InvalidSnapshot(StorageError):
    """A producer snapshot does not match its checksum. Cure: none needed, an older one is used."""


# --- when something is named ---------------------------------------------------------------------------------------


class InvalidName(StorageError):
    """Not a legal topic or partition name. Cure: `[a-zA-Z0-9._-]{1,249}`, a minus, the partition's number."""


class InvalidConfig(StorageError):
    """An unknown setting, or a value outside its range. Cure: the message names the setting and its range."""


class UnknownPartition(StorageError):
    """There is no such partition in this directory. Cure: `offsetfs create`."""


class DuplicatePartition(StorageError):
    """A partition is in two of the log directories served together. Cure: the message names both; remove one."""


class PartitionExists(StorageError):
    """The partition already exists. Cure: append to it, or choose another name."""


# --- when a log is read --------------------------------------------------------------------------------------------


class OffsetOutOfRange(StorageError):
    """The offset lies outside `[log_start_offset, next_offset)`, which the error carries."""

    def __init__(self, offset: int, log_start_offset: int, next_offset: int, path: str | None = None) -> None:
        super().__init__(f"not in [{log_start_offset}, {next_offset})", path=path, offset=offset)
        self.log_start_offset = log_start_offset
        self.next_offset = next_offset


class OffsetGap(StorageError):
    """Batches of another log would leave offsets without records, which the error's offset is behind.

    Cure: ask the other log again; if the offsets are missing there, allow the gap.
    """


class CorruptBatch(StorageError):
    """The checksum does not match the bytes.

    Cure: the raw bytes are in `segments/`; the records around it are readable.
    """


class MalformedBatch(StorageError):
    """The structure is wrong, though the checksum may hold.

    Cure: the raw bytes are in `segments/`; the records around it are readable.
    """


class OffsetBeyondSegment(StorageError):
    """An offset more than 2³¹−1 above its segment's base, which no index can hold. Cure: the segment is split."""


class CorruptIndex(StorageError):
    """An index file is torn, or its entries are out of order. Cure: none needed, it is rebuilt from the log."""


class UnsupportedFormat(StorageError):
    """A message format or codec this version cannot read. Cure: the message names it."""


class DecompressionLimit(StorageError):
    """A batch inflates beyond the limit, or has too many records or headers. Cure: raise the limit if the batch can be
    trusted; `values` and `records.ndjson` show a batch with too many records.
    """


class RecordsLeftOut(StorageError):
    """Records at this position cannot be read. Cure: read around them with `range/`, or mount with `-o damage=skip`."""


class WouldBlock(StorageError):
    """A call with `nowait` would need the disk, or much time. Cure: call again without it, in a thread."""


# --- when a log is written -----------------------------------------------------------------------------------------


class RecordTooLarge(StorageError):
    """A record or batch above `max.message.bytes`. Cure: raise it for the topic, or split the record."""


class ReadOnlyLog(StorageError):
    """The directory was opened for reading, or is closed. Cure: mount without `-o ro`."""


class UnreadableLog(StorageError):
    """A file of the partition holds values that no check expects. Cure: `offsetfs verify` names the damage."""


class UnrecoveredLog(StorageError):
    """The log could not be recovered after a crash and is read only. Cure: `offsetfs verify` names the damage."""


class LogFailed(StorageError):
    """An earlier write or sync failed, so the log accepts no more writes. Cure: repair the disk, mount again."""


class PolicyViolation(StorageError):
    """The topic's `cleanup.policy` does not allow the operation. Cure: add `delete` to it, or rely on compaction."""


class NoOffsetsTopic(StorageError):
    """`__consumer_offsets` does not exist, or is incomplete. Cure: let a consumer commit through the broker once; in a
    directory without a broker, mount with `-o create`.
    """


class CompactionCancelled(StorageError):
    """A round of compaction was cancelled. Cure: none, the next round begins where this one did."""


class SegmentsChanged(StorageError):
    """Retention or truncation removed a segment that was being rewritten. Cure: none, the next pass repeats it."""


class InvalidIndexAppend(StorageError):
    """An index entry is not beyond the last one, or does not fit. Cure: none, the caller rolls the segment."""


# --- when a producer with an id writes (a broker's door) -----------------------------------------------------------


class InvalidProducerEpoch(StorageError):
    """A newer instance of the producer has written already. Cure: the older one ends; it was fenced."""


class OutOfOrderSequence(StorageError):
    """A batch before this one is missing, or this one is an old duplicate. Cure: the producer sends the missing
    batches.
    """


class InvalidTransactionState(StorageError):
    """A batch outside the transaction that its producer has open. Cure: end the transaction first."""


class CoordinatorFenced(StorageError):
    """A marker of an older transaction coordinator. Cure: none, a newer coordinator has taken over."""


UNREADABLE = (CorruptBatch, MalformedBatch, UnsupportedFormat, DecompressionLimit)
"""The errors of a batch that is damaged or cannot be read."""


def sentence(error: Exception) -> str:
    """Return the message of an error: of an OSError the path and the reason, without Python's `[Errno 13]`."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    name = error.filename
    location = os.fsdecode(name) if isinstance(name, str | bytes) else ""
    return f"{location}: {error.strerror}" if location else error.strerror


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return `count` and the noun in the form that fits it; `plural` where it is not `singular` and an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
