"""CRC-32C in compiled code: the same as the package crc32c computes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from crc32c import crc32c

from offsetfs.storage.native import checksum

pytestmark = pytest.mark.unit

SIZES = (*range(70), *range(380, 390), 767, 768, 3071, 3072, 3073, 3456, 6144, 9999, 1 << 15, (1 << 15) + 1, 1 << 16)


@pytest.mark.reference
@pytest.mark.parametrize("compiled", [checksum.crc32c, checksum.by_tables])
def test_checksums_are_those_of_the_package(compiled: Callable[..., int]) -> None:
    assert compiled(b"Some String") == 608512271
    noise = random.Random(5).randbytes(1 << 17)
    for size in SIZES:
        for start in (0, 1, 7):
            piece = noise[start : start + size]
            assert compiled(piece) == crc32c(piece), (start, size)
            assert compiled(memoryview(piece), 12345) == crc32c(piece, 12345), (start, size)


@pytest.mark.reference
def test_a_checksum_goes_on_behind_another_one() -> None:
    assert checksum.crc32c(b"String", checksum.crc32c(bytearray(b"Some "))) == 608512271
    assert checksum.crc32c(b"", 7) == 7


@pytest.mark.reference
@pytest.mark.parametrize("wrong", ["text", None, memoryview(b"12345678")[::2]])
def test_what_is_no_contiguous_buffer_is_refused(wrong: object) -> None:
    with pytest.raises((TypeError, BufferError)):
        checksum.crc32c(wrong)
