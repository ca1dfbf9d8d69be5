"""What happens to the bytes of a file: a bit flips, sectors are zeroed, swapped, written elsewhere, or cut off."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from bit_rot_material import Known

SECTOR = 512
OFFSET_SIZE = 8
SIZE_OVERHEAD = 12
_HEADER = struct.Struct(">qi4xb")
_DELTA = struct.Struct(">i")
_DELTA_POSITION = 23


@dataclass(frozen=True)
class Damage:
    """A file's content after the damage, and which bytes of it differ from before (`[start, end)` each).

    `is_unknowable`: only offsets of batches changed, which no checksum covers, and nothing shows which is right.
    `ends_a_batch`: a log was cut behind a whole batch.
    """

    file: str
    what: str
    content: bytes
    changed: tuple[tuple[int, int], ...]
    is_unknowable: bool
    ends_a_batch: bool = False

    def __str__(self) -> str:
        return f"{self.what} of {self.file}"

    @property
    def live_name(self) -> str:
        """What the file is called, once a swap that it is part of is finished."""
        return self.file.removesuffix(".swap")

    def is_in(self, suffix: str) -> bool:
        """Whether the damaged file is of this kind, also while it is part of a swap."""
        return self.live_name.endswith(suffix)

    def is_file_of(self, known: Known) -> bool:
        """Whether the batch lies in the damaged file."""
        return known.file == self.live_name

    def spares(self, known: Known) -> bool:
        """Whether the batch's own bytes are whole."""
        if not self.is_file_of(known):
            return True
        return all(known.end <= start or known.position >= end for start, end in self.changed)


def damaged(rng: Random, files: Mapping[str, bytes], name: str) -> Damage:
    """Return one way in which the file `name` may be damaged; it differs from before."""
    before = files[name]
    for _ in range(100):
        what, content = rng.choice(_KINDS)(rng, files, name)
        if content != before:
            changed = tuple(_differences(before, content))
            is_unknowable = ".log" in name and _hides_in_the_order(before, content)
            return Damage(name, what, content, changed, is_unknowable, len(content) in [*_places(before, name), 0])
    return Damage(name, "truncation to nothing", b"", ((0, len(before)),), False, True)


# --- kinds of damage -------------------------------------------------------------------------------------------------

Damaging = Callable[[Random, Mapping[str, bytes], str], tuple[str, bytes]]


def _flip(rng: Random, files: Mapping[str, bytes], name: str) -> tuple[str, bytes]:
    content = bytearray(files[name])
    place = (
        rng.choice(_places(content, name)) + rng.randrange(61) if rng.random() < 0.5 else rng.randrange(len(content))
    )
    place = min(place, len(content) - 1)
    bit = rng.randrange(8)
    content[place] ^= 1 << bit
    return f"bit {bit} of byte {place}", bytes(content)


def _places(content: bytes | bytearray, name: str) -> list[int]:
    """Return where a header may begin: those of batches, else the beginning."""
    return [place for place, _, _ in _chain(content)] if ".log" in name else [0]


def _zero(rng: Random, files: Mapping[str, bytes], name: str) -> tuple[str, bytes]:
    content = bytearray(files[name])
    start = rng.randrange(0, len(content), SECTOR)
    end = min(start + SECTOR, len(content))
    content[start:end] = bytes(end - start)
    return f"zeros in bytes {start} to {end}", bytes(content)


def _swap(rng: Random, files: Mapping[str, bytes], name: str) -> tuple[str, bytes]:
    content = bytearray(files[name])
    size = SECTOR if len(content) >= 2 * SECTOR else max(len(content) // 4, 1)
    places = [rng.randrange(0, max(len(content) - size, 0) + 1, size) for _ in range(2)]
    first, second = (bytes(content[place : place + size]) for place in places)
    content[places[0] : places[0] + size], content[places[1] : places[1] + size] = second, first
    return f"{size} bytes at {places[0]} and {places[1]} swapped", bytes(content[: len(files[name])])


def _truncate(rng: Random, files: Mapping[str, bytes], name: str) -> tuple[str, bytes]:
    content = files[name]
    size = rng.choice(
        [0, rng.randrange(len(content)), rng.randrange(0, len(content), 4), rng.choice(_places(content, name))]
    )
    return f"cut to {size} bytes", content[:size]


def _misdirect(rng: Random, files: Mapping[str, bytes], name: str) -> tuple[str, bytes]:
    content = bytearray(files[name])
    source_name = rng.choice([name, *(each for each in sorted(files) if files[each])])
    source = files[source_name]
    begin = rng.randrange(0, len(source), SECTOR)
    block = source[begin : begin + SECTOR]
    place = rng.randrange(0, len(content), SECTOR)
    block = block[: len(content) - place]
    content[place : place + len(block)] = block
    return f"{len(block)} bytes of {source_name} at {begin} written to byte {place}", bytes(content)


_KINDS: tuple[Damaging, ...] = (_flip, _flip, _zero, _swap, _truncate, _misdirect)


# --- what it comes to ------------------------------------------------------------------------------------------------


def _differences(before: bytes, after: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges that differ; a cut-off end is one range without an end."""
    start = None
    for place in range(len(after)):
        differs = before[place] != after[place]
        if differs and start is None:
            start = place
        elif not differs and start is not None:
            yield start, place
            start = None
    if start is not None:
        yield start, len(after)
    if len(after) < len(before):
        yield len(after), len(before)


def _chain(content: bytes | bytearray) -> list[tuple[int, int, int]]:
    """Return (position, first offset, last offset) of the batches, as far as their sizes lead."""
    found, place = [], 0
    while place + 27 <= len(content):
        base, length, magic = _HEADER.unpack_from(content, place)
        last = base + _DELTA.unpack_from(content, place + _DELTA_POSITION)[0] if magic == 2 else base
        found.append((place, base, last))
        if length <= 0:
            break
        place += 12 + length
    return found


def _hides_in_the_order(before: bytes, after: bytes) -> bool:
    """Whether a batch changed in its offset alone, and the offsets of what is whole do not tell that it was this one.

    They rise all the same, one is there twice, or, in a log with gaps, two contend and either could be the right one.
    """
    whole, lying = list[tuple[int, int]](), set[int]()
    for place, base, last in _chain(before):
        end = place + SIZE_OVERHEAD + int.from_bytes(before[place + OFFSET_SIZE : place + SIZE_OVERHEAD], "big")
        if before[place + OFFSET_SIZE : end] == after[place + OFFSET_SIZE : end]:
            moved = int.from_bytes(after[place : place + OFFSET_SIZE], "big", signed=True) - base
            lying |= {len(whole)} if moved else set()
            whole.append((base + moved, last + moved))
    if not lying:
        return False
    joins = sum(last + 1 == base for (_, last), (base, _) in pairwise(whole))
    suspects = [(), *((place,) for place in range(len(whole)) if 2 * joins < len(whole) - 1 and place not in lying)]
    return len(set(whole)) < len(whole) or any(_rises(whole, without) for without in suspects)


def _rises(bounds: list[tuple[int, int]], without: tuple[int, ...]) -> bool:
    left = [each for place, each in enumerate(bounds) if place not in without]
    return all(last < base for (_, last), (base, _) in pairwise(left))
