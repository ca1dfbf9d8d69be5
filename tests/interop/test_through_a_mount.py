"""A stopped broker's own directory, appended to through a mount with cat, goes back to the broker."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.programs import KafkaError
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli

pytestmark = pytest.mark.interop

CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
THEIRS = b"".join(b"theirs %d\n" % number for number in range(100))


@contextmanager
def mounted(log: Path, point: Path, *options: str) -> Iterator[Path]:
    point.mkdir(exist_ok=True)
    assert cli.run(["mount", str(log), str(point), *(["-o", ",".join(options)] if options else [])]) == 0
    try:
        yield point
    finally:
        unmount(point)


@pytest.mark.promise("A broker opens a directory to which offsetfs appended without recovery and without errors.")
def test_cat_into_a_brokers_partitions_and_the_broker_goes_on(kafka: KafkaBroker, tmp_path: Path) -> None:
    for codec in CODECS:
        kafka.create_topic(f"t-{codec}")
        kafka.produce(f"t-{codec}", THEIRS)
    kafka.stop()

    ours = tmp_path / "lines"
    ours.write_bytes(b"".join(b"line %07d of ours\n" % number for number in range(100_000)))
    for codec in CODECS:
        options = (f"compression.type={codec}", "segment.bytes=60000", "batch-bytes=20000")
        with mounted(kafka.log_dir, tmp_path / "mnt", *options) as mnt:
            subprocess.run(["sh", "-c", f"cat {ours} >> {mnt}/t-{codec}-0/append"], check=True)
            assert (mnt / f"t-{codec}-0" / "values").read_bytes() == THEIRS + ours.read_bytes()
        assert len(list((kafka.log_dir / f"t-{codec}-0").glob("*.log"))) > 1

    kafka.start()
    assert kafka.complaints() == []
    for codec in CODECS:
        assert kafka.consume(f"t-{codec}") == THEIRS + ours.read_bytes()
        kafka.produce(f"t-{codec}", b"last\n")
    assert kafka.console_consume("t-lz4", count=100_101).splitlines()[-2:] == ["line 0099999 of ours", "last"]
    kafka.stop()

    with mounted(kafka.log_dir, tmp_path / "mnt", "ro") as mnt:
        for codec in CODECS:
            assert (mnt / f"t-{codec}-0" / "latest").read_bytes() == b"last"
            assert (mnt / f"t-{codec}-0" / "values").read_bytes() == THEIRS + ours.read_bytes() + b"last\n"
        check_dump_on_the_mount(kafka, mnt)


def check_dump_on_the_mount(kafka: KafkaBroker, mnt: Path) -> None:
    """Kafka's own tool runs on `segments/` as it does on the files, and finds all in order."""
    logs = sorted((mnt / "t-zstd-0" / "segments").glob("*.log"))
    found = re.findall(r"isvalid: (\w+)", kafka.dump(logs, "--deep-iteration").stdout)
    assert len(found) > 20 and set(found) == {"true"}
    indexes = [file for file in sorted((mnt / "t-zstd-0" / "segments").glob("*index")) if file.stat().st_size]
    result = kafka.dump(indexes, "--index-sanity-check")
    assert "ismatch" not in result.stdout + result.stderr and "passed sanity check" in result.stdout


@pytest.mark.promise("A log directory never has two writers, whether the other one is a broker or another mount.")
def test_a_running_brokers_directory_is_refused_for_writing_only(
    kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", THEIRS)
    (tmp_path / "mnt").mkdir()
    assert cli.run(["mount", str(kafka.log_dir), str(tmp_path / "mnt")]) == 32
    assert f"process {kafka.pid}" in capsys.readouterr().err
    with mounted(kafka.log_dir, tmp_path / "mnt", "ro") as mnt:
        assert (mnt / "orders-0" / "values").read_bytes() == THEIRS
    assert kafka.consume("orders") == THEIRS


def test_a_broker_cannot_start_under_our_mount(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("orders")
    kafka.stop()
    with mounted(kafka.log_dir, tmp_path / "mnt"), pytest.raises(KafkaError, match="ended by itself"):
        kafka.start()
    assert "Failed to acquire lock on file .lock" in kafka.log_text()
    kafka.start()
    kafka.produce("orders", THEIRS)
    assert kafka.consume("orders") == THEIRS
