"""The small text files of a log directory: offset and epoch checkpoints, the clean-shutdown mark, identities.

    recovery-point-offset-checkpoint …      0 \\n  <count> \\n  then a line each:  <topic> <partition> <offset>
    <partition>/leader-epoch-checkpoint     0 \\n  <count> \\n  then a line each:  <epoch> <start offset>
    .kafka_cleanshutdown                    {"version":0,"brokerEpoch":<n>}, or empty before Kafka 3.7
    meta.properties                         <name>=<value> a line
    <partition>/partition.metadata          version: 0 \\n  topic_id: <base64 of 16 bytes>

A missing file reads as nothing (an empty mapping or None), malformed content raises `InvalidCheckpoint`, and the caller
decides what that costs. A write replaces the file whole and is on disk after return. Follows Kafka's `CheckpointFile`,
`OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `CleanShutdownFileHandler`, `PartitionMetadataFile` and
`PropertiesUtils`. The page docs/internals/format/checkpoints.md shows each.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from offsetfs.storage import files
from offsetfs.storage.errors import InvalidCheckpoint, InvalidName
from offsetfs.storage.names import OFFSET_MAX, TopicPartition
from offsetfs.storage.settings.properties_file import unescaped
from offsetfs.storage.units import I32_MAX

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
SECURITY_FILE = "00000000000000000000-0000000000.offsetfs-security.checkpoint"
"""SCRAM credentials and ACLs; not text, see `security.security_file`."""
LOGIN_SECRET_FILE = ".offsetfs-login-secret"
"""Random bytes, from which the answers to the logins of unknown users derive."""

TOPIC_ID_SIZE = 16
BYTES_MAX = 1 << 26
"""The largest file that is read: a million partitions. Protects the memory from a planted giant."""

_VERSION = 0
# At most 19 digits, as a Java long has: Python would otherwise convert numbers of a million digits, which takes
# seconds.
_NUMBER = re.compile(r"-?[0-9]{1,19}\Z")

Entry = TypeVar("Entry")


# --- offset and epoch checkpoints ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetEntries:
    """The content of an offset checkpoint: the offsets, and lines without an offset, to be written unchanged."""

    offsets: dict[TopicPartition, int]
    foreign: tuple[str, ...] = ()


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition in an offset checkpoint; empty when the file is missing or empty."""
    return dict(_read_entries(path, _parse_offset))


def read_offset_entries(path: str) -> OffsetEntries:
    """Return all lines of an offset checkpoint. `InvalidCheckpoint` only if their number or the version is wrong."""
    entries = _read_entries(path, _offset_or_line)
    return OffsetEntries(
        dict(entry for entry in entries if not isinstance(entry, str)),
        tuple(entry for entry in entries if isinstance(entry, str)),
    )


def write_offsets(path: str, offsets: Mapping[TopicPartition, int], foreign: Iterable[str] = ()) -> None:
    """Replace an offset checkpoint, in the order of topic and partition. On disk after return."""
    lines = (f"{p.topic} {p.partition} {offset}" for p, offset in sorted(offsets.items()))
    _write_entries(path, (*lines, *foreign))


def read_epochs(path: str) -> list[tuple[int, int]]:
    """Return (epoch, start offset), rising in both; empty when the file is missing or empty."""
    epochs = _read_entries(path, _parse_epoch)
    for (epoch, start), (next_epoch, next_start) in pairwise(epochs):
        if next_epoch <= epoch or next_start < start:
            raise InvalidCheckpoint(f"epoch {next_epoch} from {next_start} follows {epoch} from {start}", path=path)
    return epochs


def write_epochs(path: str, epochs: Iterable[tuple[int, int]], *, sync_name: bool = True) -> None:
    """Replace a leader-epoch checkpoint. On disk after return; `sync_name` as of `replace_file`."""
    _write_entries(path, (f"{epoch} {start}" for epoch, start in epochs), sync_name=sync_name)


