"""Compressed records are read in exactly the framings that Kafka's own reader takes, in all message formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.kafka.programs import java, run
from fixtures.logs.framings import framed, outcome

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).parents[1] / "kafka" / "ReadBatches.java"
CASES = 600  # of each codec


def test_random_framings_are_read_as_kafkas_reader_reads_them() -> None:
    cases = [(codec, seed) for codec in ("gzip", "snappy", "lz4", "zstd") for seed in range(CASES)]
    batches = [framed(seed, codec).data for codec, seed in cases]
    printed = (
        run(java(str(PROGRAM), version="4.1.0"), "\n".join(data.hex() for data in batches).encode())
        .stdout.decode()
        .splitlines()
    )
    assert len(printed) == len(cases)
    differences = [
        (case, kafkas, ours)
        for case, kafkas, ours in zip(cases, printed, map(outcome, batches), strict=True)
        if kafkas != ours and not kafkas.startswith("refused") * ours.startswith("refused")
    ]
    assert not differences, differences[:5]
    assert len(cases) / 4 < sum(not line.startswith("refused") for line in printed) < len(cases) * 3 / 4
