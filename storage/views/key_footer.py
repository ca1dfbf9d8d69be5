"""The footer of a key index, in a file beside the table. Without a matching one the table is not used.

It is written when the index is closed, and removed before the table is changed again. It identifies the log, the offset
up to which the table covers it, and the last batch before that; also the table's file, its length, and a checksum over
all of it. So after a crash, a power cut, a copy taken during a write, a restored older table or a flipped bit, table
and record do not match, and the index is rebuilt.

docs/internals/format/by-key.md has the layout.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.records.format.checksum import crc32c

MAGIC = b"OFFSETKI"
VERSION = 1
IDENTITY_SIZE = 32

_HEADER = struct.Struct(">8sII")
_BODY = struct.Struct(">32s16sqqqIqqI")
SIZE = _HEADER.size + _BODY.size
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class IndexedRange:
    """The content of a table: the latest offset of each key among the records below `next_offset`.

    `identity`: of the log and its view. `pruned_to`: keys whose latest offset is lower are not in the table.
    `last_offset`: the base offset of the last indexed batch, whose header has the checksum `last_crc`.
    """

    identity: bytes
    seed: bytes
    pruned_to: int
    next_offset: int
    last_offset: int
    last_crc: int


def write(path: str, covered: IndexedRange, store_path: str) -> None:
    """Write the footer of the closed table at `store_path`. Durable on return; the table need not be."""
    status = files.status(store_path)
    body = _BODY.pack(
        covered.identity,
        covered.seed,
        covered.pruned_to,
        covered.next_offset,
        covered.last_offset,
        covered.last_crc,
        status.st_ino,
        status.st_size,
        checksum(store_path),
    )
    # Neither the table nor the name of the footer is synced: after a power cut the checksum does not match, and the
    # index is rebuilt from the log (decision 13).
    files.replace_file(path, _HEADER.pack(MAGIC, VERSION, crc32c(body)) + body, sync_name=False)


def read(path: str, store_path: str, *, is_checked: bool = True) -> IndexedRange | None:
    """Return what the table at `store_path` covers; None if it does not match its footer.

    Reads the whole table; with `is_checked` false, only its inode number and size.
    """
    try:
        data = files.read_file(path, SIZE)
        if len(data) != SIZE:
            return None
        magic, version, crc = _HEADER.unpack_from(data)
        if (magic, version, crc) != (MAGIC, VERSION, crc32c(data[_HEADER.size :])):
            return None
        identity, seed, pruned_to, next_offset, last_offset, last_crc, inode, size, store_crc = _BODY.unpack_from(
            data, _HEADER.size
        )
        status = files.status(store_path)
        if (status.st_ino, status.st_size) != (inode, size) or (is_checked and checksum(store_path) != store_crc):
            return None
    except OSError:
        return None
    return IndexedRange(identity, seed, pruned_to, next_offset, last_offset, last_crc)


def checksum(path: str) -> int:
    """Return the CRC-32C of a whole file."""
    crc, position = 0, 0
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    with files.open_file(path) as file:
        while count := file.read_into(buffer, position):
            crc = crc32c(buffer[:count], crc)
            position += count
    return int(crc)
