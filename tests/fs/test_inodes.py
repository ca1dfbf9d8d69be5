"""Inode numbers carry what they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.fs.inodes import NUMBER_BITS, NUMBER_MAX, PARTITION_BITS, PARTITION_MAX, ROOT, Fixed, Kind, pack, unpack

pytestmark = pytest.mark.unit


def test_the_root_is_one() -> None:
    assert ROOT == 1
    assert unpack(1) == (Kind.FIXED, 0, Fixed.DIRECTORY)


@given(st.integers(0, 15), st.integers(0, PARTITION_MAX), st.integers(0, NUMBER_MAX))
def test_what_is_packed_is_unpacked(kind: int, partition: int, number: int) -> None:
    inode = pack(kind, partition, number)
    assert 0 <= inode < 2**64
    assert unpack(inode) == (kind, partition, number)


@pytest.mark.parametrize(
    ("partition", "number"), [(0, NUMBER_MAX + 1), (PARTITION_MAX + 1, 0), (0, -1), (-1, 0)], ids=str
)
def test_what_has_no_room_is_refused_and_never_wraps(partition: int, number: int) -> None:
    with pytest.raises(OverflowError):
        pack(Kind.RECORD, partition, number)


def test_every_kind_fits() -> None:
    assert max(Kind) < 1 << 64 - NUMBER_BITS - PARTITION_BITS
    assert len({pack(kind, 1, 1) for kind in Kind}) == len(Kind)
