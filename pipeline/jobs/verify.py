"""`verify`: what `offsetfs verify` finds, a partition a task.

The checks are the engine's, the findings as well; the directory itself is looked at in the driver. One partition is one
task: its batches are to be told in their order, for sequences and transactions run through all of them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.pipeline.jobs.workers import Answer, check_sight, spread
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.partition import Tally
from offsetfs.storage.verify.verify import Verification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was found, sorted by path and position, and what was looked at."""

    findings: tuple[Finding, ...]
    tally: Tally

    @property
    def damage(self) -> int:
        return sum(each.severity == DAMAGE for each in self.findings)


def verify(spark: SparkSession, source: str, partitions: Sequence[str] = ()) -> VerifyResult:
    """Check a log directory, or the partitions named. Raises `NotALogDirectory`, `UnknownPartition`, `JobFailed`."""
    path = os.path.abspath(source)
    wanted = [TopicPartition.parse(name) for name in partitions] or None
    findings: list[Finding] = []
    outside = Verification(path, wanted, report=findings.append)
    names = [str(each) for each in outside.partitions]
    outside.run(into_partitions=False)
    check_sight(spark, path)
    tally = Tally()
    for answer in spread(spark, functools.partial(_verify, path), names):
        findings += [Finding(**fields) for fields in answer["findings"]]
        tally += Tally(**answer["tally"])
    findings.sort(key=lambda each: (each.path, each.position or 0))
    return VerifyResult(tuple(findings), tally)


def _verify(path: str, name: str) -> Answer:
    findings: list[Finding] = []
    tally = Verification(path, [TopicPartition.parse(name)], report=findings.append).run()
    return {"findings": [each.fields() for each in findings], "tally": tally.fields()}
