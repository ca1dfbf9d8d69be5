"""Pauses between attempts: they double up to a limit, differ at random, and end in time."""

from __future__ import annotations

import pytest

from offsetfs.common.backoff import Attempts, Backoff

pytestmark = pytest.mark.unit


def test_pauses_double_up_to_the_limit() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.pause_s(failures) for failures in (1, 2, 3, 4, 10**9)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_pauses_differ_by_the_jitter_at_most() -> None:
    pauses = [Backoff(1.0, 1.0, jitter=0.25).pause_s(1) for _ in range(1000)]
    assert 0.75 <= min(pauses) < max(pauses) <= 1.25


def test_the_error_is_raised_if_the_pause_ends_too_late() -> None:
    attempts, error = Attempts(Backoff(3600.0, 86_400.0), seconds=5400.0), ValueError("the cause")
    assert attempts.pause_s(error) == 3600.0
    with pytest.raises(ValueError, match="the cause"):
        attempts.pause_s(error)  # two hours
    attempts.check(error)  # an attempt without a pause is still possible


def test_without_time_there_is_one_attempt() -> None:
    with pytest.raises(ValueError, match="the cause"):
        Attempts(Backoff(3600.0, 3600.0), seconds=0.0).check(ValueError("the cause"), 1.0)
