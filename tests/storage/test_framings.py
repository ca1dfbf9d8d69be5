"""Batches that a 4.4.0 broker took from clients with libraries of their own: sound for every reader of the engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fixtures.logs.cleaner import Cleaner
from fixtures.logs.framings import framed, outcome
from fixtures.logs.planted_logs import PARTITION, plant

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.records.format.batch import read_batch
from offsetfs.storage.verify.finding import Finding
from offsetfs.storage.verify.verify import Verification

pytestmark = pytest.mark.unit

LOGS = sorted((Path(__file__).parents[1] / "golden" / "framings").glob("*.log"))
RECORDS = "60 834006076"


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_batch_that_a_broker_took_is_read_verified_and_compacted(log: Path, tmp_path: Path) -> None:
    data = log.read_bytes()
    assert outcome(data) == RECORDS
    records = read_batch(data).records()
    plant(tmp_path, {0: [data]})
    found: list[Finding] = []
    Verification(os.fspath(tmp_path), None, report=found.append).run()
    assert {each.kind for each in found} <= {"index-missing"}
    directory = LogDirectory.open(os.fspath(tmp_path))
    batch = directory.log(PARTITION).batch_at(59)
    assert batch is not None and batch.records() == records
    directory.close()
    compacted = Cleaner(tmp_path / "compacted", {0: [data], 60: []})
    compacted.clean()
    batch = compacted.log.batch_at(0)
    assert batch is not None and batch.records() == records
    compacted.close()


def test_random_framings_end_in_records_or_a_named_error() -> None:
    outcomes = [outcome(framed(seed, codec).data) for codec in CODECS[1:] for seed in range(150)]
    assert 150 < sum(not each.startswith("refused") for each in outcomes) < 450
