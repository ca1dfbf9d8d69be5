"""Warnings and errors of the same cause: five in ten seconds, and the number of the others."""

from __future__ import annotations

import logging

import pytest

from offsetfs.cli.terminal.repeated_messages import INTERVAL_S, MESSAGES_MAX, RepetitionFilter

pytestmark = pytest.mark.unit


def record(level: int, line: int, number: int) -> logging.LogRecord:
    return logging.LogRecord(
        "offsetfs.kafka.broker", level, "produce.py", line, "no append to t-%d: 5%%", (number,), None
    )


def logged(limit: RepetitionFilter, *records: logging.LogRecord) -> list[str]:
    return [each.getMessage() for each in records if limit.filter(each)]


def test_a_message_that_repeats_is_counted_instead_of_logged() -> None:
    clock = [0.0]
    limit = RepetitionFilter(lambda: clock[0])
    many = [record(logging.ERROR, 7, number) for number in range(100)]
    assert logged(limit, *many) == [f"no append to t-{number}: 5%" for number in range(MESSAGES_MAX)]
    clock[0] = INTERVAL_S
    number = 100 - MESSAGES_MAX
    last = f"no append to t-9: 5% ({number} similar messages were not logged)"
    assert logged(limit, record(logging.ERROR, 7, 9)) == [last]
    clock[0] = 2 * INTERVAL_S
    assert logged(limit, record(logging.ERROR, 7, 9)) == ["no append to t-9: 5%"]


def test_other_causes_and_lower_levels_are_not_limited() -> None:
    limit = RepetitionFilter(lambda: 0.0)
    assert len(logged(limit, *(record(logging.WARNING, line, 0) for line in range(20)))) == 20
    assert len(logged(limit, *(record(logging.DEBUG, 7, 0) for _ in range(20)))) == 20
