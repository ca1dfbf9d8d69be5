"""What the tests of commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.machine.own_machine import Machine, own_machine
from fixtures.mounts.left_mounts import unmount

import offsetfs


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine of the module's own, on which mount(8) knows offsetfs; see tests/fixtures/machine/own_machine.py."""
    with own_machine(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log directory with the topic `orders` of two partitions."""
    path = tmp_path / "log"
    path.mkdir()
    with offsetfs.open(path, "a") as data:
        data.create("orders", 2)
    return path


@pytest.fixture
def mnt(tmp_path: Path) -> Iterator[Path]:
    """A mount point; what is mounted there is unmounted at the end."""
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    if os.path.ismount(path):
        unmount(path)
