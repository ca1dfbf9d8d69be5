"""Numbers of what is reached by name only."""

import errno

import pytest
from pyfuse3 import FUSEError

from offsetfs.fs.naming.inodes import LookupNumbers

pytestmark = pytest.mark.unit


def test_a_number_stays_the_same_as_long_as_the_kernel_uses_it() -> None:
    known = LookupNumbers[str]()
    number = known.look_up("1..2")
    assert known.look_up("1..2") == number != known.look_up("1..3")
    known.forget(number, 1)
    assert known.at(number) == "1..2"
    known.forget(number, 1)
    with pytest.raises(FUSEError) as stale:
        known.at(number)
    assert stale.value.errno == errno.ESTALE


def test_a_number_is_never_given_again() -> None:
    known = LookupNumbers[str]()
    numbers = []
    for _ in range(100):
        numbers.append(known.look_up("1..2"))
        known.forget(numbers[-1], 1)
    assert len(set(numbers)) == 100
    assert len(known) == 0


def test_what_is_not_known_is_forgotten_without_a_word() -> None:
    known = LookupNumbers[str]()
    number = known.look_up("1..2")
    known.forget(number + 6, 1)
    assert len(known) == 1 and known.at(number) == "1..2"
