"""What the engine wrote, a real broker opens without recovery or complaint; and the other way round."""

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker

from offsetfs import cli
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.hand_over import hand_over
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.interop

KEPT = {"retention.ms": "-1"}
"""Of topics with records of 2026, which a broker would remove thirty seconds after its start."""

CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]


def append(log: Log, records: list[tuple[bytes | None, bytes]], batch_count: int = 20) -> None:
    """Append `records` in batches of `batch_count`."""
    for start in range(0, len(records), batch_count):
        builder = BatchBuilder(1 << 20, log.config.compression)
        for key, value in records[start : start + batch_count]:
            assert builder.append(key, value, (("from", b"offsetfs"),) if key else (), 1_795_000_000_000 + start)
        log.append(builder.seal())


def ours(codec: str, count: int = 400) -> list[tuple[bytes | None, bytes]]:
    """Half of the records with a key, and values that compress."""
    return [
        (b"key-%d" % number if number % 2 else None, b"%s %05d " % (codec.encode(), number) * 8)
        for number in range(count)
    ]


def in_print(records: list[tuple[bytes | None, bytes]]) -> bytes:
    return b"".join(b"%s=%s\n" % (key or b"", value) for key, value in records)


def consumed(kafka: KafkaBroker, topic: str) -> bytes:
    return kafka.consume(topic, "-f", "%k=%s\\n")


def read_back(path: Path, topic: str) -> bytes:
    log = LogDirectory.open(str(path), read_only=True).log(TopicPartition(topic, 0))
    log.check()
    records = (r for s in log.snapshot() for batch in s.batches() for r in batch.records())
    return in_print([(record.key, record.value or b"") for record in records])


@pytest.mark.promise("DumpLogSegments finds every batch that offsetfs wrote valid and every index consistent.")
@pytest.mark.promise("A broker opens a directory to which offsetfs appended without recovery and without errors.")
def test_a_broker_goes_on_where_we_stopped_with_every_codec(kafka: KafkaBroker) -> None:
    theirs = b"".join(b"theirs %d\n" % number for number in range(100))
    settings = {"index.interval.bytes": "500", "segment.bytes": "1048576"}
    for codec in CODECS:
        kafka.create_topic(f"t-{codec}", configs=settings | KEPT)
        kafka.produce(f"t-{codec}", theirs)
    kafka.stop()

    for codec in CODECS:
        defaults = {"compression.type": codec, "segment.bytes": "4000", "index.interval.bytes": "500"}
        directory = LogDirectory.open(str(kafka.log_dir), defaults=defaults)
        log = directory.log(TopicPartition(f"t-{codec}", 0))
        assert log.next_offset == 100
        append(log, ours(codec))
        assert len(log.snapshot()) > 1
        directory.close()

    kafka.start()
    assert kafka.complaints() == []
    for codec in CODECS:
        expected = b"".join(b"=%s\n" % line for line in theirs.splitlines()) + in_print(ours(codec))
        assert consumed(kafka, f"t-{codec}") == expected
        kafka.produce(f"t-{codec}", b"last\n")
    text = kafka.console_consume("t-zstd", "--formatter-property", "print.key=true", count=501)
    assert text.splitlines()[-1] == "null\tlast" and f"key-399\t{'zstd 00399 ' * 8}" in text
    kafka.stop()

    for codec in CODECS:
        assert read_back(kafka.log_dir, f"t-{codec}").endswith(in_print(ours(codec)) + b"=last\n")
    check_with_kafkas_tool(kafka, [kafka.log_dir / f"t-{codec}-0" for codec in CODECS])


def check_with_kafkas_tool(kafka: KafkaBroker, partitions: list[Path]) -> None:
    """Every batch is valid, and both index checks pass."""
    logs = [file for partition in partitions for file in sorted(partition.glob("*.log"))]
    found = re.findall(r"isvalid: (\w+)", kafka.dump(logs, "--deep-iteration").stdout)
    assert len(found) > len(logs) and set(found) == {"true"}
    indexes = [f for partition in partitions for f in sorted(partition.glob("*index")) if f.stat().st_size]
    assert len(indexes) > 2 * len(partitions)
    for option in ("--index-sanity-check", "--verify-index-only"):
        result = kafka.dump(indexes, option)
        assert "ismatch" not in result.stdout + result.stderr
        assert "not found" not in result.stdout + result.stderr
        assert "out of order" not in result.stdout + result.stderr
    sane = kafka.dump([f for f in indexes if f.suffix == ".index"], "--index-sanity-check").stdout
    assert sane.count("passed sanity check.") == sum(f.suffix == ".index" for f in indexes)


