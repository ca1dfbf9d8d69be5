"""The manifest of a partition: its segments in the archive, and the state of its log.

    number, time_ms, topic, partition, topic_id, settings
    policy_known                        false: a broker knows the retention of the topic, and the directory does not
    directory                           the log directory that archives the partition; missing in early states
    log_start, end                      offsets [log_start, end) can be read
    only_remote                         offsets [first, end) that the source had only in the remote storage of its
                                        broker; missing if there were none
    leader_epochs                       [[epoch, start offset], …], as in leader-epoch-checkpoint
    segments                            rising, without overlap
        base_offset, end                offsets [base_offset, end) may be in it
        size                            bytes of the log file that are archived: whole batches
        max_time_ms, modified_ms        the largest timestamp, -1 if unknown; of the log file, as retention takes it
        is_sealed                       the segment will not grow
        parts                           [[key, bytes, SHA-256], …]; joined they are the first `size` bytes of the log
        side                            key, bytes, SHA-256 of the side object, and the sizes of its sections
        source                          which file it was: inode, size, modification and change time, in ns

The side object of a segment is what a reader needs besides batches, in one request:

    offset index │ time index │ transaction index │ producer snapshot │ CRC-32C of each block of the log, u32 LE

A block is `block_bytes` long, the last one shorter. Keys are relative to the archive. Objects have their SHA-256 in
their key, and are never replaced; those of earlier manifests stay.
"""

from __future__ import annotations

import base64
import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offsetfs.storage import I32_MAX, OFFSET_MAX, TopicPartition
from offsetfs.storage.errors import InvalidName

BLOCK_BYTES = 1 << 20
"""The unit in which a log is verified and cached. Power of two, 64 KiB…16 MiB."""

PART_BYTES_MAX = 64 << 20
"""The largest object with bytes of a log. Bounds the memory of an upload and of the repetition of one that failed."""

_TOPIC_ID_CHARACTERS = 22


