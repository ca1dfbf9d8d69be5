"""Groups whose stored generation or epoch is the largest one go on with 1."""

from __future__ import annotations

import pytest
from fixtures.broker.consumer_group_requests import Consumers
from fixtures.broker.group_requests import Groups

from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

LAST = 2**31 - 1


async def test_the_generation_behind_the_largest_one_is_1(groups: Groups) -> None:
    await groups.stable()
    groups.group.generation = LAST
    (member_id,) = groups.group.members
    assert (await groups.join(member_id)).generation_id == 1


async def test_the_epoch_behind_the_largest_one_is_1(directory: LogDirectory) -> None:
    consumers = Consumers(directory)
    await consumers.join("a")
    consumers.group.epoch = consumers.group.assignment_epoch = LAST
    assert (await consumers.join("b")).member_epoch == 1
    assert (await consumers.owning("a", 1, 0, 1, 2, 3)).error_code == 0
    assert (await consumers.owning("a", 1, 0, 1)).member_epoch == 1 == consumers.group.epoch
