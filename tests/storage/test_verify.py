"""What verification says of logs that Kafka wrote, and of each way in which they can be wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from offsetfs.storage.names import TopicPartition
from offsetfs.storage.verify import Verification
from offsetfs.storage.verify_finding import DAMAGE, NOTICE, Finding

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2", "4.1")
LOG = f"{0:020d}.log"


def findings_of(path: Path, partitions: list[TopicPartition] | None = None) -> list[Finding]:
    found: list[Finding] = []
    Verification(os.fspath(path), partitions, report=found.append).run()
    return found


def damage_of(path: Path) -> list[Finding]:
    return [finding for finding in findings_of(path) if finding.severity == DAMAGE]


# --- what Kafka wrote is clean ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_is_wrong_with_what_a_broker_closed(release: str) -> None:
    assert damage_of(GOLDEN / f"kafka-{release}") == []


@pytest.mark.parametrize(
    ("release", "kinds"),
    [
        ("0.8.2.2", []),
        ("0.9.0.1", []),
        ("0.10.0.1", ["left-over", "left-over"]),  # its cleaner died of its own defect, and left two .cleaned files
        ("0.10.2.2", []),
        ("3.6.2", []),
        ("4.1", ["unknown-partition"] * 4),  # the checkpoints of a directory of which not every topic was kept
    ],
)
def test_what_is_worth_knowing_of_a_closed_directory_is_a_notice(release: str, kinds: list[str]) -> None:
    found = findings_of(GOLDEN / f"kafka-{release}")
    assert [finding.kind for finding in found] == kinds
    assert {finding.severity for finding in found} <= {NOTICE}


def test_a_killed_broker_leaves_padded_indexes_and_no_damage(unclean_copy: Path) -> None:
    found = findings_of(unclean_copy)
    assert {finding.kind for finding in found} == {"not-closed", "unknown-partition"}
    assert all(finding.severity == NOTICE for finding in found)


def test_everything_is_counted(golden: Path) -> None:
    verification = Verification(os.fspath(golden), report=lambda finding: None)
    tally = verification.run()
    logs = list(golden.glob("*/*.log"))
    assert (tally.partitions, tally.segments) == (28, len(logs))
    assert tally.bytes == sum(log.stat().st_size for log in logs)
    dumps = [file.read_bytes() for file in golden.glob("*-?.dump.txt")]
    counts = [
        int(count) for dump in dumps for count in re.findall(rb"^baseOffset: .* count: (\d+) ", dump, re.MULTILINE)
    ]
    assert (tally.batches, tally.records) == (len(counts), sum(counts))


def test_what_is_verified_is_not_changed(golden_copy: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in golden_copy.rglob("*")}

    before = state()
    findings_of(golden_copy)
    assert state() == before
