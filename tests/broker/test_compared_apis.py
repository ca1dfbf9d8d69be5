"""Each API of the broker is compared with Kafka by generated requests, or is in the table of those that are not."""

from __future__ import annotations

import pytest
from accepted_differences import accepted_rows, table
from generated_session import SINGLE
from generated_sessions import KINDS
from running_broker import Running

pytestmark = pytest.mark.unit

COMPARED = SINGLE.union(*(each.apis for each in KINDS.values()))


async def test_each_api_is_compared_or_has_a_reason(running: Running) -> None:
    names = {each.name for each in running.broker._apis.values()}
    reasons = table("Not compared")
    assert names - COMPARED == set(reasons)
    assert all(reasons.values())
    assert names >= COMPARED


def test_no_difference_is_accepted_twice() -> None:
    rows = accepted_rows()
    assert len(rows) == len({str(each) for each in rows})
