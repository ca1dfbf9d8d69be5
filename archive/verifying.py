"""Checks all bytes of an archive: each object that the newest manifests name, against its SHA-256 and its checksums.

Also what readers and a restore look at first: the mark of the archive, the settings of topics, the copy of the newest
manifest. A copy that is missing or behind is no damage: an archiver that was killed before it wrote the copy leaves it
so.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from crc32c import crc32c

from offsetfs.archive import marker
from offsetfs.archive.manifest import ArchivedObject, ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import COPY, NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.storage import TopicPartition, remote_note
from offsetfs.storage.errors import sentence

_AT_ONCE = 4
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class ArchiveFinding:
    """An object that is missing or damaged, or a manifest that cannot be read."""

    url: str
    reason: str
    offsets: tuple[int, int] | None = None
    """[first, end) of the records that it concerns; None for all of the partition."""

    def __str__(self) -> str:
        where = "" if self.offsets is None else f", offsets {self.offsets[0]} to {self.offsets[1] - 1}"
        return f"{self.url}{where}: {self.reason}"


@dataclass(slots=True)
class VerifiedArchive:
    """The result of a check."""

    partitions: int = 0
    segments: int = 0
    objects: int = 0
    bytes: int = 0
    remote_storage: dict[str, str] = field(default_factory=dict)
    """By partition, a sentence on the records that were only in the remote storage of its broker."""


def verify_archive(
    store: ObjectStore,
    *,
    takes: Callable[[TopicPartition], bool] = lambda partition: True,
    on_bytes: Callable[[int], None] = lambda count: None,
    done: VerifiedArchive,
) -> Iterator[ArchiveFinding]:
    """Yield the damage of an archive, and count checked objects in `done`. OSError if it cannot be listed.

    Nothing is yielded for a place without partitions.
    """
    about_all = [*_refused(store, lambda: marker.check(store)), *_refused(store, NumberedDocuments(store, "").copy)]
    for name in store.children():
        partition = TopicPartition.parse_or_none(name)
        if partition is None:
            continue
        if not takes(partition):
            continue
        yield from about_all
        about_all = []
        url = f"{store.url}/{partition}"
        try:
            newest = NumberedDocuments(store, str(partition)).newest()
            if newest is None:
                continue  # an archiver was killed before its first manifest
            manifest = PartitionManifest.decoded(newest.content, url, partition)
            yield from _refused(store, functools.partial(_check_copy, store, partition))
        except OSError as error:
            yield ArchiveFinding(str(error.filename or url), str(error.strerror))
            continue
        done.partitions += 1
        note = None if manifest.only_remote is None else remote_note(*manifest.only_remote)
        if note is not None:
            done.remote_storage[str(partition)] = note
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            check = functools.partial(_segment, store, manifest, on_bytes)
            for result in threads.map(check, manifest.segments):
                done.segments += 1
                done.objects += result[0]
                done.bytes += result[1]
                yield from result[2]


def _check_copy(store: ObjectStore, partition: TopicPartition) -> None:
    document = NumberedDocuments(store, str(partition)).copy()
    if document is not None:
        PartitionManifest.decoded(document.content, f"{store.url}/{partition}/{COPY}", partition)


def _refused(store: ObjectStore, check: Callable[[], object]) -> list[ArchiveFinding]:
    try:
        check()
    except OSError as error:
        return [ArchiveFinding(str(error.filename or store.url), str(error.strerror))]
    return []


def _segment(
    store: ObjectStore, manifest: PartitionManifest, on_bytes: Callable[[int], None], segment: ArchivedSegment
) -> tuple[int, int, list[ArchiveFinding]]:
    """Return (objects, bytes, findings) of a segment."""
    findings: list[ArchiveFinding] = []
    whole = segment.base_offset, segment.end
    side = _read(store, segment.side.stored, whole, findings)
    checksums = None
    if side is not None:
        start, stop = segment.side.sections()["crc"]
        checksums = [checksum for (checksum,) in _CHECKSUM.iter_unpack(side[start:stop])]
    count, size, position, kept = 1, segment.side.stored.size, 0, b""
    for part in segment.parts:
        data = _read(store, part, whole, findings)
        count, size = count + 1, size + part.size
        on_bytes(part.size)
        if data is not None and checksums is not None:
            kept = _blocks(store, manifest, segment, kept + data, position - len(kept), checksums, findings)
        else:
            checksums = None
        position += part.size
    return count, size, findings


def _blocks(
    store: ObjectStore,
    manifest: PartitionManifest,
    segment: ArchivedSegment,
    data: bytes,
    position: int,
    checksums: list[int],
    findings: list[ArchiveFinding],
) -> bytes:
    """Compare whole blocks with their checksums; return the bytes of the last one, if its end is in the next part."""
    view = memoryview(data)
    for start in range(0, len(data), manifest.block_bytes):
        block = view[start : start + manifest.block_bytes]
        if len(block) < manifest.block_bytes and position + len(data) < segment.size:
            return bytes(block)
        if crc32c(block) != checksums[(position + start) // manifest.block_bytes]:
            url = f"{store.url}/{segment.side.stored.key}"
            reason = f"its checksum of the block at position {position + start} is not that of the parts"
            findings.append(ArchiveFinding(url, reason, (segment.base_offset, segment.end)))
    return b""


def _read(
    store: ObjectStore, wanted: ArchivedObject, offsets: tuple[int, int], findings: list[ArchiveFinding]
) -> bytes | None:
    try:
        return store.read_whole(wanted.key, wanted.size, wanted.sha256)
    except OSError as error:
        findings.append(ArchiveFinding(f"{store.url}/{wanted.key}", str(error.strerror or sentence(error)), offsets))
        return None