@dataclass(frozen=True, slots=True)
class ArchivedObject:
    """An object that never changes."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SideObject:
    """The indexes, the snapshot and the block checksums of a segment; sizes in bytes, 0 for a file that is missing."""

    stored: ArchivedObject
    index: int
    time_index: int
    transaction_index: int
    snapshot: int
    checksums: int

    def sections(self) -> dict[str, tuple[int, int]]:
        """Return the range of each section, by the suffix of its file; the checksums are `crc`."""
        sizes = {
            ".index": self.index,
            ".timeindex": self.time_index,
            ".txnindex": self.transaction_index,
            ".snapshot": self.snapshot,
            "crc": self.checksums,
        }
        position, ranges = 0, {}
        for suffix, size in sizes.items():
            ranges[suffix] = position, position + size
            position += size
        return ranges


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The log file at the time of the upload. The same values mean that its first `size` bytes are the same."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class ArchivedSegment:
    """A segment, or the beginning of one that grows."""

    base_offset: int
    end: int
    size: int
    max_time_ms: int
    modified_ms: int
    is_sealed: bool
    parts: tuple[ArchivedObject, ...]
    side: SideObject
    source: SourceFile


@dataclass(frozen=True, slots=True)
class PartitionManifest:
    """A state of a partition in an archive."""

    partition: TopicPartition
    time_ms: int
    topic_id: str
    log_start: int
    end: int
    segments: tuple[ArchivedSegment, ...]
    leader_epochs: tuple[tuple[int, int], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    block_bytes: int = BLOCK_BYTES
    directory: str = ""
    """The log directory that archives the partition (`storage.directory.log_directory_ids`); empty if not known."""
    is_policy_known: bool = True
    """Whether the settings include the retention of the topic. A broker's own defaults are in no log directory."""
    only_remote: tuple[int, int] | None = None
    """The offsets [first, end) before `log_start` that the source had only in the remote storage of its broker."""

    def objects(self) -> dict[str, int]:
        """Return the sizes of all objects that the state needs, by key."""
        return {
            stored.key: stored.size for segment in self.segments for stored in (*segment.parts, segment.side.stored)
        }

    def encoded(self) -> dict[str, Any]:
        """Return the state as the content of a numbered document."""
        known: dict[str, Any] = {"directory": self.directory} if self.directory else {}
        if not self.is_policy_known:
            known["policy_known"] = False
        if self.only_remote is not None:
            known["only_remote"] = list(self.only_remote)
        return {
            "kind": "partition",
            **known,
            "time_ms": self.time_ms,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "topic_id": self.topic_id,
            "settings": dict(self.settings),
            "log_start": self.log_start,
            "end": self.end,
            "leader_epochs": [list(entry) for entry in self.leader_epochs],
            "block_bytes": self.block_bytes,
            "segments": [_encoded_segment(segment) for segment in self.segments],
        }

    @classmethod
    def decoded(
        cls, content: Mapping[str, Any], url: str, partition: TopicPartition | None = None
    ) -> PartitionManifest:
        """Return the state of a document. OSError EINVAL, with the field, if a value is missing or impossible.

        `partition`: the one that it must be of, by its place in the archive; None: any.
        """
        try:
            manifest = cls(
                partition=TopicPartition(_text(content["topic"]), _number(content["partition"], I32_MAX)),
                time_ms=_number(content["time_ms"]),
                topic_id=_text(content["topic_id"]),
                settings={_text(name): _text(text) for name, text in content["settings"].items()},
                log_start=_number(content["log_start"]),
                end=_number(content["end"]),
                leader_epochs=tuple(
                    (_number(epoch, I32_MAX), _number(start)) for epoch, start in content["leader_epochs"]
                ),
                block_bytes=_number(content["block_bytes"], 16 << 20, low=64 << 10),
                segments=tuple(_decoded_segment(segment) for segment in content["segments"]),
                directory=_text(content.get("directory", "")),
                is_policy_known=content.get("policy_known", True) is True,
                only_remote=_decoded_range(content.get("only_remote")),
            )
            manifest._check()
            if partition is not None and manifest.partition != partition:
                raise ValueError(f"it is a copy of that of {manifest.partition}")
        except KeyError as error:
            raise OSError(errno.EINVAL, f"is not a manifest of a partition: it has no {error}", url) from error
        except (TypeError, ValueError, AttributeError, InvalidName) as error:
            raise OSError(errno.EINVAL, f"is not a manifest of a partition: {error}", url) from error
        return manifest

    def _check(self) -> None:
        TopicPartition.parse(str(self.partition))
        if not self.segments:
            raise ValueError("it has no segment")
        if self.topic_id and not any(base64.b64decode(self.topic_id + "==", b"-_", validate=True)):
            raise ValueError(f"{self.topic_id!r} is not a topic id")
        if self.topic_id and len(self.topic_id) != _TOPIC_ID_CHARACTERS:
            raise ValueError(f"{self.topic_id!r} is not a topic id")
        previous = base = -1
        folder = f"{self.partition}/segments/"
        for segment in self.segments:
            if not previous <= segment.base_offset <= segment.end or segment.base_offset == base:
                raise ValueError(f"segment {segment.base_offset} begins before offset {previous}")
            if sum(part.size for part in segment.parts) != segment.size:
                raise ValueError(f"the parts of segment {segment.base_offset} do not have {segment.size} bytes")
            blocks = -(-segment.size // self.block_bytes)
            if segment.side.checksums != 4 * blocks:
                raise ValueError(f"segment {segment.base_offset} does not have {blocks} checksums of blocks")
            for stored in (*segment.parts, segment.side.stored):
                if not stored.key.startswith(
                    folder
                ):  # an expiry of that partition would not know that it is named here
                    raise ValueError(f"object {stored.key} is of another partition")
            previous, base = segment.end, segment.base_offset
        if self.log_start > self.end or self.segments[-1].end != self.end:
            raise ValueError(f"offsets {self.log_start} to {self.end} do not fit the segments")


def _encoded_segment(segment: ArchivedSegment) -> dict[str, Any]:
    side, source = segment.side, segment.source
    return {
        "base_offset": segment.base_offset,
        "end": segment.end,
        "size": segment.size,
        "max_time_ms": segment.max_time_ms,
        "modified_ms": segment.modified_ms,
        "is_sealed": segment.is_sealed,
        "parts": [[part.key, part.size, part.sha256] for part in segment.parts],
        "side": [
            [side.stored.key, side.stored.size, side.stored.sha256],
            [side.index, side.time_index, side.transaction_index, side.snapshot, side.checksums],
        ],
        "source": [source.inode, source.size, source.modified_ns, source.changed_ns],
    }


def _decoded_segment(content: Mapping[str, Any]) -> ArchivedSegment:
    stored, sizes = content["side"]
    side = SideObject(_decoded_object(stored), *(_number(size, I32_MAX) for size in sizes))
    if sum(sizes) != side.stored.size:
        raise ValueError(f"the sections of {side.stored.key} do not have {side.stored.size} bytes")
    return ArchivedSegment(
        base_offset=_number(content["base_offset"]),
        end=_number(content["end"]),
        size=_number(content["size"], I32_MAX),
        max_time_ms=_number(content["max_time_ms"], low=-1),
        modified_ms=_number(content["modified_ms"]),
        is_sealed=bool(content["is_sealed"]),
        parts=tuple(_decoded_object(part) for part in content["parts"]),
        side=side,
        source=SourceFile(*(_number(number, 2**64) for number in content["source"])),
    )


def _decoded_range(content: Any) -> tuple[int, int] | None:
    if content is None:
        return None
    first, end = content
    return _number(first), _number(end)


def _decoded_object(content: Any) -> ArchivedObject:
    key, size, sha256 = content
    text = _text(key)
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"key {text!r} leads out of the archive")
    return ArchivedObject(text, _number(size, I32_MAX), _text(sha256))


def _number(value: Any, high: int = OFFSET_MAX, *, low: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{value!r} is not in {low}…{high}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value
