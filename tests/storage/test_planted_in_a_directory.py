"""What is planted where a log directory keeps its own files is refused by name, and nothing waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.storage import lock
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit

FILES = (
    ".lock",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, other: path.symlink_to(other),
    "a link to nothing": lambda path, other: path.symlink_to(other.parent / "made"),
    "a FIFO": lambda path, other: os.mkfifo(path),
    "a directory": lambda path, other: path.mkdir(),
}


@pytest.mark.security(
    "A link, FIFO, socket, device or directory in place of a file is never followed, waited for or written through."
)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("plant", PLANTS)
def test_it_is_refused_by_name(tmp_path: Path, name: str, plant: str) -> None:
    other = tmp_path / "other"
    other.write_text("not to be touched")
    log = tmp_path / "log"
    log.mkdir()
    PLANTS[plant](log / name, other)
    with pytest.raises(OSError, match=r"regular file|Is a directory") as caught:
        LogDirectory.open(str(log))
    assert caught.value.filename == str(log / name)
    assert other.read_text() == "not to be touched"
    assert sorted(os.listdir(tmp_path)) == ["log", "other"]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_query_for_the_holder_of_the_lock_does_not_wait_for_it(tmp_path: Path, plant: str) -> None:
    PLANTS[plant](tmp_path / lock.NAME, tmp_path)
    assert lock.writer_of(str(tmp_path)) is None
