"""Commits of consumer groups as records: what a broker reads there, and in which partition it looks for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetfs.storage.coordinators import coordinator_topic
from offsetfs.storage.coordinators.coordinator_topic import partition_of
from offsetfs.storage.coordinators.group_records import CommittedOffset, commit_key, commit_value
from offsetfs.storage.coordinators.offsets_topic import partition_of_group
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.dump.decoders import show_coordinator_record
from offsetfs.storage.errors import NoOffsetsTopic
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit


def test_the_bytes_are_those_of_the_format() -> None:
    assert commit_key("g1", TopicPartition("topic", 3)) == bytes.fromhex("0001000267310005746f70696300000003")
    committed = CommittedOffset(1234, -1, "", 0x18BCFE56800)
    assert commit_value(committed) == bytes.fromhex("000300000000000004d2ffffffff00000000018bcfe56800")


def test_a_dump_shows_them_as_it_shows_a_brokers() -> None:
    key, value = show_coordinator_record(
        "__consumer_offsets",
        0,
        commit_key("gr\u00fcn", TopicPartition("orders", 3)),
        commit_value(CommittedOffset(2**63 - 1, -1, "", 7)),
    )
    assert key == '{"type":"1","data":{"group":"gr\u00fcn","topic":"orders","partition":3}}'
    assert value is not None and '"offset":9223372036854775807' in value and '"commitTimestamp":7' in value


@pytest.mark.parametrize(
    ("group", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        pytest.param("\U0001f600", 31 * 0xD83D + 0xDE00, id="two units of UTF-16"),
        pytest.param("polygenelubricants", 0, id="the least integer, whose absolute value is 0 to Kafka"),
    ],
)
def test_a_group_has_the_partition_of_javas_hash(group: str, hashed: int) -> None:
    assert partition_of(group, 50) == hashed % 50


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogDirectory]:
    monkeypatch.setattr(coordinator_topic, "PARTITIONS", 4)
    opened = LogDirectory.open(str(tmp_path))
    yield opened
    opened.close()


def test_the_topic_is_made_as_a_broker_makes_it(directory: LogDirectory) -> None:
    with pytest.raises(NoOffsetsTopic):
        partition_of_group(directory, "a", may_create=False)
    home = partition_of_group(directory, "a", may_create=True)
    assert home == TopicPartition("__consumer_offsets", 97 % 4)
    assert [each.partition for each in directory.partitions()] == [0, 1, 2, 3]
    config = directory.log(home).config
    assert (config.cleanup_policy, config.segment_bytes) == (("compact",), 100 << 20)
    assert partition_of_group(directory, "a", may_create=False) == home


def test_what_a_crash_left_of_the_topic_is_completed(directory: LogDirectory) -> None:
    for number in (3, 2):
        directory.create_partition(TopicPartition("__consumer_offsets", number))
    with pytest.raises(NoOffsetsTopic):
        partition_of_group(directory, "a", may_create=False)
    partition_of_group(directory, "a", may_create=True)
    assert len(directory.partitions()) == 4


def test_in_a_brokers_directory_the_topic_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    directory = LogDirectory.open(str(tmp_path))
    with pytest.raises(NoOffsetsTopic):
        partition_of_group(directory, "a", may_create=True)
    assert directory.partitions() == []
    directory.close()
