"""The key index in a directory that a broker has, or takes over: the broker leaves the files alone, and we validate
them only as long as they are true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli

pytestmark = pytest.mark.interop

FILES = {"by-key.sqlite", "by-key.seal"}


@contextmanager
def mounted(log: Path, point: Path, *options: str) -> Iterator[Path]:
    point.mkdir(exist_ok=True)
    assert cli.run(["mount", str(log), str(point), *(["-o", ",".join(options)] if options else [])]) == 0
    try:
        yield point
    finally:
        unmount(point)


def test_a_broker_leaves_the_index_of_keys_alone_and_what_it_adds_is_found(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kafka.create_topic("users")
    kafka.create_topic("gone")
    kafka.produce("users", b"".join(b"key-%d\tvalue %d\n" % (n % 10, n) for n in range(100)), "-K", "\t")
    kafka.produce("gone", b"key\tvalue\n", "-K", "\t")
    with mounted(kafka.log_dir, tmp_path / "mnt", "ro") as mnt:
        assert (mnt / "users-0" / "by-key" / "key-3").read_text() == "value 93"
        kafka.produce("users", b"key-3\tlater\n", "-K", "\t")
        assert (mnt / "users-0" / "by-key" / "key-3").read_text() == "later"
    kafka.stop()

    with mounted(kafka.log_dir, tmp_path / "mnt") as mnt:
        assert (mnt / "users-0" / "by-key" / "key-4").read_text() == "value 94"
        assert (mnt / "gone-0" / "by-key" / "key").read_text() == "value"
    directory = kafka.log_dir / "users-0"
    assert set(os.listdir(directory)) >= FILES <= set(os.listdir(kafka.log_dir / "gone-0"))

    kafka.start()
    assert kafka.complaints() == []
    kafka.produce("users", b"key-4\tby the broker\n", "-K", "\t")
    assert kafka.consume("users", "-f", "%k\\n").count(b"key-4\n") == 11
    kafka.tool("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", "gone")
    kafka.stop()
    assert kafka.complaints() == [] and not (kafka.log_dir / "gone-0").exists()
    assert set(os.listdir(directory)) >= FILES, "the broker leaves them alone"

    with mounted(kafka.log_dir, tmp_path / "mnt") as mnt:
        assert (mnt / "users-0" / "by-key" / "key-4").read_text() == "by the broker"
        assert (mnt / "users-0" / "by-key" / "key-5").read_text() == "value 95"
