"""Each API of the broker is compared with Kafka by generated requests, or is in the table of those that are not."""

from __future__ import annotations

import pytest
from fixtures.broker.running import Running
from fixtures.comparison.accepted_differences import accepted_rows, table
from fixtures.comparison.generated_session import SINGLE
from fixtures.comparison.generated_sessions import KINDS

pytestmark = pytest.mark.unit

COMPARED = SINGLE.union(*(each.apis for each in KINDS.values()))


async def test_each_api_is_compared_or_has_a_reason(running: Running) -> None:
    names = {api.name for api in running.broker._apis.values()}
    reasons = table("Not compared")
    missing = names - COMPARED - reasons.keys()
    assert not missing, (
        f"compare {missing} with Kafka: a name in tests/fixtures/comparison/generated_session.py and its values in "
        "generated_requests.py, or give the reason in docs/evidence/differences.md"
    )
    assert names - COMPARED == set(reasons)
    assert all(reasons.values())
    assert names >= COMPARED


def test_no_difference_is_accepted_twice() -> None:
    rows = accepted_rows()
    assert len(rows) == len({str(each) for each in rows})
