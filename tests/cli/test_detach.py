"""The background process that a command leaves: what it takes over from its parent."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from offsetfs.cli.mounts.detach import ParentPipe, detach
from offsetfs.storage import files

pytestmark = pytest.mark.unit


def test_files_of_the_parent_close_nothing_in_the_background_process(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "new").write_bytes(b"new")
    gc.disable()
    try:
        cycle: list[object] = []
        cycle += [cycle, *(files.open_file(str(tmp_path / "old")) for _ in range(20))]
        del cycle

        def work(word: ParentPipe) -> int:
            opened = [os.open(tmp_path / "new", os.O_RDONLY) for _ in range(40)]  # they get the numbers of old
            gc.collect()
            read = {os.pread(number, 3, 0) for number in opened}
            (tmp_path / "read").write_bytes(b"".join(read))
            word.ready()
            return 0

        assert detach(work, lambda text: None) == 0
    finally:
        gc.enable()
        gc.collect()
    assert (tmp_path / "read").read_bytes() == b"new"
