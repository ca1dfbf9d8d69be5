"""`<offset>.json`, `<offset>.key`, `<offset>.headers`: the other parts of a record.

Found by name only, never listed. They exist as long as the record (`records`), and have its time.

    42.json       one line, as in records.ndjson
    42.key        the bytes of the key; ENOENT if it is null
    42.headers    a line for each header, in their order

A header is `name: value` if the value is text that fits into a line: UTF-8 without control characters other than tabs.
Other values are in base64 behind two colons, `name:: /w==`, as in LDIF. A null value leaves only the name. In a name,
`%`, `:`, control characters and bytes that are not UTF-8 are percent-encoded (`%3A`), so the first colon ends it.
"""

from __future__ import annotations

import base64
import errno
import re
from collections.abc import Callable

from offsetfs.fs.attributes import FOREVER_S, REMOVABLE_S
from offsetfs.fs.caches import RecordContent
from offsetfs.fs.files.records import RecordFiles, RecordHandle
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import RECORD_PARTS, Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.options import BASE64
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage.records import line_prefix, lines_of

Content = Callable[[RecordContent], bytes | None]
"""Returns the content of a part. None if the record has no such part."""

_ON_THE_LOOP_BYTES_MAX = 64 << 10
"""Lines of JSON of longer values are made in a thread; up to this size it takes a fraction of a millisecond."""

_NOT_IN_A_LINE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED_IN_A_NAME = re.compile(r"[%:\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")


class RecordParts:
    """One part of each record of a partition. `number`: that of the record."""

    def __init__(
        self, mount: MountContext, partition: MountedPartition, records: RecordFiles, kind: Kind, content: Content
    ) -> None:
        self._mount = mount
        self._partition = partition
        self._records = records
        self.kind = kind
        self._content = content

    async def lookup(self, offset: int) -> EntryAttributes | None:
        record_content = await self._records.find(offset)
        return None if record_content is None else await self._entry(offset - self._partition.anchor, record_content)

    async def attributes(self, number: int) -> EntryAttributes:
        entry = await self._entry(number, await self._records.content(number))
        if entry is None:
            raise FUSEError(errno.ENOENT)
        return entry

    async def _entry(self, number: int, record_content: RecordContent) -> EntryAttributes | None:
        content = await self._made(record_content)
        if content is None:
            return None
        return self._mount.attributes.file(
            self._partition.inode(self.kind, number),
            len(content),
            record_content.mtime_ns,
            attr_timeout_s=FOREVER_S,
            entry_timeout_s=REMOVABLE_S,
        )

    async def open(self, number: int, opening: Opening) -> Opened:
        record = await self._records.hold(number)
        try:
            return Opened(PartHandle(await self._made(record.content) or b"", record))
        except BaseException:
            await record.release()
            raise

    async def _made(self, record_content: RecordContent) -> bytes | None:
        if len(record_content.value) <= _ON_THE_LOOP_BYTES_MAX:
            return self._content(record_content)
        return await self._mount.executor.in_thread(lambda: self._content(record_content))


class PartHandle:
    """An open part, which keeps its record open."""

    __slots__ = ("_content", "_record")

    def __init__(self, content: bytes, record: RecordHandle) -> None:
        self._content = content
        self._record = record

    async def read(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]

    async def release(self) -> None:
        await self._record.release()


def record_parts(mount: MountContext, partition: MountedPartition, records: RecordFiles) -> dict[bytes, RecordParts]:
    """Return the parts of a partition's records, by suffix (`RECORD_PARTS`)."""
    prefix = line_prefix(partition.name.topic, partition.name.partition)

    def json(record_content: RecordContent) -> bytes:
        return lines_of((record_content.record,), prefix, as_base64=mount.options.json_bytes == BASE64)

    contents: dict[Kind, Content] = {
        Kind.RECORD_JSON: json,
        Kind.RECORD_KEY: lambda record_content: record_content.record.key,
        Kind.RECORD_HEADERS: header_lines,
    }
    return {
        suffix: RecordParts(mount, partition, records, kind, contents[kind]) for suffix, kind in RECORD_PARTS.items()
    }


def header_lines(record_content: RecordContent) -> bytes:
    """Return the content of `<offset>.headers`. b"" for a record without headers."""
    return b"".join(_header_line(name, value) for name, value in record_content.record.headers)


def _header_line(name: str, value: bytes | None) -> bytes:
    if value is None:
        return _name(name) + b"\n"
    if _is_line(value):
        return _name(name) + b": " + value + b"\n"
    return _name(name) + b":: " + base64.b64encode(value) + b"\n"


def _is_line(value: bytes) -> bool:
    try:
        return not _NOT_IN_A_LINE.search(value.decode())
    except UnicodeDecodeError:
        return False


def _name(name: str) -> bytes:
    """Return the name of a header; bytes that are not UTF-8 become surrogates."""
    return _ESCAPED_IN_A_NAME.sub(_percent, name).encode()


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))
