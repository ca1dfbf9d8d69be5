"""The small text files: what Kafka wrote is read, what we write Kafka reads, what is damaged is refused."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanShutdown,
    read_epochs,
    read_offsets,
    read_properties,
    read_topic_id,
    write_epochs,
    write_offsets,
    write_topic_id,
)
from offsetfs.storage.errors import InvalidCheckpoint
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.parent for path in GOLDEN.glob(f"*/{PARTITION_METADATA}"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


# --- offsets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS])
def test_offset_checkpoints_of_a_broker_are_rewritten_line_by_line(name: str, path: Path) -> None:
    offsets = read_offsets(str(GOLDEN / name))
    write_offsets(str(path), offsets)
    version, count, *lines = (GOLDEN / name).read_text().splitlines()
    assert len(offsets) == int(count) > 0
    assert path.read_text() == "\n".join([version, count, *sorted_lines(lines)]) + "\n"


def sorted_lines(lines: list[str]) -> list[str]:
    return sorted(lines, key=lambda line: (line.split()[0], int(line.split()[1])))


def test_a_known_line_of_a_broker_has_its_meaning() -> None:
    assert read_offsets(str(GOLDEN / LOG_STARTS))[TopicPartition("truncated-head", 0)] == 137


def test_a_checkpoint_is_written_as_kafka_writes_it(path: Path) -> None:
    write_offsets(str(path), {TopicPartition("b", 1): 7, TopicPartition("a", 10): 0, TopicPartition("a", 9): 2**63 - 1})
    assert path.read_bytes() == b"0\n3\na 9 9223372036854775807\na 10 0\nb 1 7\n"


def test_writing_replaces_what_was_there_and_leaves_no_other_file(path: Path) -> None:
    write_offsets(str(path), {TopicPartition("a", n): n for n in range(100)})
    write_offsets(str(path), {TopicPartition("b", 0): 1})
    assert read_offsets(str(path)) == {TopicPartition("b", 0): 1}
    assert list(path.parent.iterdir()) == [path]


NO_ENTRIES = {"missing": None, "empty": b"", "only a version": b"0\n", "no entries": b"0\n0\n"}


@pytest.mark.parametrize("content", NO_ENTRIES.values(), ids=NO_ENTRIES)
def test_an_empty_file_holds_no_entries(content: bytes | None, path: Path) -> None:
    if content is not None:
        path.write_bytes(content)
    assert read_offsets(str(path)) == {}
    assert read_epochs(str(path)) == []


def test_fields_stand_apart_by_any_blanks_and_the_last_line_may_be_open(path: Path) -> None:
    path.write_bytes(b"0\n2\na  0\t5\nb 1 6")
    assert read_offsets(str(path)) == {TopicPartition("a", 0): 5, TopicPartition("b", 1): 6}


DAMAGED_OFFSETS = {
    "unknown version": b"1\n0\n",
    "version that is not a number": b"x\n0\n",
    "count that is not a number": b"0\nx\n",
    "negative count": b"0\n-1\n",
    "count too high": b"0\n2\na 0 5\n",
    "count too low": b"0\n1\na 0 5\nb 0 5\n",
    "count beyond all reason": b"0\n" + b"9" * 1000 + b"\n",
    "line cut short": b"0\n1\na 0\n",
    "a field too many": b"0\n1\na 0 5 6\n",
    "empty line": b"0\n2\na 0 5\n\n",
    "offset that is not a number": b"0\n1\na 0 x\n",
    "negative offset": b"0\n1\na 0 -1\n",
    "offset beyond an i64": b"0\n1\na 0 9223372036854775808\n",
    "partition beyond an i32": b"0\n1\na 2147483648 5\n",
    "topic that climbs out": b"0\n1\n../a 0 5\n",
    "topic with a null": b"0\n1\na\0 0 5\n",
    "zeros, as after power loss": b"\0" * 40,
    "not UTF-8": b"0\n1\n\xff 0 5\n",
}


@pytest.mark.parametrize("content", DAMAGED_OFFSETS.values(), ids=DAMAGED_OFFSETS)
def test_a_damaged_offset_checkpoint_is_refused_by_name(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(InvalidCheckpoint) as caught:
        read_offsets(str(path))
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_the_message_names_the_line(path: Path) -> None:
    path.write_bytes(b"0\n2\na 0 5\nb 0 x\n")
    with pytest.raises(InvalidCheckpoint, match=r"line 4: 'b 0 x'"):
        read_offsets(str(path))


# --- epochs ----------------------------------------------------------------------------------------------------------


def test_the_epochs_of_a_broker_are_read_and_written_again_byte_by_byte(path: Path) -> None:
    assert read_epochs(str(GOLDEN / "epochs-0" / LEADER_EPOCHS)) == [(0, 0), (2, 60), (4, 120), (6, 180)]
    for partition in PARTITIONS:
        write_epochs(str(path), read_epochs(str(partition / LEADER_EPOCHS)))
        assert path.read_bytes() == (partition / LEADER_EPOCHS).read_bytes()


DAMAGED_EPOCHS = {
    "epoch that falls": b"0\n2\n3 0\n2 5\n",
    "epoch that repeats": b"0\n2\n3 0\n3 5\n",
    "start that falls": b"0\n2\n3 5\n4 4\n",
    "negative epoch": b"0\n1\n-1 0\n",
    "epoch beyond an i32": b"0\n1\n2147483648 0\n",
    "three fields": b"0\n1\n0 0 0\n",
    "one field": b"0\n1\n0\n",
}


@pytest.mark.parametrize("content", DAMAGED_EPOCHS.values(), ids=DAMAGED_EPOCHS)
def test_a_damaged_epoch_checkpoint_is_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(InvalidCheckpoint):
        read_epochs(str(path))


# --- the clean-shutdown mark -----------------------------------------------------------------------------------------


def test_the_mark_of_a_broker_is_read_with_its_epoch_and_written_again(tmp_path: Path) -> None:
    mark = CleanShutdown.read(str(GOLDEN))
    assert mark == CleanShutdown(1231)
    mark.write(str(tmp_path))
    assert (tmp_path / CLEAN_SHUTDOWN).read_bytes() == (GOLDEN / CLEAN_SHUTDOWN).read_bytes()


def test_a_mark_of_ours_has_no_broker_epoch(tmp_path: Path) -> None:
    CleanShutdown().write(str(tmp_path))
    assert (tmp_path / CLEAN_SHUTDOWN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'


MARKS = {
    "empty, as before Kafka 3.7": (b"", -1),
    "unknown fields": (b'{"version":9,"brokerEpoch":5,"more":[]}', 5),
    "no epoch": (b"{}", -1),
    "epoch that is not a number": (b'{"brokerEpoch":"5"}', -1),
    "epoch that is a flag": (b'{"brokerEpoch":true}', -1),
    "epoch beyond an i64": (b'{"brokerEpoch":' + b"9" * 30 + b"}", -1),
    "epoch with more digits than Python reads": (b'{"brokerEpoch":' + b"9" * 9000 + b"}", -1),
    "a list": (b"[1]", -1),
    "not JSON": (b"yes", -1),
    "not text": (b"\xff\xfe\x00", -1),
    "deeply nested": (b"[" * 200_000, -1),
}


@pytest.mark.parametrize(("content", "epoch"), MARKS.values(), ids=MARKS)
def test_only_that_the_mark_exists_counts(content: bytes, epoch: int, tmp_path: Path) -> None:
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(content)
    assert CleanShutdown.read(str(tmp_path)) == CleanShutdown(epoch)


def test_a_removed_mark_is_gone_and_may_be_removed_again(tmp_path: Path) -> None:
    CleanShutdown().write(str(tmp_path))
    CleanShutdown.remove(str(tmp_path))
    assert CleanShutdown.read(str(tmp_path)) is None
    CleanShutdown.remove(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# --- identities ------------------------------------------------------------------------------------------------------


def test_the_identity_of_a_broker_is_read() -> None:
    properties = read_properties(str(GOLDEN / META_PROPERTIES))
    assert properties == {
        "version": "1",
        "node.id": "1",
        "cluster.id": "ZAKyr6o1TOGdbnNk2QZTHQ",
        "directory.id": "MjBhZdmVyJuGfmi5Z15f1g",
    }


PROPERTIES = {
    "empty file": (b"", {}),
    "comments and blank lines": (b"#\n! too\n\n  # here\na=1\n", {"a": "1"}),
    "colon": (b"a:1\n", {"a": "1"}),
    "blanks around": (b"  a = 1\n", {"a": "1"}),
    "blank alone": (b"a 1\n", {"a": "1"}),
    "blank at the end": (b"a=1 \n", {"a": "1 "}),
    "no value": (b"a=\nb\n", {"a": "", "b": ""}),
    "equals in the value": (b"a=b=c\n", {"a": "b=c"}),
    "escaped": (b"a\\:b=c\\=d\\\\\n", {"a:b": "c=d\\"}),
    "escaped tab": (b"a=\\t\n", {"a": "\t"}),
    "the last one wins": (b"a=1\na=2\n", {"a": "2"}),
    "carriage return": (b"a=1\r\n", {"a": "1"}),
}


@pytest.mark.parametrize(("content", "expected"), PROPERTIES.values(), ids=PROPERTIES)
def test_properties_are_read_as_java_reads_them(content: bytes, expected: dict[str, str], path: Path) -> None:
    path.write_bytes(content)
    assert read_properties(str(path)) == expected


NOT_PROPERTIES = {
    "no name": b"=1\n",
    "continued on the next line": b"a=\\\nb=2\n",
    "letter by its number": b"a=\\u0041\n",
    "many blanks before what is wrong": b"a=" + b" " * 1_000_000 + b"\\\n",
}


@pytest.mark.parametrize("content", NOT_PROPERTIES.values(), ids=NOT_PROPERTIES)
def test_what_kafka_never_writes_into_properties_is_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(InvalidCheckpoint):
        read_properties(str(path))


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda path: path.name)
def test_the_topic_ids_of_a_broker_are_read_and_written_again_byte_by_byte(partition: Path, path: Path) -> None:
    topic_id = read_topic_id(str(partition / PARTITION_METADATA))
    assert topic_id is not None and len(topic_id) == 16
    write_topic_id(str(path), topic_id)
    assert path.read_bytes() == (partition / PARTITION_METADATA).read_bytes()


TOPIC_ID = base64.urlsafe_b64encode(bytes(range(16)))

TOPIC_IDS = {
    "as Kafka writes it": b"version: 0\ntopic_id: " + TOPIC_ID.rstrip(b"="),
    "padded": b"version: 0\ntopic_id: " + TOPIC_ID,
    "later version, newline at the end, other lines": b"version: 7\nmore: 1\nrest\ntopic_id:  " + TOPIC_ID + b"\n",
}


@pytest.mark.parametrize("content", TOPIC_IDS.values(), ids=TOPIC_IDS)
def test_a_topic_id_is_read_however_brokers_write_it(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    assert read_topic_id(str(path)) == bytes(range(16))


NOT_TOPIC_IDS = {
    "empty": b"",
    "no id": b"version: 0\n",
    "no version": b"topic_id: " + TOPIC_ID,
    "negative version": b"version: -1\ntopic_id: " + TOPIC_ID,
    "zero": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    "too short": b"version: 0\ntopic_id: AAEC",
    "too long": b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(bytes(range(17))),
    "not base64": b"version: 0\ntopic_id: ?????",
    "one letter over": b"version: 0\ntopic_id: A",
    "beyond ASCII": "version: 0\ntopic_id: ä".encode(),
    "not UTF-8": b"\xff",
    "zeros, as after power loss": b"\0" * 43,
}


@pytest.mark.parametrize("content", NOT_TOPIC_IDS.values(), ids=NOT_TOPIC_IDS)
def test_a_damaged_partition_metadata_is_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(InvalidCheckpoint) as caught:
        read_topic_id(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_identity_is_none(path: Path) -> None:
    assert read_properties(str(path)) is None
    assert read_topic_id(str(path)) is None


# --- anything --------------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[str], object]] = {
    "offsets": read_offsets,
    "epochs": read_epochs,
    "properties": read_properties,
    "topic id": read_topic_id,
}


@pytest.mark.long
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(content=st.binary(max_size=200) | st.text("0123 ab\n:-=_", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(
    read: Callable[[str], object], content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(content)
    try:
        result = read(str(path))
    except InvalidCheckpoint as error:
        assert error.path == str(path)
    else:
        assert result is not None
