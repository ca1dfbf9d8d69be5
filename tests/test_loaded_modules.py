"""What a process imports before it serves: each module costs time at every start, and memory for as long as it runs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

MOUNT = """
from offsetfs.cli.commands import mount
from offsetfs.cli.mounts.detach import ParentPipe
mount._Daemon([path], {}, "/mnt", mount.MountOptions()).run(ParentPipe(None))
"""
SERVE = "from offsetfs import cli; cli.run(['serve', path, '--listen', '127.0.0.1:0'])"
FIND = "from offsetfs import cli; cli.run(['find', path, '--text', 'order']); end()"
LS = "from offsetfs import cli; cli.run(['ls', '-l', path]); end()"

PROGRAM = """
import os, sys, trio
path = sys.argv[1]
def end(*_): os.write(1, "\\n".join(sys.modules).encode()); os._exit(0)
trio.run = end if sys.argv[2] == "before the loop" else trio.run
"""

SELDOM = frozenset(
    (
        *("asyncio", "concurrent.futures", "prometheus_client", "rich", "sqlite3"),
        *("offsetfs.storage.coordinators.consumer_groups", "offsetfs.storage.dump", "offsetfs.storage.verify"),
        *("offsetfs.storage.views.key_table", "offsetfs.fs.control.metrics", "offsetfs.kafka.broker.exporter"),
    )
)
"""Modules that are imported when they are needed; some of them take 20 ms."""


def loaded(program: str, log_directory: Path, until: str = "before the loop") -> set[str]:
    """Return the modules that a new process has imported."""
    command = [sys.executable, "-c", PROGRAM + program, str(log_directory), until]
    return set(subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout.split())


def below(package: str, modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith(f"{package}.")}


@pytest.mark.long
def test_a_mount_imports_neither_a_broker_nor_the_protocol(tmp_path: Path) -> None:
    found = loaded(MOUNT, tmp_path)
    assert "offsetfs.fs.mounting.operations" in found
    assert SELDOM & found == set()
    assert below("offsetfs.kafka.broker", found) == {
        "offsetfs.kafka.broker.listener_settings",
        "offsetfs.kafka.broker.security_names",
        "offsetfs.kafka.broker.settings",
    }
    for package in ("offsetfs.kafka.protocol", "offsetfs.pipeline", "offsetfs.storage.coordinators"):
        assert not below(package, found), package
    assert below("offsetfs.cli.commands", found) == {"offsetfs.cli.commands.mount"}


@pytest.mark.long
def test_a_broker_imports_no_mount_and_few_of_the_messages(tmp_path: Path) -> None:
    found = loaded(SERVE, tmp_path)
    assert "offsetfs.kafka.broker.apis" in found
    assert SELDOM & found == set()
    assert {"pyfuse3", "offsetfs.fs.options"} & found == set()
    assert below("offsetfs.fs.mounting", found) == {
        "offsetfs.fs.mounting.descriptor_limits",
        "offsetfs.fs.mounting.mount_table",
    }
    assert len(below("offsetfs.kafka.protocol.messages", found)) < 20  # of about seventy


@pytest.mark.long
@pytest.mark.parametrize("program", [MOUNT, SERVE, LS], ids=["mount", "serve", "ls"])
def test_a_local_log_directory_imports_nothing_of_object_storage(tmp_path: Path, program: str) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        directory.create_partitions([TopicPartition("orders", 0)])
    found = loaded(program, tmp_path, "the end" if program == LS else "before the loop")
    assert "offsetfs.storage.files" in found
    assert {name for name in found if name.split(".")[0] in ("fsspec", "s3fs", "botocore")} == set()
    assert not below("offsetfs.archive", found)


@pytest.mark.long
def test_a_listing_without_a_mount_imports_neither_groups_nor_the_index_of_keys(tmp_path: Path) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        directory.create_partitions([TopicPartition("orders", 0)])
    found = loaded(LS, tmp_path, "the end")
    assert "offsetfs.fs.mounting.in_process_tree" in found
    assert SELDOM & found == set()
    assert not below("offsetfs.kafka.protocol", found) and not below("offsetfs.kafka.broker", found)


@pytest.mark.long
def test_a_search_for_a_text_imports_little_beside_the_engine(tmp_path: Path) -> None:
    """It took as long to start as ripgrep takes for a gigabyte."""
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        directory.create_partitions([TopicPartition("orders", 0)])
    found = loaded(FIND, tmp_path, "the end")
    assert "offsetfs.answers.find_conditions" in found
    seldom = {"email", "importlib.metadata", "re2", "zipfile"}
    assert (SELDOM | seldom) & found == set()
    for package in ("offsetfs.kafka", "offsetfs.tables", "offsetfs.fs.naming", "offsetfs.archive"):
        assert not below(package, found), package
    assert {"offsetfs.fs.options", "offsetfs.cli.arguments.cluster_copies"} & found == set()
