"""Mirror a broker of an older Kafka, with the versions of requests that it has: scripts/soak old-brokers.

    old_brokers.py VERSION…        those whose jars are in .cache

Each broker gets records in every codec and, where it has them, headers and transactions. A mirror runs meanwhile, is
killed, and goes on after a restart of the broker. In the end the copy has to be that of the broker to the byte.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path += [str(FOLDER.parent)]

from confluent_kafka import Producer  # noqa: E402
from fixtures.kafka.confluent_clients import SECONDS_MAX  # noqa: E402
from fixtures.kafka.transactional_clients import transactional  # noqa: E402
from fixtures.kafka.zookeeper_broker import ZooKeeperBroker  # noqa: E402
from fixtures.mirrors.process import MirrorProcess, batches_of, mirrored_end, wait_until  # noqa: E402

from offsetfs.storage import TopicPartition  # noqa: E402
from offsetfs.storage.verify import Verification  # noqa: E402

TOPIC = "orders"
COUNT = 200
SETTINGS = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
EXPECTED = re.compile("trying again|the source answers again|settings are not taken over")


def main() -> None:
    for version in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="offsetfs-old-broker-") as folder:
            for format_version in formats(version):
                print(f"Kafka {version}, message format {format_version}: ", end="", flush=True)
                print(f"{mirrored(version, format_version, Path(folder) / format_version)} bytes, the same")


def formats(version: str) -> tuple[str, ...]:
    """Return the message formats to try with a broker: v2 since 0.11, v1 since 0.10, v0 before."""
    return ("0.10.2", "0.9.0") if version.startswith("0.10") else ("1.1", "0.10.2") if version < "2" else ("3.0",)


def mirrored(version: str, format_version: str, folder: Path) -> int:
    """Mirror a broker of a version; return the number of bytes that are the same."""
    name = TopicPartition(TOPIC, 0)
    is_v2 = not format_version.startswith("0.")
    with ZooKeeperBroker(folder / "kafka", version=version, settings=SETTINGS) as kafka:
        kafka.create_topic(TOPIC, configs={"message.format.version": format_version})
        with MirrorProcess(kafka.address, folder / "mirror", "--topic", TOPIC) as mirror:
            produce(kafka.address, version, with_headers=is_v2)
            wait_until(lambda: mirrored_end(mirror.path, name) >= COUNT, "records")
            mirror.kill()
            if is_v2:
                transact(kafka.address)
            before = mirrored_end(mirror.path, name)
            mirror.start()
            produce(kafka.address, version, with_headers=is_v2)
            wait_until(lambda: mirrored_end(mirror.path, name) > before, "the mirror goes on after a kill")
            kafka.stop()
            kafka.start()
            end = mirrored_end(mirror.path, name)
            produce(kafka.address, version, with_headers=is_v2)
            wait_until(lambda: mirrored_end(mirror.path, name) > end, "the mirror goes on after the restart")
            assert mirror.end() == 0, mirror.events
        done = mirror.once()
        assert (done.returncode, done.stderr) == (0, "")
        unexpected = [each for each in mirror.events if not EXPECTED.search(each)]
        assert unexpected == [], unexpected
        kafka.stop()
        copied = batches_of(mirror.path / str(name))
        assert copied and copied == batches_of(kafka.log_dir / str(name))
    findings = list[str]()
    Verification(str(mirror.path), report=lambda each: findings.append(str(each))).run()
    assert findings == []
    return len(copied)


def produce(address: str, version: str, *, with_headers: bool) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd") if version > "2" else ("none", "gzip", "snappy", "lz4")
    for codec in codecs:
        producer = Producer({"bootstrap.servers": address, "log_level": 0, "compression.type": codec, "linger.ms": 20})
        for each in range(COUNT):
            headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % each)] if with_headers else []
            producer.produce(TOPIC, b"value %d" % each * 9, b"key %d" % (each % 10), 0, headers=headers or None)
        assert producer.flush(SECONDS_MAX) == 0


def transact(address: str) -> None:
    """Commit a transaction, abort one, and leave one open."""
    producer = transactional(address, "t")
    for end in (producer.commit_transaction, producer.abort_transaction, lambda _: None):
        producer.begin_transaction()
        producer.produce(TOPIC, b"transactional", partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        end(SECONDS_MAX)


if __name__ == "__main__":
    main()
