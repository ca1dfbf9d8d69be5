"""Each option of a command is on the page of the command, and each option that a page names exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest

from offsetfs.cli import VERBS

pytestmark = pytest.mark.unit

USE = Path(__file__).parents[1] / "docs" / "use"
PAGES = {
    "archive": ("archive.md",),
    "mirror": ("mirror.md",),
    "restore": ("mirror.md", "archive.md"),
    "schemas": ("schemas.md",),
    "serve": ("kafka-protocol.md",),
    "spark export": ("spark.md",),
    "spark import": ("spark.md",),
    "spark repartition": ("spark.md",),
    "spark stats": ("spark.md",),
    "spark tail": ("spark.md",),
    "sql": ("sql.md",),
    "table sync": ("tables.md",),
    "table load": ("tables.md",),
    "verify": ("verify.md",),
    "repair": ("verify.md",),
}
"""The commands whose options are all on a page. The help of the other commands has options that no page repeats."""


def options() -> dict[str, set[str]]:
    """Return the names of the options of each command, without --help."""
    found: dict[str, set[str]] = {}
    for verb in VERBS:
        command = importlib.import_module(f"offsetfs.cli.commands.{verb.replace('-', '_')}").command
        parts = {verb: command}
        if isinstance(command, click.Group):
            parts = {f"{verb} {name}": each for name, each in command.commands.items()}
        for name, part in parts.items():
            found[name] = {
                option
                for each in part.params
                if isinstance(each, click.Option)
                for option in (*each.opts, *each.secondary_opts)
            }
    return found


@pytest.mark.parametrize("command", PAGES)
def test_each_option_is_on_the_page_of_its_command(command: str) -> None:
    page = "\n".join((USE / name).read_text() for name in PAGES[command])
    names = options()[command]
    short = {"--file": "-f", "--param": "-p", "--output": "-o", "--verbose": "-v"}
    missing = [name for name in names if name not in page and short.get(name, name) not in page]
    assert missing == []


def test_a_command_on_a_page_has_the_options_that_it_is_called_with() -> None:
    known = options()
    wrong = []
    for page in sorted(USE.glob("*.md")):
        for line in re.findall(r"^    (?:\$ )?offsetfs (.*)$", page.read_text(), re.MULTILINE):
            words = re.split(r"  +|\s[|>&]", line)[0].split()
            name = next((each for each in (" ".join(words[:2]), words[0]) if each in known), "")
            given = {word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][\w.-]*(=.*)?", word)}
            wrong += [(page.name, line) for option in given if option not in {*known.get(name, ()), "--help"}]
    assert wrong == []
