"""`<offset>.json`, `<offset>.key`, `<offset>.headers`: what a record has beside its value.

By name only, never listed. They are there when the record is (`records`), as long, and with its time.

    42.json       one line: the one that records.ndjson has
    42.key        the bytes of the key; ENOENT where that is null
    42.headers    a line for each header, in their order

A header is `name: value` where the value is text that fits into a line: UTF-8 without control characters but tabs.
Other values stand in base64 behind two colons, `name:: /w==`, as in LDIF; a null value leaves the name alone on its
line. In a name `%`, `:`, control characters and what is not UTF-8 are written as in a URL, `%3A`: so the first colon
ends it.
"""

from __future__ import annotations

import base64
import errno
import re
from collections.abc import Callable

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.attributes import FOREVER_S, REMOVABLE_S
from offsetfs.fs.inodes import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared, Shown
from offsetfs.fs.views.records import RecordFiles, RecordHandle
from offsetfs.storage.records.record_json import line_prefix, lines_of

Content = Callable[[Shown], bytes | None]
"""Returns the content of a part, None when the record has no such part."""

_ON_THE_LOOP_BYTES_MAX = 64 << 10
"""Up to how long a value its line of JSON is made on the event loop: that takes a fraction of a millisecond."""

_NOT_IN_A_LINE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED_IN_A_NAME = re.compile(r"[%:\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")


class RecordParts:
    """One part of each record of a partition. `number`: that of the record."""

    def __init__(
        self, shared: Shared, partition: Partition, records: RecordFiles, kind: Kind, content: Content
    ) -> None:
        self._shared = shared
        self._partition = partition
        self._records = records
        self.kind = kind
        self._content = content

    async def lookup(self, offset: int) -> EntryAttributes | None:
        shown = await self._records.find(offset)
        return None if shown is None else await self._entry(offset - self._partition.anchor, shown)

    async def attributes(self, number: int) -> EntryAttributes:
        entry = await self._entry(number, await self._records.shown(number))
        if entry is None:
            raise FUSEError(errno.ENOENT)
        return entry

    async def _entry(self, number: int, shown: Shown) -> EntryAttributes | None:
        content = await self._made(shown)
        if content is None:
            return None
        return self._shared.attributes.file(
            self._partition.inode(self.kind, number),
            len(content),
            shown.mtime_ns,
            attr_timeout_s=FOREVER_S,
            entry_timeout_s=REMOVABLE_S,
        )

    async def open(self, number: int, opening: Opening) -> Opened:
        record = await self._records.hold(number)
        try:
            return Opened(PartHandle(await self._made(record.shown) or b"", record))
        except BaseException:
            await record.release()
            raise

    async def _made(self, shown: Shown) -> bytes | None:
        if len(shown.value) <= _ON_THE_LOOP_BYTES_MAX:
            return self._content(shown)
        return await self._shared.in_thread(lambda: self._content(shown))


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


def record_parts(shared: Shared, partition: Partition, records: RecordFiles) -> dict[bytes, RecordParts]:
    """Return the parts of a partition's records, by suffix (`tree.RECORD_SUFFIXES`)."""
    prefix = line_prefix(partition.name.topic, partition.name.partition)

    def json(shown: Shown) -> bytes:
        return lines_of((shown.record,), prefix)

    contents: dict[bytes, tuple[Kind, Content]] = {
        b".json": (Kind.RECORD_JSON, json),
        b".key": (Kind.RECORD_KEY, lambda shown: shown.record.key),
        b".headers": (Kind.RECORD_HEADERS, header_lines),
    }
    return {
        suffix: RecordParts(shared, partition, records, kind, content) for suffix, (kind, content) in contents.items()
    }


def header_lines(shown: Shown) -> bytes:
    """Return what `<offset>.headers` shows; b"" for a record without headers."""
    return b"".join(_header_line(name, value) for name, value in shown.record.headers)


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
    """Return the name of a header, in which bytes that are not UTF-8 stand as surrogates."""
    return _ESCAPED_IN_A_NAME.sub(_percent, name).encode()


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))
