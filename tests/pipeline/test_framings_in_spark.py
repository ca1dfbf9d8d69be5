"""Batches in framings that few writers use: Spark reads their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.golden_framings import LOGS, plant_framings, values_of_framing

pytestmark = pytest.mark.spark


def test_spark_reads_records_in_every_framing_that_a_broker_stores(spark: Any, tmp_path: Path) -> None:
    plant_framings(tmp_path)
    frame = spark.read.format("offsetfs").option("subscribePattern", ".*").load(str(tmp_path))
    found: dict[str, list[bytes | None]] = {topic: [] for topic in LOGS}
    for row in frame.orderBy("topic", "offset").collect():
        found[row.topic].append(None if row.value is None else bytes(row.value))
    assert found == {topic: values_of_framing(topic) for topic in LOGS}
