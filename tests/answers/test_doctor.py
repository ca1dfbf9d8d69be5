"""`offsetfs doctor`: each finding with its evidence; none in a healthy directory."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.broker_directories import NOW_MS, ROOMY, BrokerDirectory
from fixtures.logs.planted_logs import data, marker, sealed, sealed_records

from offsetfs.answers.doctor.doctor import examine
from offsetfs.answers.doctor.examination import MachineFigures
from offsetfs.answers.report import Severity
from offsetfs.cli import run
from offsetfs.storage import LogDirectory, SealedBatch, TopicPartition
from offsetfs.storage.coordinators import (
    CommittedOffset,
    Transaction,
    TransactionState,
    commit_key,
    commit_value,
    transaction_key,
    transaction_value,
)
from offsetfs.storage.directory import write_epochs, write_topic_id
from offsetfs.storage.partition.producers import COMMIT, ProducerEntry, ProducerState

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
GOLDEN = sorted(path for path in (ROOT / "tests" / "golden").glob("kafka-*") if path.is_dir())
LEFT_IN_GOLDEN = {"kafka-0.10.0.1": ["left-over"]}
"""A broker of 0.10.0.1 left two `.cleaned` files."""


def page() -> str:
    return " ".join((ROOT / "docs" / "use" / "answers.md").read_text().split())


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDirectory:
    return BrokerDirectory(tmp_path)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_healthy_directories_of_kafka_have_no_findings(golden: Path) -> None:
    report = examine([str(golden)], 1_796_000_000_000, machine=ROOMY)
    assert [finding.kind for finding in report.findings] == LEFT_IN_GOLDEN.get(golden.name, [])
    assert report.is_clean and not report.unseen


def test_a_healthy_directory_with_a_metadata_log_has_no_findings(broker: BrokerDirectory) -> None:
    broker.topic("orders")
    report = broker.report()
    assert not report.findings and not report.unseen
    assert {fact.key: fact.value for fact in report.facts}["starts"] is True


def test_a_missing_topic_id_is_damage_and_the_remedy_restores_it(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    content = (path / "partition.metadata").read_text()
    (path / "partition.metadata").unlink()
    finding = broker.only_finding("no-topic-id")
    assert finding.severity is Severity.DAMAGE and finding.place == "orders-0" and "-stray" in finding.consequence
    command = finding.remedy.removeprefix("with the broker stopped: ")
    assert os.system(command) == 0 and (path / "partition.metadata").read_text() == content
    assert not broker.report().findings


@pytest.mark.damages
def test_a_topic_id_without_its_line_is_damage(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    (path / "partition.metadata").write_text("version: 0\n")
    assert "no line for 'topic_id'" in broker.only_finding("no-topic-id").evidence


def test_the_topic_id_of_an_earlier_topic_is_damage(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    write_topic_id(str(path / "partition.metadata"), bytes(15) + b"\1")
    assert "AAAAAAAAAAAAAAAAAAAAAQ" in broker.only_finding("topic-id").evidence


def test_topic_ids_are_optional_with_zookeeper(broker: BrokerDirectory, tmp_path: Path) -> None:
    old = BrokerDirectory(tmp_path, name="old", has_metadata=False)
    path = old.topic("orders")
    old.write_meta_properties(version="0", broker_id="1")
    (path / "partition.metadata").unlink()
    assert not old.report().findings


def test_a_topic_that_the_cluster_does_not_have_is_a_stray(broker: BrokerDirectory) -> None:
    broker.topic("gone", in_cluster=False)
    finding = broker.only_finding("stray")
    assert finding.severity is Severity.WARNING and "no such topic" in finding.evidence


def test_a_partition_of_other_brokers_is_a_stray(broker: BrokerDirectory) -> None:
    broker.topic("orders")
    assert broker.metadata is not None
    broker.metadata.append([records.partition_change("orders", 0, [2, 3])])
    assert "on the brokers 2, 3, and this is 1" in broker.only_finding("stray").evidence


def test_a_metadata_log_with_a_gap_is_damage(broker: BrokerDirectory) -> None:
    assert broker.metadata is not None
    broker.topic("orders")
    broker.metadata.next_offset += 5
    broker.metadata.roll()
    assert "missing or damaged" in broker.only_finding("metadata-log").evidence


@pytest.mark.damages
def test_leader_epochs_that_go_back_are_damage(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    (path / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n2 1\n")
    assert "epoch 2 from 1 follows 3 from 0" in broker.only_finding("leader-epochs").evidence


def test_an_epoch_above_that_of_the_metadata_log_is_damage(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    write_epochs(str(path / "leader-epoch-checkpoint"), [(0, 0), (7, 1)])
    assert "has epoch 7, and the metadata log is at 0" in broker.only_finding("leader-epoch-back").evidence


@pytest.mark.damages
def test_a_broken_meta_properties_keeps_a_broker_from_starting(broker: BrokerDirectory) -> None:
    (broker.path / "meta.properties").write_text("")
    report = broker.report()
    assert [finding.kind for finding in report.findings] == ["meta-properties"]
    assert {fact.key: fact.value for fact in report.facts}["starts"] is False


@pytest.mark.damages
def test_a_node_id_of_a_million_digits_is_refused(broker: BrokerDirectory) -> None:
    broker.write_meta_properties(node_id="1" * 1_000_000)
    assert "no number in node.id" in broker.only_finding("meta-properties").evidence


def test_directories_of_two_brokers_do_not_start(broker: BrokerDirectory, tmp_path: Path) -> None:
    other = BrokerDirectory(tmp_path, name="other", has_metadata=False)
    other.write_meta_properties(node_id="2", directory_id="AAAAAAAAAAAAAAAAAAAAAA")
    broker.write_meta_properties(directory_id="AAAAAAAAAAAAAAAAAAAAAA")
    findings = broker.report(other.path).findings
    assert [finding.kind for finding in findings] == ["identity", "identity"]
    assert "node.id=1" in findings[0].evidence and "one is a copy of the other" in findings[1].consequence


def test_a_directory_without_meta_properties_beside_those_of_a_broker_is_damage(
    broker: BrokerDirectory, tmp_path: Path
) -> None:
    (tmp_path / "unmounted").mkdir()
    report = broker.report(tmp_path / "unmounted")
    (finding,) = report.findings
    assert finding.kind == "meta-properties" and finding.place == str(tmp_path / "unmounted" / "meta.properties")
    assert {fact.key: fact.value for fact in report.facts}["starts"] is False
    assert not BrokerDirectory(tmp_path, name="alone", has_metadata=False).report().findings


def test_a_partition_in_two_directories_names_the_shorter_one(broker: BrokerDirectory, tmp_path: Path) -> None:
    broker.topic("orders", [sealed(b"v", NOW_MS - 1000)] * 3)
    other = BrokerDirectory(tmp_path, name="other", has_metadata=False)
    shorter = other.topic("orders")
    (finding,) = broker.report(other.path).findings
    assert finding.kind == "duplicate-partition" and f"mv {shorter} " in finding.remedy
    assert "ends at 3" in finding.evidence and "ends at 1" in finding.evidence


@pytest.mark.parametrize("name", ["lost+found", "backup"])
def test_a_directory_that_is_no_partition_keeps_a_broker_from_starting(broker: BrokerDirectory, name: str) -> None:
    (broker.path / name).mkdir()
    finding = broker.only_finding("foreign-directory")
    assert finding.severity is Severity.DAMAGE and "does not start" in finding.consequence


def test_what_deletions_moves_and_strays_left_is_found(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    for ending in ("delete", "future", "stray"):
        left = broker.path / f"orders-1.0123456789abcdef0123456789abcdef-{ending}"
        left.mkdir()
        (left / "00000000000000000000.log").write_bytes((path / "00000000000000000000.log").read_bytes())
    found = {finding.kind: finding.severity for finding in broker.report().findings}
    assert found == {"deletion": Severity.NOTICE, "future": Severity.NOTICE, "set-aside": Severity.WARNING}


def test_a_broker_has_just_deleted_a_topic_without_changes_for_long(broker: BrokerDirectory) -> None:
    left = broker.path / "orders-1.0123456789abcdef0123456789abcdef-delete"
    left.mkdir()
    os.utime(left, (0, 0))  # its last segment was made then: a renamed directory keeps its time
    deleted_ms = os.stat(left).st_ctime_ns // 1_000_000
    with closing(LogDirectory.open(str(broker.path))):
        assert not broker.report(now_ms=deleted_ms + 60_000).findings
        (finding,) = broker.report(now_ms=deleted_ms + 2 * 3_600_000).findings
    assert finding.kind == "deletion" and "last changed 2 h" in finding.evidence
    assert "should have removed it" in finding.consequence


def test_segments_that_a_stopped_broker_would_have_deleted_a_minute_later_are_no_finding(
    broker: BrokerDirectory,
) -> None:
    (broker.topic("orders") / "00000000000000000000.log.deleted").touch()
    assert not broker.report().findings
    os.unlink(broker.path / ".kafka_cleanshutdown")
    assert "1 .deleted file" in next(each for each in broker.report().findings if each.kind == "left-over").evidence


def test_a_directory_of_the_metadata_log_alone_needs_no_recovery(tmp_path: Path) -> None:
    metadata = BrokerDirectory(tmp_path, name="metadata")
    shutil.rmtree(metadata.path / "heartbeat-0")
    os.unlink(metadata.path / ".kafka_cleanshutdown")
    assert "not-closed" not in {each.kind for each in metadata.report().findings}


def test_the_metadata_log_is_read_where_the_settings_of_a_broker_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = BrokerDirectory(tmp_path, has_metadata=False)
    data.topic("gone", in_cluster=False)
    metadata = BrokerDirectory(tmp_path, name="metadata")
    shutil.rmtree(metadata.path / "heartbeat-0")
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={data.path}\nmetadata.log.dir={metadata.path}\n")
    run(["doctor", str(settings), "--json"])
    found = {(each["kind"], each["place"]) for each in json.loads(capsys.readouterr().out)["findings"]}
    assert ("stray", "gone-0") in found
    run(["doctor", str(data.path), "--json"])
    assert "stray" not in capsys.readouterr().out


def test_files_of_an_interrupted_compaction_are_left_over(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    (path / "00000000000000000000.log.cleaned").touch()
    assert "1 .cleaned file" in broker.only_finding("left-over").evidence


def test_an_unclean_shutdown_names_bytes_and_an_estimate(broker: BrokerDirectory) -> None:
    broker.topic("orders", [sealed(b"v" * 1_000_000, NOW_MS - 1000)] * 2)
    os.unlink(broker.path / ".kafka_cleanshutdown")
    os.unlink(broker.path / "recovery-point-offset-checkpoint")
    finding = broker.only_finding("not-closed")
    assert finding.severity is Severity.NOTICE and "2 MB in 1 partition" in finding.evidence
    assert "in about 0.0 s" not in finding.consequence and "an estimate" in finding.consequence


@pytest.mark.damages
def test_a_torn_checkpoint_is_damage(broker: BrokerDirectory) -> None:
    broker.topic("orders")
    (broker.path / "replication-offset-checkpoint").write_text("0\n2\norders 0 1\n")
    assert "2 entries promised, 1 found" in broker.only_finding("checkpoint").evidence


@pytest.mark.damages
def test_records_that_were_lost_at_the_end_are_damage(broker: BrokerDirectory) -> None:
    path = broker.topic("orders", [sealed(b"v", NOW_MS - 1000)] * 3)
    log = path / "00000000000000000000.log"
    os.truncate(log, log.stat().st_size // 3)
    finding = broker.only_finding("lost-end")
    assert "the log ends at 1" in finding.evidence and "2 records" in finding.consequence


@pytest.mark.damages
@pytest.mark.parametrize("whole", [7, 2, 0])
def test_the_end_is_that_of_the_last_whole_batch_though_an_index_has_cut_ones(
    broker: BrokerDirectory, whole: int
) -> None:
    path = broker.topic("orders", [sealed(b"v" * 5000, NOW_MS - 1000)] * 8)
    log = path / "00000000000000000000.log"
    os.truncate(log, log.stat().st_size // 8 * (whole + 1) - 10)
    (finding, *_) = [each for each in broker.report().findings if each.kind == "lost-end"]
    assert f"the log ends at {whole}" in finding.evidence and f"{8 - whole} record" in finding.consequence


def test_timestamps_in_the_future_stop_retention(broker: BrokerDirectory) -> None:
    broker.topic("orders", [sealed(b"v", NOW_MS + 10 * 86_400_000)])
    finding = broker.only_finding("future-timestamp")
    assert "at offset 0, 10 d" in finding.evidence
    assert "retention by time does not remove" in finding.consequence


def test_deleted_records_of_the_future_are_no_finding(broker: BrokerDirectory) -> None:
    broker.topic("orders", [sealed(b"v", NOW_MS + 10 * 86_400_000)] * 2)
    directory = LogDirectory.open(str(broker.path))
    for start, kinds in ((1, ["future-timestamp"]), (2, [])):
        directory.raise_log_starts({TopicPartition("orders", 0): start})
        assert [finding.kind for finding in broker.report().findings if finding.kind != "not-closed"] == kinds
    directory.close()


def test_timestamps_in_microseconds_are_named(broker: BrokerDirectory) -> None:
    broker.topic("orders", [sealed(b"v", NOW_MS * 1000)])
    assert "it looks like microseconds" in broker.only_finding("future-timestamp").evidence


@pytest.mark.damages
def test_indexes_that_point_outside_of_the_log_are_damage(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    (path / "00000000000000000000.index").write_bytes(bytes([0, 0, 0, 1, 0, 1, 0, 0]))
    finding = broker.only_finding("index")
    assert "position 65536" in finding.evidence
    assert "//" not in examine([f"{broker.path}/"], NOW_MS, machine=ROOMY).findings[0].place
    assert run(shlex.split(finding.remedy.removeprefix("with the broker stopped: "))[1:]) == 0
    assert not broker.report().findings, "the remedy helps"


def test_the_command_prints_findings_and_returns_1(broker: BrokerDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    path = broker.topic("orders")
    assert run(["doctor", str(broker.path)]) == 0
    assert "nothing is wrong with what was looked at" in capsys.readouterr().out
    (path / "partition.metadata").unlink()
    assert run(["doctor", str(broker.path)]) == 1
    assert "damage: orders-0: no-topic-id" in capsys.readouterr().out
    assert run(["doctor", "--json", str(broker.path)]) == 1
    schema = json.loads((ROOT / "docs" / "use" / "report.schema.json").read_text())
    jsonschema.validate(json.loads(capsys.readouterr().out), schema)


def test_what_is_no_log_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(tmp_path / "nowhere")]) == 2
    assert "there is no such directory" in capsys.readouterr().err


@pytest.mark.damages
def test_an_empty_partition_directory_does_not_end_the_report(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    for file in path.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    assert "says 1, and the log ends at 0" in broker.only_finding("lost-end").evidence


def test_hostile_names_are_printed_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "a\n\x1b[2Jb").mkdir()
    assert run(["doctor", str(tmp_path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.damages
def test_a_partition_that_cannot_be_read_does_not_end_the_report(broker: BrokerDirectory) -> None:
    broker.topic("gone", in_cluster=False)
    path = broker.topic("orders")
    (path / "00000000000000000000.timeindex").unlink()
    (path / "00000000000000000000.timeindex").symlink_to("/etc/hostname")
    assert {finding.kind: finding.place for finding in broker.report().findings} == {
        "cannot-read": "orders-0",
        "stray": "gone-0",
    }


def coordinator_record(partition: str, state: TransactionState, started_ms: int) -> SealedBatch:
    transaction = Transaction(7, 0, 60_000, state, frozenset({TopicPartition.parse(partition)}), started_ms, started_ms)
    return sealed_records([(transaction_key("payments"), transaction_value(transaction), (), started_ms)])


def test_a_transaction_that_no_coordinator_knows_hangs(broker: BrokerDirectory) -> None:
    broker.topic("__transaction_state", [])
    broker.topic("orders", [sealed(b"v", 1000), data(7, 0, 2), sealed(b"v", 2000)])
    finding = broker.only_finding("hanging-transaction")
    assert "producer 7, of which no coordinator knows: open from offset 1 since" in finding.evidence
    assert "the last stable offset is 1, 3 offsets before the end" in finding.evidence
    assert "--topic orders --partition 0 --start-offset 1" in finding.remedy


def test_a_transaction_older_than_any_timeout_hangs_wherever_its_coordinator_is(broker: BrokerDirectory) -> None:
    broker.topic("orders", [data(7, 0, 2)])
    broker.topic("later", [sealed(b"v", 3_600_000)])
    assert "whose coordinator is not in __transaction_state here" in broker.only_finding("hanging-transaction").evidence


def test_an_open_transaction_of_a_stopped_broker_is_a_notice(broker: BrokerDirectory) -> None:
    broker.topic("__transaction_state", [coordinator_record("orders-0", TransactionState.ONGOING, 1000)])
    broker.topic("orders", [data(7, 0, 2)])
    finding = broker.only_finding("open-transaction")
    assert finding.severity is Severity.NOTICE and "transactional id 'payments', state Ongoing" in finding.evidence


def test_an_open_transaction_is_found_once_in_a_partition_without_a_snapshot(broker: BrokerDirectory) -> None:
    broker.topic("__transaction_state", [coordinator_record("orders-0", TransactionState.ONGOING, 1000)])
    path = broker.topic("orders", [data(7, 0, 2)])
    for file in (broker.path / ".kafka_cleanshutdown", *path.glob("*.snapshot")):
        file.unlink()
    kinds = [finding.kind for finding in broker.report().findings]
    assert sorted(kinds) == ["not-closed", "open-transaction"]


def test_a_decided_transaction_is_no_finding(broker: BrokerDirectory) -> None:
    broker.topic("__transaction_state", [coordinator_record("orders-0", TransactionState.COMPLETE_COMMIT, 1000)])
    broker.topic("orders", [data(7, 0, 2), marker(7, COMMIT)])
    assert not broker.report().findings


@pytest.mark.damages  # a snapshot that no log has
def test_many_producers_are_found(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    (path / "00000000000000000001.snapshot").unlink(missing_ok=True)
    state = ProducerState({number: ProducerEntry(producer_epoch=0) for number in range(5_000)})
    (path / "00000000000000000001.snapshot").write_bytes(state.dump())
    assert "5000 producers" in broker.only_finding("producers").evidence.replace(",", "")


def compacted(broker: BrokerDirectory, segments: list[list[SealedBatch]], **settings: str) -> Path:
    """Create a compacted topic whose segments have these batches, and an empty active segment."""
    assert broker.metadata is not None
    path = broker.topic("state", [])
    named = {"cleanup.policy": "compact"} | {name.replace("_", "."): value for name, value in settings.items()}
    broker.metadata.append([records.setting(records.TOPIC, "state", *pair) for pair in named.items()])
    directory = LogDirectory.open(str(broker.path))
    log = directory.log(TopicPartition("state", 0))
    for batches in segments:
        for batch in batches:
            log.append(batch)
        log.roll()
    directory.close()
    return path


def keyed_batch(key: bytes | None = b"k") -> SealedBatch:
    return sealed_records([(key, b"v", (), 1000)])


def test_a_transaction_holds_back_compaction(broker: BrokerDirectory) -> None:
    broker.topic("__transaction_state", [])
    compacted(broker, [[keyed_batch(), data(7, 0, 2)], [keyed_batch()]])
    found = {finding.kind: finding for finding in broker.report().findings}
    assert set(found) == {"hanging-transaction", "cleaning-held-back"}
    assert "a transaction is open from offset 1" in found["cleaning-held-back"].evidence
    assert "compaction ends there, too" in found["hanging-transaction"].consequence


def test_records_without_keys_in_a_compacted_topic_are_found(broker: BrokerDirectory) -> None:
    compacted(broker, [[keyed_batch(None)], [keyed_batch()]])
    assert "1 of 1 record of the batch at 0 have no key" in broker.only_finding("no-keys").evidence


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "it is due"),
        ({"min_compaction_lag_ms": str(10**15)}, "min.compaction.lag.ms is 1000000000000000"),
        ({"min_cleanable_dirty_ratio": "1"}, "100% is not above min.cleanable.dirty.ratio, 100%"),
    ],
)
def test_the_table_says_why_a_partition_is_not_compacted(
    broker: BrokerDirectory, settings: dict[str, str], reason: str
) -> None:
    compacted(broker, [[keyed_batch()], [keyed_batch()]], **settings)
    report = broker.report()
    (table,) = (table for table in report.tables if table.key == "uncleaned")
    assert not report.findings and [row[-1] for row in table.rows] == [reason]


@pytest.mark.damages
def test_a_cleaner_checkpoint_beyond_the_end_is_a_notice(broker: BrokerDirectory) -> None:
    broker.topic("orders")
    (broker.path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    finding = broker.only_finding("cleaner-offset")
    assert finding.severity is Severity.NOTICE and "says 5, and the log ends at 1" in finding.evidence


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_logs_of_another_user_are_damage_and_the_remedy_gives_them_back(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    os.chown(broker.path, 65533, 65533)
    finding = broker.only_finding("owner")
    assert finding.severity is Severity.DAMAGE and "belong to another user, first" in finding.evidence
    assert os.system(finding.remedy) == 0 and path.stat().st_uid == 65533
    assert not broker.report().findings


def committed(offset: int, group: str = "billing") -> SealedBatch:
    key = commit_key(group, TopicPartition("orders", 0))
    value = commit_value(CommittedOffset(offset, 0, "", 1000))
    return sealed_records([(key, value, (), 1000)])


@pytest.mark.parametrize(("offset", "kinds"), [(0, []), (2, []), (3, ["commit-beyond-end"])])
def test_a_commit_beyond_the_end_is_found(broker: BrokerDirectory, offset: int, kinds: list[str]) -> None:
    broker.topic("orders", [sealed(b"v", 1000)] * 2)
    broker.topic("__consumer_offsets", [committed(offset)])
    findings = broker.report().findings
    assert [finding.kind for finding in findings] == kinds
    assert all("--topic orders:0 --to-offset 2" in finding.remedy for finding in findings)


@pytest.mark.parametrize(("group", "word"), [("", "''"), ("a; reboot", "'a; reboot'")])
def test_the_name_of_a_group_is_one_word_of_the_remedy(broker: BrokerDirectory, group: str, word: str) -> None:
    broker.topic("orders")
    broker.topic("__consumer_offsets", [committed(3, group)])
    assert f"--group {word} --reset-offsets" in broker.only_finding("commit-beyond-end").remedy


def test_a_commit_below_the_start_is_a_notice(broker: BrokerDirectory) -> None:
    broker.topic("orders", [sealed(b"v", 1000)] * 3)
    directory = LogDirectory.open(str(broker.path))
    directory.raise_log_starts({TopicPartition("orders", 0): 2})
    directory.close()
    broker.topic("__consumer_offsets", [committed(1)])
    finding = broker.only_finding("commit-below-start")
    assert finding.severity is Severity.NOTICE and "did not read 1 offset before" in finding.consequence


def test_a_full_disk_is_damage_and_one_that_fills_is_a_warning(broker: BrokerDirectory) -> None:
    path = broker.topic("orders", [sealed(b"v" * 900_000, 1000)] * 2)
    written_s = (NOW_MS - 3_600_000) / 1000
    for name in ("00000000000000000000.log", "partition.metadata"):
        os.utime(path / name, (written_s, written_s))
    full = MachineFigures(space=lambda path: (1 << 40, 1000), bytes_per_second=lambda path: 1e8)
    assert [finding.kind for finding in broker.report(machine=full).findings] == ["disk-full"]
    fills = MachineFigures(space=lambda path: (1 << 40, 80 << 20), bytes_per_second=lambda path: 1e8)
    assert not broker.report(machine=fills).findings, "80 MiB are 44 times what is written in a day"


def test_a_disk_that_is_full_in_a_day_is_a_warning(broker: BrokerDirectory) -> None:
    path = broker.topic("orders")
    log = path / "00000000000000000000.log"
    before = log.read_bytes()
    written_s = (NOW_MS - 3_600_000) / 1000
    with log.open("ab") as file:
        file.truncate(200 << 20)  # sparse
    for name in ("00000000000000000000.log", "partition.metadata"):
        os.utime(path / name, (written_s, written_s))
    fills = MachineFigures(space=lambda path: (1 << 40, 200 << 20), bytes_per_second=lambda path: 1e8)
    finding = next(finding for finding in broker.report(machine=fills).findings if finding.kind == "disk-fills")
    assert "full in 23 h 59 min" in finding.consequence and "orders 210 MB" in finding.evidence
    log.write_bytes(before)


@pytest.mark.parametrize(
    "sentence",
    [
        "A transaction hangs if no coordinator knows it: no timeout ends it.",
        "What a disk gains and retention removes in a day is estimated by the modification times of segments.",
        "`not looked at` names what is too large for a quick look, such as more than 64 MiB of `__consumer_offsets`.",
        "Each finding has a severity, the evidence, what follows from it, and a command as the remedy.",
        "`offsetfs doctor` reads headers, indexes and checkpoints; `offsetfs verify` reads every byte.",
        "`a broker starts` is `no` if no release of Kafka starts with all of these directories.",
    ],
)
def test_the_page_says_what_these_tests_hold(sentence: str) -> None:
    assert sentence in page()
