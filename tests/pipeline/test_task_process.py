"""The process of tasks: what they have loaded is not walked through again after each of them."""

from __future__ import annotations

from typing import Any

import pytest

from offsetfs.pipeline.jobs.workers import spread

pytestmark = pytest.mark.spark


def test_what_a_task_has_loaded_is_left_out_of_later_collections(spark: Any) -> None:
    def frozen(number: int) -> dict[str, int]:
        import gc

        return {"objects": gc.get_freeze_count()}

    spread(spark, frozen, range(2))
    assert max(answer["objects"] for answer in spread(spark, frozen, range(4))) > 10_000