@pytest.mark.promise("A partition that offsetfs created can be handed over to a broker.")
def test_a_partition_that_we_created_is_handed_over(
    kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ours").mkdir()
    directory = LogDirectory.open(str(tmp_path / "ours"))
    partition = TopicPartition("orders", 0)
    log = directory.create_partition(partition, {"segment.bytes": "9000", "compression.type": "lz4"})
    append(log, ours("lz4"))
    directory.close()
    kafka.create_topic("orders", configs=KEPT)
    kafka.stop()
    assert cli.run(["hand-over", str(tmp_path / "ours"), "orders-0", str(kafka.log_dir)]) == 0
    kafka.start()
    assert cli.run(["hand-over", str(tmp_path / "ours"), "orders-0", str(kafka.log_dir)]) == 32
    assert f"in use by process {kafka.pid}" in capsys.readouterr().err
    assert kafka.complaints() == []
    assert consumed(kafka, "orders") == in_print(ours("lz4"))
    kafka.produce("orders", b"last\n")
    kafka.stop()
    kafka.start()
    assert kafka.complaints() == []
    assert consumed(kafka, "orders") == in_print(ours("lz4")) + b"=last\n"
    kafka.stop()
    assert read_back(kafka.log_dir, "orders") == in_print(ours("lz4")) + b"=last\n"


def test_producer_states_survive_our_appends(kafka: KafkaBroker) -> None:
    """An idempotent producer of the broker's is still known after we appended behind it."""
    kafka.create_topic("orders", configs=KEPT)
    kafka.console_produce("orders", "a\nb\n")
    kafka.stop()
    directory = LogDirectory.open(str(kafka.log_dir), defaults={"segment.bytes": "2500"})
    append(directory.log(TopicPartition("orders", 0)), ours("none", 100))
    directory.close()
    snapshots = sorted((kafka.log_dir / "orders-0").glob("*.snapshot"))
    reported = kafka.dump(snapshots).stdout
    assert len(snapshots) > 3 and reported.count("producerId: ") == len(snapshots)
    kafka.start()
    assert kafka.complaints() == []
    assert len(consumed(kafka, "orders").splitlines()) == 102


def test_a_broker_opens_what_we_recovered(unclean_copy: Path, new_kafka: Callable[..., KafkaBroker]) -> None:
    directory = LogDirectory.open(str(unclean_copy))
    ends = {partition: directory.log(partition).next_offset for partition in directory.partitions()}
    directory.close()
    assert {str(p): end for p, end in ends.items()} == {"epochs-0": 180, "transactions-0": 365}
    files = sorted(file for partition in ends for file in (unclean_copy / str(partition)).glob("*.log"))
    kafka = new_kafka()
    found = re.findall(r"isvalid: (\w+)", kafka.dump(files, "--deep-iteration").stdout)
    assert len(found) > 10 and set(found) == {"true"}

    # A broker takes strangers for strays, so its own empty partitions take the recovered files.
    kafka.start()
    for partition in ends:
        kafka.create_topic(partition.topic, configs=KEPT)
    kafka.stop()
    for partition in ends:
        hand_over(str(unclean_copy), partition, str(kafka.log_dir))
    kafka.start()
    assert kafka.complaints() == []
    for partition, end in ends.items():
        offsets = kafka.consume(partition.topic, "-f", "%o\\n").split()
        assert int(offsets[-1]) <= end - 1 and len(offsets) > 170


@pytest.mark.parametrize("source", ["kafka-0.10.2.2/v0-compact-gzip-0", "kafka-0.10.2.2/v1-lat-gzip-0"])
def test_a_broker_of_today_reads_converted_logs_of_old_brokers(
    kafka: KafkaBroker, golden: Path, tmp_path: Path, source: str
) -> None:
    version, _, name = source.partition("/")
    partition = TopicPartition.parse(name)
    shutil.copytree(golden.parent / source, tmp_path / "old" / name)
    (tmp_path / "old" / ".kafka_cleanshutdown").touch()
    assert cli.run(["convert", str(tmp_path / "old")]) == 0
    kafka.create_topic(partition.topic, configs=KEPT)
    kafka.stop()
    assert cli.run(["hand-over", str(tmp_path / "old"), name, str(kafka.log_dir)]) == 0
    kafka.start()
    assert kafka.complaints() == []
    with (golden.parent / version / f"{name}.expected.ndjson").open() as lines:
        rows = [json.loads(line) for line in lines]
    expected = [f"{row['offset']} {row['timestamp']} {len(base64.b64decode(row['value_b64'] or ''))}" for row in rows]
    assert (
        kafka.consume(partition.topic, "-f", "%o %T %S\\n").decode().replace(" -1\n", " 0\n").splitlines() == expected
    )
