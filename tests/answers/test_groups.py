"""`offsetfs groups`: lag in records and in seconds, rates, history, impossible commits."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest
from fixtures.logs.broker_directories import BrokerDirectory
from fixtures.logs.planted_logs import sealed, sealed_records

from offsetfs.answers.group_history import TIMES_MAX, lag_history
from offsetfs.answers.groups import UnknownGroup, groups_report
from offsetfs.answers.report import Report
from offsetfs.cli import run
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.kafka.protocol.records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from offsetfs.storage import LogDirectories, LogDirectory, SealedBatch, TopicPartition
from offsetfs.storage.coordinators import CommittedOffset, commit_key, commit_value, group_key, group_value
from offsetfs.storage.coordinators.consumer_groups import topic_id_in

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
BEGIN_MS = 1_790_000_000_000
ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDirectory:
    """Return a directory with a record each second in `orders`, 100 of them."""
    broker = BrokerDirectory(tmp_path)
    broker.topic("orders", [sealed(b"v", BEGIN_MS + 1000 * number) for number in range(100)])
    return broker


def commit(offset: int, at_s: int, group: str = "billing") -> SealedBatch:
    """Return the record of a commit `at_s` seconds after the first record."""
    at_ms = BEGIN_MS + 1000 * at_s
    value = commit_value(CommittedOffset(offset, 0, "", at_ms))
    return sealed_records([(commit_key(group, TopicPartition("orders", 0)), value, (), at_ms)])


def report_of(broker: BrokerDirectory, group: str | None = None) -> Report:
    with_end = LogDirectories.open([str(broker.path)], lambda path: LogDirectory.open(path, read_only=True))
    try:
        return groups_report(with_end, group)
    finally:
        with_end.close()


def row(broker: BrokerDirectory, group: str | None = None) -> dict[str, object]:
    tables = report_of(broker, group).as_json()["tables"]
    (only,) = tables["groups" if group is None else "partitions"]
    return dict(only)


def test_lag_is_in_records_and_in_seconds(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(40, 50)])
    found = row(broker)
    assert (found["group"], found["lag"], found["lag_seconds"]) == ("billing", 60, 59.0)
    assert found["rate"] is found["caught_up_seconds"] is None, "one commit has no rate"


def test_rates_of_commits_and_records_give_the_time_to_catch_up(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(20, 50), commit(40, 60)])
    found = row(broker, "billing")
    assert (found["rate"], found["written_rate"]) == (2.0, 1.0)
    assert found["caught_up_seconds"] == 60.0
    assert (found["committed"], found["end"], found["committed_ms"]) == (40, 100, BEGIN_MS + 60_000)


def test_a_group_that_is_slower_than_the_producers_never_catches_up(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(20, 50), commit(25, 60)])
    found = row(broker)
    assert found["rate"] == 0.5 and found["caught_up_seconds"] is None


def test_a_group_at_the_end_is_not_behind(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(100, 99)])
    found = row(broker)
    assert (found["lag"], found["lag_seconds"], found["caught_up_seconds"]) == (0, 0.0, 0.0)


def test_an_offset_that_was_set_back_has_no_rate(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(40, 50), commit(10, 60)])
    assert row(broker)["rate"] is None


def test_the_history_of_a_group_has_its_commits_only(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(20, 50), commit(99, 55, "other"), commit(40, 60)])
    history = report_of(broker, "billing").as_json()["tables"]["history"]
    assert [(each["time"], each["committed"]) for each in history] == [
        (BEGIN_MS + 60_000, 40),
        (BEGIN_MS + 50_000, 20),
    ]


def test_the_past_of_a_group_is_its_lag_between_its_commits(broker: BrokerDirectory) -> None:
    broker.topic("__consumer_offsets", [commit(20, 20), commit(30, 50), commit(90, 89)])
    with closing(
        LogDirectories.open([str(broker.path)], lambda path: LogDirectory.open(path, read_only=True))
    ) as opened:
        history = report_of(broker, "billing").as_json()["tables"]["history"]
        commits = [(each["time"], each["partition"], each["committed"]) for each in history]
        past, unseen = lag_history(opened, commits)
        assert not unseen and len(past) == TIMES_MAX
        lags = {(each.time_ms - BEGIN_MS) // 1000: (each.lag, each.lag_s) for each in past}
        assert lags[20] == (1, 0.0) and lags[89] == (0, 0.0)
        assert lags[49] == (30, 29.0), "twenty were read, and the fiftieth was just written"
        assert lag_history(opened, []) == ([], [])
        far, unseen = lag_history(opened, [(BEGIN_MS, "far-0", 1), (BEGIN_MS + 1000, "far-0", 2)])
        assert unseen[0].startswith("the past of far-0: ") and all(each.lag is None for each in far)


def test_a_commit_of_a_topic_that_is_not_here_has_no_lag(broker: BrokerDirectory) -> None:
    value = commit_value(CommittedOffset(5, 0, "", BEGIN_MS))
    broker.topic(
        "__consumer_offsets", [sealed_records([(commit_key("g", TopicPartition("far", 0)), value, (), BEGIN_MS)])]
    )
    found = row(broker)
    assert found["partitions"] == 1 and found["lag"] is found["lag_seconds"] is None


def test_a_commit_beyond_the_end_is_a_finding_of_groups(
    broker: BrokerDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.topic("__consumer_offsets", [commit(101, 50)])
    assert run(["groups", str(broker.path), "billing", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json.loads((ROOT / "docs" / "use" / "report.schema.json").read_text()))
    (finding,) = answer["findings"]
    assert finding["kind"] == "commit-beyond-end" and "auto.offset.reset=earliest" in finding["consequence"]


@pytest.mark.parametrize("metadata", [0, 1, 126, 127, 300])
def test_a_commit_of_an_earlier_topic_of_this_name_is_found(broker: BrokerDirectory, metadata: int) -> None:
    """The id of the topic is behind the metadata, whose size has one byte or two."""
    (broker.path / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for topic_id, kinds in ((ID, []), (OTHER_ID, ["commit-of-another-topic"]), (NO_ID, [])):
        value = OffsetCommitValue(5, 0, "m" * metadata, BEGIN_MS, topic_id=topic_id)
        data = b"\0\4" + b"".join(codec.writer("OffsetCommitValue", 4)(value))
        assert topic_id_in(data) == (None if topic_id == NO_ID else topic_id)
        record = (commit_key("billing", TopicPartition("orders", 0)), data, (), BEGIN_MS)
        path = broker.path / "__consumer_offsets-0"
        shutil.rmtree(path, ignore_errors=True)
        broker.topic("__consumer_offsets", [sealed_records([record])])
        findings = report_of(broker).findings
        assert [each.kind for each in findings] == kinds
        for each in findings:
            assert "AAAAAAAAAAAAAAAAAAAAAg" in each.evidence and "OffsetFetch 10" in each.consequence


def test_members_are_shown_with_what_they_read(broker: BrokerDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a classic group; a real broker's groups of both protocols are in tests/interop."""
    assignment = ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition("orders", [1, 0])], None)
    assigned = b"\0\0" + b"".join(codec.writer("ConsumerProtocolAssignment", 0)(assignment))
    member = MemberMetadata("reader-1", "static-1", "reader", "/10.0.0.7", 1000, 1000, b"", assigned)
    idle = MemberMetadata("reader-2", None, "reader", "/10.0.0.8", 1000, 1000, b"", b"")
    value = group_value(GroupMetadataValue("consumer", 3, "range", "reader-1", BEGIN_MS, [idle, member]))
    records = [sealed_records([(group_key("billing"), value, (), BEGIN_MS)]), commit(40, 50)]
    broker.topic("__consumer_offsets", records)
    report = report_of(broker, "billing").as_json()
    assert report["facts"] == {"type": "classic", "state": "Stable", "members": 2}
    first, second = report["tables"]["members"]
    assert first == {
        "member": "reader-1",
        "client": "reader",
        "host": "/10.0.0.7",
        "instance": "static-1",
        "epoch": None,
        "partitions": 2,
        "assignment": "orders(0,1)",
    }
    assert (second["member"], second["partitions"], second["assignment"]) == ("reader-2", 0, "")
    assert run(["groups", str(broker.path), "billing"]) == 0
    assert "orders(0,1)" in capsys.readouterr().out


