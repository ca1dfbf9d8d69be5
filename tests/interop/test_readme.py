"""The commands of README.md and of docs/use/first-steps.md do what these pages show, in their order."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.machine.free_ports import free_port
from fixtures.pages.commands import commands_of, run_commands
from fixtures.stores import s3_server

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIRST_STEPS = (ROOT / "docs" / "use" / "first-steps.md").read_text()
NOT_RUN = {"Give a partition to a broker", "In Apache Spark"}
"""Sections: the first needs a broker as a service of the system, tests/spark/test_first_steps.py runs the second."""
PLACE = Path(".cache/demo/broker")
"""The log directory that scripts/demo leaves in a checkout, where both pages begin."""
SIZE = {", 14.8 MB": ", … MB"}
"""A record takes one byte more if it was appended 64 ms after the first one of its batch."""


@pytest.fixture
def folder(tmp_path: Path, golden_copy: Path) -> Iterator[Path]:
    """Yield a working directory as after scripts/demo. A mount that a failed command left in it is removed."""
    folder = tmp_path / "here"
    (folder / PLACE.parent).mkdir(parents=True)
    golden_copy.rename(folder / PLACE)
    yield folder
    if os.path.ismount(folder / "mnt"):
        subprocess.run(["fusermount3", "-uz", str(folder / "mnt")], check=False)


def test_the_commands_of_the_readme_do_what_it_shows(folder: Path) -> None:
    section = README.partition("## First commands\n")[2].partition("\n## What it can do")[0]
    commands = commands_of(section)
    assert {"cat", "sql", "table", "serve", "mirror", "archive", "restore"} <= {
        command.split()[1] for command, _ in commands if command.startswith("offsetfs ")
    }
    commands += as_run("kill %1", "")
    with s3_server.running() as server:
        replaced = {"127.0.0.1:9092": f"127.0.0.1:{free_port()}", "BUCKET": s3_server.BUCKET}
        run_commands(commands, folder, {**replaced, **SIZE}, server.environment())
    values = [folder / place / "orders-0" / "00000000000000000000.log" for place in ("logs", "copy", "restored")]
    assert values[0].read_bytes() == values[1].read_bytes() == values[2].read_bytes()


def test_the_commands_of_the_first_steps_do_what_the_page_shows(folder: Path) -> None:
    texts = dict(section.split("\n", 1) for section in FIRST_STEPS.split("\n## ")[1:])
    assert texts.keys() > NOT_RUN
    commands: list[tuple[str, str]] = []
    for title, text in texts.items():
        if title == "From Python":
            program = textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith("    ")))
            commands.append((f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}", ""))
        elif title not in NOT_RUN:
            commands += [each for command in commands_of(text) for each in as_run(*command)]
    assert len(commands) > 45
    ports = {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (9092, 9093)}
    with s3_server.running() as server:
        replaced = {"1000000": "10000", "BUCKET": s3_server.BUCKET, **ports}
        run_commands(commands, folder, replaced, server.environment(), has_all_output=False)


def as_run(command: str, output: str) -> list[tuple[str, str]]:
    """Return a command of the page as a script runs it.

    The output of `ls -l` has the owner, and the time in the zone of the machine. A shell of a script does not wait
    for the end of a killed job.
    """
    if command.startswith("ls -l "):
        return [(command, "")]
    return [(command, output), ("wait", "")] if command.startswith("kill ") else [(command, output)]
