"""docs/internals/engine.md: the names of the engine's API are there, load only what they need, and do what it shows."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs import storage

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "engine.md"
DIRECTORY = "/var/lib/kafka/data"


def test_every_name_of_the_api_can_be_imported() -> None:
    assert all(getattr(storage, name) is not None for name in storage.__all__)
    with pytest.raises(AttributeError, match="LogDirectorys"):
        getattr(storage, "Log" + "Directorys")


def test_the_page_has_every_name_of_the_api_and_no_other() -> None:
    table = PAGE.read_text().partition("| name |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(storage.__all__)


def test_a_name_loads_no_more_than_it_needs() -> None:
    program = (
        "import sys, offsetfs.storage\n"
        "loaded = lambda: {name for name in sys.modules if name.startswith('offsetfs.storage.')}\n"
        "assert not loaded()\n"
        "offsetfs.storage.TopicPartition\n"
        "assert len(loaded()) < 5, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_examples_do_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert text.count(DIRECTORY) == 2
    examples = doctest.DocTestParser().get_doctest(text.replace(DIRECTORY, str(tmp_path)), {}, PAGE.name, str(PAGE), 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(examples, out=printed.append, clear_globs=True)
    assert result.attempted > 10 and not result.failed, "".join(printed)