def test_an_unknown_group_is_refused_with_those_there_are(
    broker: BrokerDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.topic("__consumer_offsets", [commit(1, 50)])
    with pytest.raises(UnknownGroup):
        report_of(broker, "nobody")
    assert run(["groups", str(broker.path), "nobody"]) == 1
    assert "there is no group nobody; there are billing" in capsys.readouterr().err


@pytest.mark.damages
def test_a_damaged_batch_of_commits_is_said(broker: BrokerDirectory) -> None:
    path = broker.topic("__consumer_offsets", [commit(20, 50), commit(40, 60)])
    log = path / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    report = report_of(broker)
    assert any("__consumer_offsets" in sentence for sentence in report.unseen)


def test_a_directory_without_groups_has_an_empty_table(broker: BrokerDirectory) -> None:
    report = report_of(broker)
    assert report.as_json()["tables"]["groups"] == [] and report.is_clean


@pytest.mark.parametrize(
    "sentence",
    [
        "`BEHIND` is the time from the next record that the group reads to the newest record.",
        "With a group, its members are listed as its coordinator has last written them, with their assignments, and "
        "its commits as far as compaction has left them in `__consumer_offsets`.",
        "So is a commit with the id of an earlier topic of this name.",
        "A commit beyond the end of its partition is a finding with exit code 1, "
        "and says what `auto.offset.reset` does.",
        "`READS` and `WRITTEN` are records a second between the last 16 commits, and `CAUGHT UP IN` is the lag at the "
        "difference of both.",
    ],
)
def test_the_page_on_groups_says_what_these_tests_hold(sentence: str) -> None:
    assert sentence in " ".join((ROOT / "docs" / "use" / "answers.md").read_text().split())