def _parse_offset(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = line.split()
    return TopicPartition(topic, _number(partition, OFFSET_MAX)), _number(offset, OFFSET_MAX)


def _offset_or_line(line: str) -> tuple[TopicPartition, int] | str:
    try:
        return _parse_offset(line)
    except (ValueError, InvalidName):
        return line


def _parse_epoch(line: str) -> tuple[int, int]:
    epoch, start = line.split()
    return _number(epoch, I32_MAX), _number(start, OFFSET_MAX)


def _number(text: str, high: int) -> int:
    if not _NUMBER.match(text) or not 0 <= (number := int(text)) <= high:
        raise ValueError(f"{text[:30]!r} is not in 0…{high}")
    return number


def _read_entries(path: str, parse: Callable[[str], Entry]) -> list[Entry]:
    """Return the parsed entries after a version line and a count line, which must agree with what follows."""
    lines = _read_lines(path)
    if not lines:
        return []
    if lines[0].strip() != str(_VERSION):
        raise InvalidCheckpoint(f"line 1: version {lines[0][:30]!r}, known is {_VERSION}", path=path)
    if len(lines) == 1:
        return []
    try:
        count = _number(lines[1].strip(), OFFSET_MAX)
    except ValueError as error:
        raise InvalidCheckpoint(f"line 2: {error}", path=path) from None
    # As Kafka's CheckpointFile: a torn file is refused as a whole. A partition without its entry would be recovered
    # from offset 0, or get a log start that is too low.
    if count != len(lines) - 2:
        raise InvalidCheckpoint(f"{count} entries promised, {len(lines) - 2} found", path=path)
    return [_parse_line(path, number, line, parse) for number, line in enumerate(lines[2:], start=3)]


def _parse_line(path: str, number: int, line: str, parse: Callable[[str], Entry]) -> Entry:
    try:
        return parse(line)
    except (ValueError, InvalidName) as error:
        raise InvalidCheckpoint(f"line {number}: {line[:300]!r}: {error}", path=path) from None


def _write_entries(path: str, entries: Iterable[str], *, sync_name: bool = True) -> None:
    body = list(entries)
    text = "".join(f"{line}\n" for line in (_VERSION, len(body), *body))
    files.replace_file(path, text.encode(), sync_name=sync_name)


# --- the clean-shutdown mark -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The clean shutdown file. Its existence means that the directory was closed cleanly; `broker_epoch` is -1 if
    unknown.
    """

    broker_epoch: int = -1

    @classmethod
    def read(cls, directory: str) -> CleanShutdown | None:
        """Return the content, None if there is no file. Invalid content is no error."""
        try:
            data = files.read_file(os.path.join(directory, CLEAN_SHUTDOWN), BYTES_MAX)
        except FileNotFoundError:
            return None
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            # Only the existence of the file counts, as in Kafka: before 3.7 it is empty.
            return cls()
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return cls(epoch if type(epoch) is int and -1 <= epoch <= OFFSET_MAX else -1)

    def write(self, directory: str) -> None:
        """Write the file as the last step of a clean shutdown. Durable on return.

        Content that was read can be written again, so that a broker finds its own epoch.
        """
        text = f'{{"version":0,"brokerEpoch":{self.broker_epoch}}}'
        files.replace_file(os.path.join(directory, CLEAN_SHUTDOWN), text.encode())

    @staticmethod
    def remove(directory: str) -> None:
        """Remove the file before the first change. Durable on return; no error if there is none."""
        path = os.path.join(directory, CLEAN_SHUTDOWN)
        if files.exists(path):
            files.remove_file(path)
        files.sync_directory(directory)  # also without the file: a process killed here left a name that may come back


# --- identities ------------------------------------------------------------------------------------------------------


def read_properties(path: str) -> dict[str, str] | None:
    """Return a Java properties file such as `meta.properties`; None when it is missing.

    The simple form that Kafka writes: one `name=value` a line, `#` and `!` for comments, a backslash before a special
    character. Continued lines and `\\uXXXX` do not occur in it and are refused.
    """
    lines = _read_lines(path)
    if lines is None:
        return None
    entries = (line.lstrip(" \t\f").removesuffix("\r") for line in lines)
    return dict(_parse_property(path, line) for line in entries if line and line[0] not in "#!")


def check_meta_properties(path: str) -> None:
    """Raise `InvalidCheckpoint` for a `meta.properties` with which no broker starts; none at all is fine."""
    properties = read_properties(path)
    if properties is None:
        return
    version = properties.get("version")
    if version is None:
        raise InvalidCheckpoint("no version: it was cut or zeroed", path=path)
    if not _INTEGER.match(version) or int(version) not in (0, 1):
        raise InvalidCheckpoint(f"version {version[:300]!r}, which is neither 0 nor 1", path=path)
    node, is_required = ("node.id", True) if int(version) else ("broker.id", False)
    if int(version) and "cluster.id" not in properties:
        raise InvalidCheckpoint("no cluster.id: it was cut", path=path)
    if not _INTEGER.match(properties.get(node, "" if is_required else "0")):
        raise InvalidCheckpoint(f"no number in {node}", path=path)


def _parse_property(path: str, line: str) -> tuple[str, str]:
    match = _PROPERTY.match(line)
    if match is None:
        raise InvalidCheckpoint(f"{line[:300]!r} is no property", path=path)
    return unescaped(match[1]), unescaped(match[2])


_INTEGER = re.compile(r"[+-]?[0-9]{1,10}\Z")

# Possessive quantifiers (`++`): a long line that does not match would otherwise take quadratic time.
_PROPERTY = re.compile(r"((?:[^\\=: \t]|\\[^u])++)(?:[ \t]*+(?:[=:][ \t]*+)?)((?:[^\\]|\\[^u])*+)\Z")


def read_topic_id(path: str) -> bytes | None:
    """Return the 16 bytes of the topic id in a `partition.metadata`; None when the file is missing."""
    lines = _read_lines(path)
    if lines is None:
        return None
    fields = dict(pair for pair in (re.split(r":\s+", line, maxsplit=1) for line in lines) if len(pair) == 2)
    try:
        _number(fields["version"].strip(), I32_MAX)
        return _decode_topic_id(fields["topic_id"].strip())
    except KeyError as error:
        raise InvalidCheckpoint(f"no line for {error}", path=path) from None
    except ValueError as error:
        raise InvalidCheckpoint(str(error), path=path) from None


def write_topic_id(path: str, topic_id: bytes, *, sync_name: bool = True) -> None:
    """Replace a `partition.metadata` with one for `topic_id`, 16 bytes not all zero. On disk as of `replace_file`."""
    assert len(topic_id) == TOPIC_ID_SIZE and any(topic_id)
    # Without padding, as Kafka's Uuid.toString writes it.
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    content = f"version: {_VERSION}\ntopic_id: {text}"  # no newline at the end: as Kafka's
    files.replace_file(path, content.encode(), sync_name=sync_name)


@functools.lru_cache(maxsize=1024)  # all partitions of a topic have the same; errors are not kept
def _decode_topic_id(text: str) -> bytes:
    """Return the bytes of URL-safe base64; padding is taken, as Kafka takes it, and never written."""
    try:
        topic_id = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"topic id {text[:30]!r}: {error}") from None
    if len(topic_id) != TOPIC_ID_SIZE or not any(topic_id):
        raise ValueError(f"topic id {text[:30]!r} is zero or not {TOPIC_ID_SIZE} bytes")
    return topic_id


# --- text ------------------------------------------------------------------------------------------------------------


def _read_lines(path: str) -> list[str] | None:
    try:
        text = files.read_file(path, BYTES_MAX).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidCheckpoint("not UTF-8", path=path, position=error.start) from None
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
