"""The commands of README.md and of docs/use/first-steps.md do what these pages show, in their order."""

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

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIRST_STEPS = (ROOT / "docs" / "use" / "first-steps.md").read_text()
SECTIONS = [
    "Inspect a broker's directory",
    "Write a log of your own",
    "Without a mount",
    "Serve Kafka clients",
    "Inspect and check files",
    "With SQL, and in a database",
    "Settings, retention, deletion",
]
NOT_RUN = ("ls -l ", "offsetfs follow ")
"""`ls -l` prints the owner and, in the zone of the machine, the time; `follow` does not end."""
PLACE = "/var/lib/kafka/data"
SIZE = {", 14.8 MB": ", … MB"}
"""A record takes one byte more if it was appended 64 ms after the first one of its batch."""


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
        run_commands(commands, folder, {**replaced, **SIZE}, server.environment())
    values = [folder / place / "orders-0" / "00000000000000000000.log" for place in ("logs", "copy", "restored")]
    assert values[0].read_bytes() == values[1].read_bytes() == values[2].read_bytes()


def test_the_commands_of_the_first_steps_do_what_the_page_shows(folder: Path, golden_copy: Path) -> None:
    texts = dict(section.split("\n", 1) for section in FIRST_STEPS.split("\n## "))
    commands = [each for section in SECTIONS for each in commands_of(texts[section])]
    commands = [each for each in commands if not each[0].startswith(NOT_RUN)]
    assert len(commands) > 30
    at = commands.index(("kill %1                                          # writes and syncs everything", ""))
    commands.insert(at + 1, ("wait", ""))
    replaced = {PLACE: str(golden_copy), "127.0.0.1:9092": f"127.0.0.1:{free_port()}", "1000000": "10000"}
    run_commands(commands, folder, replaced, {}, has_all_output=False)
