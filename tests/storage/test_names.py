"""What may name a topic, a partition and a file of a segment."""

import pytest

from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TopicPartition, check_topic, parse_segment_name, segment_name

pytestmark = pytest.mark.unit

TOPICS = {
    "plain": "orders",
    "every legal character": "aZ09._-",
    "one character": "a",
    "three dots": "...",
    "longest": "a" * 249,
    "internal": "__consumer_offsets",
}

NOT_TOPICS = {
    "empty": "",
    "this directory": ".",
    "parent directory": "..",
    "too long": "a" * 250,
    "slash": "a/b",
    "climbing out": "../etc",
    "blank": "a b",
    "newline at the end": "orders\n",
    "null": "a\0",
    "letter beyond ASCII": "ärger",
    "digit beyond ASCII": "a٣",
    "comma": "fsname=x,allow_other",
    "surrogate": "a\udc80",
}


@pytest.mark.parametrize("name", TOPICS.values(), ids=TOPICS)
def test_a_legal_topic_name_is_taken(name: str) -> None:
    check_topic(name)
    assert str(TopicPartition(name, 0)) == f"{name}-0"
    assert TopicPartition.parse_or_none(f"{name}-0") == TopicPartition.valid_or_none(name, 0) == TopicPartition(name, 0)


@pytest.mark.security(
    "The name of a partition consists of `[a-zA-Z0-9._-]`, a minus and a number, and nothing else; "
    "it cannot lead to another path."
)
@pytest.mark.parametrize("name", NOT_TOPICS.values(), ids=NOT_TOPICS)
def test_an_illegal_topic_name_is_refused_wherever_it_comes_from(name: str) -> None:
    with pytest.raises(InvalidName):
        check_topic(name)
    with pytest.raises(InvalidName):
        TopicPartition(name, 0)
    with pytest.raises(InvalidName):
        TopicPartition.parse(f"{name}-0")
    assert TopicPartition.parse_or_none(f"{name}-0") is None
    assert TopicPartition.valid_or_none(name, 0) is None


PARTITIONS = {
    "plain": ("orders-0", "orders", 0),
    "minus in the topic": ("a-b-12", "a-b", 12),
    "topic that ends in a minus": ("a--3", "a-", 3),
    "topic that is a number": ("7-7", "7", 7),
    "dot in the topic": ("foo.bar-1", "foo.bar", 1),
    "largest number": ("a-2147483647", "a", 2147483647),
    "longest topic": ("a" * 249 + "-99999", "a" * 249, 99999),
}

NOT_PARTITIONS = {
    "empty": "",
    "no minus": "orders",
    "no topic": "-0",
    "no number": "orders-",
    "not a number": "orders-a",
    "negative": "orders--1x",
    "leading zero": "orders-00",
    "plus": "orders-+1",
    "beyond an i32": "orders-2147483648",
    "many digits": "orders-" + "9" * 5000,
    "newline": "orders-0\n",
    "digits beyond ASCII": "orders-٣",
    "underscore in the number": "orders-1_0",
    "waiting for deletion": "orders-0.0123456789abcdef0123456789abcdef-delete",
    "from another log directory": "orders-0.0123456789abcdef0123456789abcdef-future",
    "set aside": "orders-0.0123456789abcdef0123456789abcdef-stray",
}


@pytest.mark.parametrize(("name", "topic", "partition"), PARTITIONS.values(), ids=PARTITIONS)
def test_a_directory_name_and_its_partition_turn_into_each_other(name: str, topic: str, partition: int) -> None:
    parsed = TopicPartition.parse(name)
    assert parsed == TopicPartition(topic, partition)
    assert str(parsed) == name


@pytest.mark.security(
    "The name of a partition consists of `[a-zA-Z0-9._-]`, a minus and a number, and nothing else; "
    "it cannot lead to another path."
)
@pytest.mark.parametrize("name", NOT_PARTITIONS.values(), ids=NOT_PARTITIONS)
def test_what_names_no_partition_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        TopicPartition.parse(name)


@pytest.mark.parametrize("partition", [-1, 2**31])
def test_a_partition_number_is_an_i32_and_not_negative(partition: int) -> None:
    with pytest.raises(InvalidName):
        TopicPartition("orders", partition)


def test_partitions_sort_by_topic_and_then_by_number() -> None:
    names = ["b-0", "a-10", "a-2"]
    assert [str(p) for p in sorted(map(TopicPartition.parse, names))] == ["a-2", "a-10", "b-0"]


def test_a_segment_file_is_named_by_twenty_digits() -> None:
    assert segment_name(0, ".log") == "00000000000000000000.log"
    assert segment_name(2**63 - 1, ".timeindex") == "09223372036854775807.timeindex"


SEGMENT_FILES = {
    "log": ("00000000000000000042.log", (42, ".log")),
    "being deleted": ("00000000000000000042.log.deleted", (42, ".log.deleted")),
    "snapshot": ("00000000000000000042.snapshot", (42, ".snapshot")),
    "largest offset": ("09223372036854775807.index", (2**63 - 1, ".index")),
    "offset beyond an i64": ("09223372036854775808.index", None),
    "too few digits": ("42.log", None),
    "too many digits": ("000000000000000000042.log", None),
    "no suffix": ("00000000000000000042", None),
    "bare dot": ("00000000000000000042.", None),
    "sign": ("-0000000000000000042.log", None),
    "digits beyond ASCII": ("0000000000000000004٣.log", None),
    "checkpoint": ("leader-epoch-checkpoint", None),
}


@pytest.mark.parametrize(("name", "expected"), SEGMENT_FILES.values(), ids=SEGMENT_FILES)
def test_a_file_name_determines_its_segment_if_it_has_one(name: str, expected: tuple[int, str] | None) -> None:
    assert parse_segment_name(name) == expected
