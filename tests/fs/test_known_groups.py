"""The lag of a group, from its commits."""

from __future__ import annotations

import pytest

from offsetfs.fs.groups.known_groups import lag_table
from offsetfs.storage import TopicPartition
from offsetfs.storage.coordinators import Lag

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("committed", [-1, -2])
def test_a_commit_below_0_has_no_lag(committed: int) -> None:
    lags = [Lag(TopicPartition("orders", 0), committed, 7), Lag(TopicPartition("orders", 1), 5, 7, 0.25)]
    assert [line.split() for line in lag_table(lags).splitlines()[1:]] == [
        [b"orders-0", b"-", b"7", b"-", b"-"],
        [b"orders-1", b"5", b"7", b"2", b"0.250"],
    ]


def test_seconds_of_any_length_have_one_width() -> None:
    """The size of the file is known without the times of records."""
    sizes = {
        len(lag_table([Lag(TopicPartition("orders", 0), 5, 7, seconds)]))
        for seconds in (None, 0.0, 59.5, 1e9, 9_223_372_036_854_775.807)
    }
    assert len(sizes) == 1
