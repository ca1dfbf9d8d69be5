"""Inode numbers contain kind, partition and number."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.fs.naming.inodes import NUMBER_MAX, PARTITION_MAX, ROOT, pack, unpack
from offsetfs.fs.naming.tree_table import Kind

pytestmark = pytest.mark.unit

NUMBERED = [kind for kind in Kind if not kind.exists_once]
ONCE = [kind for kind in Kind if kind.exists_once]


def test_the_root_is_one() -> None:
    assert ROOT == 1
    assert unpack(1) == (Kind.DIRECTORY, 0, 1)


@given(st.sampled_from(NUMBERED), st.integers(0, PARTITION_MAX), st.integers(0, NUMBER_MAX))
def test_what_is_packed_is_unpacked(kind: Kind, partition: int, number: int) -> None:
    inode = pack(kind, partition, number)
    assert 0 <= inode < 2**64
    assert unpack(inode) == (kind, partition, number)


@given(st.sampled_from(ONCE), st.integers(0, PARTITION_MAX))
def test_a_kind_that_exists_once_needs_no_number(kind: Kind, partition: int) -> None:
    assert unpack(pack(kind, partition)) == (kind, partition, kind)


@pytest.mark.parametrize(
    ("partition", "number"), [(0, NUMBER_MAX + 1), (PARTITION_MAX + 1, 0), (0, -1), (-1, 0)], ids=str
)
def test_a_part_that_is_too_large_is_refused_and_never_wraps(partition: int, number: int) -> None:
    with pytest.raises(OSError, match="no inode number") as raised:
        pack(Kind.RECORD, partition, number)
    assert raised.value.errno == errno.EOVERFLOW


def test_every_kind_fits() -> None:
    assert max(Kind) < 1 << 64
    assert len({pack(kind, 1, 0 if kind.exists_once else 1) for kind in Kind}) == len(Kind)
