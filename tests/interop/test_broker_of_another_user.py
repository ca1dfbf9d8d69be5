"""A broker that runs as a user of its own goes on in a directory that root mounted, appended to, cleaned and gave."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.interop

KAFKA_USER = 65533
THEIRS = b"".join(b"theirs %d\n" % number for number in range(100))
OURS = b"".join(b"ours %d\n" % number for number in range(2000))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach: the one of pytest belongs to its user alone."""
    assert os.geteuid() == 0, "only root can start a broker as another user"
    with tempfile.TemporaryDirectory(prefix="offsetfs-kafka-user-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def values(path: Path, topic: str) -> bytes:
    log = LogDirectory.open(str(path), read_only=True).log(TopicPartition(topic, 0))
    log.check()
    records = (record for s in log.snapshot() for batch in s.batches() for record in batch.records())
    return b"".join((record.value or b"") + b"\n" for record in records)


def files_of_others(path: Path) -> list[str]:
    """Return the files at and below `path` that do not belong to the broker's user and group."""
    found = (path, *path.rglob("*"))
    return [str(each) for each in found if (each.lstat().st_uid, each.lstat().st_gid) != (KAFKA_USER, KAFKA_USER)]


def append(log: Path, mnt: Path, topic: str, options: str) -> None:
    mnt.mkdir()
    assert cli.run(["mount", str(log), str(mnt), "-o", options]) == 0
    try:
        with (mnt / f"{topic}-0" / "append").open("wb") as file:
            file.write(OURS)
    finally:
        unmount(mnt)


def test_root_works_in_the_directory_of_a_broker_that_runs_as_another_user(place: Path) -> None:
    with KafkaBroker(place / "kafka", user=KAFKA_USER) as kafka:
        assert os.stat(f"/proc/{kafka.pid}").st_uid == KAFKA_USER
        kafka.create_topic("orders")
        kafka.create_topic("given")
        kafka.produce("orders", THEIRS)
        kafka.stop()
        assert files_of_others(kafka.log_dir) == []

        append(kafka.log_dir, place / "mnt", "orders", "segment.bytes=10000,index.interval.bytes=500")
        (place / "ours").mkdir()
        assert cli.run(["create", str(place / "ours"), "given"]) == 0
        append(place / "ours", place / "mnt-of-ours", "given", "segment.bytes=10000")
        assert cli.run(["hand-over", str(place / "ours"), "given-0", str(kafka.log_dir)]) == 0
        assert cli.run(["clean", str(kafka.log_dir)]) == 0
        assert cli.run(["verify", str(kafka.log_dir)]) == 0
        assert len(list((kafka.log_dir / "orders-0").glob("*.log"))) > 1
        assert files_of_others(kafka.log_dir) == []

        kafka.start()
        assert kafka.complaints() == []
        assert kafka.consume("orders") == THEIRS + OURS
        assert kafka.consume("given") == OURS
        kafka.produce("orders", b"last\n")
        kafka.produce("given", b"last\n")
        kafka.stop()
        assert values(kafka.log_dir, "orders") == THEIRS + OURS + b"last\n"
        assert values(kafka.log_dir, "given") == OURS + b"last\n"
        assert files_of_others(kafka.log_dir) == []
