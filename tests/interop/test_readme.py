"""The commands of README.md do what it shows, in their order."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3_server
from free_ports import free_port
from page_commands import commands_of, run_commands

pytestmark = pytest.mark.interop

README = (Path(__file__).parents[2] / "README.md").read_text()
PLACE = "/var/lib/kafka/data"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a working directory. A mount that a failed command left in it is removed."""
    folder = tmp_path / "here"
    folder.mkdir()
    yield folder
    if os.path.ismount(folder / "mnt"):
        subprocess.run(["fusermount3", "-uz", str(folder / "mnt")], check=False)


def test_the_commands_of_the_readme_do_what_it_shows(folder: Path, golden_copy: Path) -> None:
    section = README.partition("## First commands\n")[2].partition("\n## What it can do")[0]
    commands = commands_of(section)
    assert {"cat", "sql", "table", "serve", "mirror", "archive", "restore"} <= {
        command.split()[1] for command, _ in commands if command.startswith("offsetfs ")
    }
    commands.append(("kill %1; wait", ""))
    with s3_server.running() as server:
        replaced = {PLACE: str(golden_copy), "127.0.0.1:9092": f"127.0.0.1:{free_port()}", "BUCKET": s3_server.BUCKET}
        run_commands(commands, folder, replaced, server.environment())
    values = [folder / place / "orders-0" / "00000000000000000000.log" for place in ("logs", "copy", "restored")]
    assert values[0].read_bytes() == values[1].read_bytes() == values[2].read_bytes()
