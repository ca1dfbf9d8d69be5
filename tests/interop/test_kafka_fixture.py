"""The test broker itself: what other tests conclude from it must not come from the fixture."""

import os
import re
import select
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.programs import KafkaError

pytestmark = pytest.mark.interop

LINES = b"".join(b"line %d\n" % number for number in range(1000))


def test_records_survive_a_restart_and_the_broker_logs_no_complaint(
    kafka_module: KafkaBroker,
) -> None:
    kafka = kafka_module
    kafka.create_topic("lines", partitions=2, configs={"segment.bytes": "1048576"})
    kafka.produce("lines", LINES, partition=1)
    address = kafka.address
    kafka.stop()
    assert (kafka.log_dir / ".kafka_cleanshutdown").exists()
    kafka.start()
    assert kafka.address == address
    assert kafka.consume("lines", partition=1) == LINES
    assert kafka.consume("lines", partition=0) == b""
    assert "Kafka Server started" in kafka.log_text()
    assert kafka.complaints() == []  # errors among them, but for the controller that registers with itself too early


def test_kafkas_own_tools_read_and_write(kafka_module: KafkaBroker) -> None:
    kafka = kafka_module
    kafka.create_topic("tools")
    kafka.console_produce("tools", "a\nb\nc\n")
    kafka.produce("tools", b"k=v\n", "-K", "=", "-H", "h=1")
    assert (
        kafka.console_consume("tools", "--formatter-property", "print.key=true", count=4)
        == "null\ta\nnull\tb\nnull\tc\nk\tv\n"
    )
    assert kafka.consume("tools", "-f", "%o %k %h %s\n", "-o", "3") == b"3 k h=1 v\n"
    files = sorted((kafka.log_dir / "tools-0").glob("*.log"))
    dump = kafka.dump(files, "--deep-iteration", "--print-data-log").stdout
    assert re.findall(r"isvalid: (\w+)", dump) == ["true", "true"]
    assert re.findall(r"payload: (\w+)", dump) == ["a", "b", "c", "v"]


def test_a_killed_broker_comes_back_and_logs_its_recovery(kafka: KafkaBroker) -> None:
    kafka.create_topic("lines")
    kafka.produce("lines", LINES)
    kafka.kill()
    assert not kafka.is_running
    assert not (kafka.log_dir / ".kafka_cleanshutdown").exists()
    kafka.start()
    assert kafka.consume("lines") == LINES
    assert any("no clean shutdown file was found" in line for line in kafka.complaints())


def test_a_start_on_a_log_directory_with_foreign_changes_is_reported(kafka: KafkaBroker) -> None:
    kafka.create_topic("lines")
    kafka.produce("lines", LINES)
    kafka.stop()
    shutil.copytree(kafka.log_dir / "lines-0", kafka.log_dir / "unknown-0")
    metadata = kafka.log_dir / "unknown-0" / "partition.metadata"
    metadata.write_text(re.sub("topic_id: ....", "topic_id: abcd", metadata.read_text()))
    (kafka.log_dir / "lines-0" / "00000000000000000000.index").unlink()
    kafka.start()
    reported = "\n".join(kafka.complaints())
    assert "unknown-0 marked stray" in reported
    assert re.search(r"ERROR .*Could not find offset index file .*lines-0", reported)


def test_a_broker_starts_on_a_log_directory_that_has_an_identity(
    new_kafka: Callable[..., KafkaBroker], tmp_path: Path
) -> None:
    log_dir = tmp_path / "log"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text(
        "node.id=7\ndirectory.id=MjBhZdmVyJuGfmi5Z15f1g\nversion=1\ncluster.id=ZAKyr6o1TOGdbnNk2QZTHQ\n"
    )
    kafka = new_kafka(log_dir=log_dir, settings={"metadata.log.dir": str(log_dir)}).start()
    assert "broker 7 at " + kafka.address in kafka.kcat("-L").decode()
    assert (log_dir / "__cluster_metadata-0").is_dir()
    assert kafka.complaints() == []


def test_a_broker_that_cannot_start_reports_the_reason(new_kafka: Callable[..., KafkaBroker]) -> None:
    kafka = new_kafka(settings={"log.segment.bytes": "1"})
    with pytest.raises(KafkaError, match=r"log\.segment\.bytes"):
        kafka.start()
    with pytest.raises(KafkaError, match="not running"):
        kafka.stop()


class ElectingBroker(KafkaBroker):
    """A process that states at once that it serves; its metadata is without a controller at first."""

    metadata = (None, b'{"controllerid":-1}', b'{"controllerid":1}')

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answers = list(self.metadata)

    def kcat(self, *words: str, input: bytes = b"") -> bytes:
        answer = self.answers.pop(0)
        if answer is None:
            raise KafkaError("Failed to acquire metadata")
        return answer

    def _command(self) -> list[str]:
        return ["sh", "-c", f"echo {self.started_text}; exec sleep 60"]

    def _format(self) -> None:
        """Do without a configuration."""


def test_a_broker_has_started_only_when_its_metadata_names_a_controller(tmp_path: Path) -> None:
    with ElectingBroker(tmp_path) as broker:
        assert broker.answers == []


def test_no_broker_outlives_a_killed_test_run(tmp_path: Path) -> None:
    script = """
        import os, pathlib, sys
        from fixtures.kafka.broker import KafkaBroker
        broker = KafkaBroker(pathlib.Path(sys.argv[1])).start()
        print(broker.pid, flush=True)
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=150,
        check=False,
    )
    assert has_ended(int(done.stdout))


def has_ended(pid: int) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 60)[0])
    finally:
        os.close(process)
