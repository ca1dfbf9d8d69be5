"""What is written through `topics/` and `groups/` of a mount is what Kafka's own clients would have written."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli

pytestmark = pytest.mark.interop

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PARTITIONS = 7


@contextmanager
def mounted(log: Path, point: Path, *options: str) -> Iterator[Path]:
    point.mkdir(exist_ok=True)
    assert cli.run(["mount", str(log), str(point), *(["-o", ",".join(options)] if options else [])]) == 0
    try:
        yield point
    finally:
        unmount(point)


def keys() -> list[str]:
    return ["", "k", "ключ", "😀", "a b", *(f"key-{number}" * (number % 5 + 1) for number in range(500))]


def records(partition: Path) -> list[tuple[str | None, str | None]]:
    lines = (partition / "records.ndjson").read_text().splitlines()
    return [(record["key"], record["value"]) for record in map(json.loads, lines)]


def described(kafka: KafkaBroker, group: str) -> dict[str, str]:
    """Return what the broker says the group has committed, by partition."""
    text = kafka.tool(GROUPS, "--describe", "--group", group).stdout
    rows = [line.split() for line in text.splitlines() if line.startswith(f"{group} ")]
    return {f"{row[1]}-{row[2]}": row[3] for row in rows if row[3] != "-"}


@pytest.mark.promise(
    "A broker returns the offset that was written to `groups/<group>/<partition>` to that group, and "
    "none after the file was removed."
)
@pytest.mark.promise(
    "A record with a key that is written to `topics/<topic>/append.ndjson` goes to the partition "
    "that Kafka's own producer would choose."
)
def test_keys_and_commits_are_where_kafkas_clients_put_them(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("theirs", PARTITIONS)
    kafka.create_topic("ours", PARTITIONS)
    lines = "".join(f"{key}\t{number}\n" for number, key in enumerate(keys()))
    kafka.console_produce("theirs", lines, "--reader-property", "parse.key=true")
    kafka.console_consume("theirs", "--group", "billing", count=len(keys()))
    assert len(described(kafka, "billing")) == PARTITIONS
    kafka.stop()

    with mounted(kafka.log_dir, tmp_path / "mnt") as mnt:
        data = "".join(json.dumps({"key": key, "value": str(number)}) + "\n" for number, key in enumerate(keys()))
        subprocess.run(["sh", "-c", f"cat >> {mnt}/topics/ours/append.ndjson"], input=data, text=True, check=True)
        for number in range(PARTITIONS):
            there = records(mnt / f"theirs-{number}")
            assert there and records(mnt / f"ours-{number}") == there
        billing = mnt / "groups/billing"
        subprocess.run(["sh", "-c", "echo 3 > theirs-0; echo 4 > ours-1; rm theirs-2"], cwd=billing, check=True)
        subprocess.run(["sh", "-c", "mkdir grün && echo 5 > grün/ours-0"], cwd=billing.parent, check=True)

    kafka.start()
    assert kafka.complaints() == []
    for number in range(PARTITIONS):
        shown = [kafka.consume(topic, "-f", "%k\t%s\n", partition=number) for topic in ("ours", "theirs")]
        assert shown[0] == shown[1] != b""
    now = described(kafka, "billing")
    assert (now["theirs-0"], now["ours-1"]) == ("3", "4") and "theirs-2" not in now
    assert len(now) == PARTITIONS
    assert described(kafka, "grün") == {"ours-0": "5"}
    reset = ("--reset-offsets", "--topic", "theirs:0", "--to-offset", "1", "--execute")
    kafka.tool(GROUPS, "--group", "billing", *reset)
    kafka.stop()
    with mounted(kafka.log_dir, tmp_path / "mnt", "ro") as mnt:
        assert (mnt / "groups/billing/theirs-0").read_text() == "1\n"
        assert (mnt / "groups/billing/ours-1").read_text() == "4\n"
