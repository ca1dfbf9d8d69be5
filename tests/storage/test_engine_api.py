"""docs/internals/engine.md: the names of the engine's API are there, load only what they need, and do what it shows."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "engine.md"
DIRECTORY = "/var/lib/kafka/data"
CORE = importlib.import_module("offsetfs.storage")
PACKAGES = {
    f"offsetfs.storage.{name}": importlib.import_module(f"offsetfs.storage.{name}")
    for name in (
        "coordinators",
        "directory",
        "dump",
        "maintenance",
        "records",
        "security",
        "segments",
        "settings",
        "verify",
        "views",
    )
}


@pytest.mark.parametrize("package", [CORE, *PACKAGES.values()], ids=lambda package: package.__name__)
def test_every_name_of_the_api_can_be_imported(package: ModuleType) -> None:
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="LogDirectorys"):
        getattr(package, "Log" + "Directorys")


@pytest.mark.parametrize("package", [CORE, *PACKAGES.values()], ids=lambda package: package.__name__)
def test_no_name_of_the_api_is_that_of_a_submodule(package: ModuleType) -> None:
    modules = {path.stem for folder in package.__path__ for path in Path(folder).iterdir()}
    assert not modules & set(package.__all__)


def test_the_page_has_every_name_of_the_core_and_no_other() -> None:
    assert _names_below("# The engine's API") == CORE.__all__


@pytest.mark.parametrize("name", PACKAGES)
def test_the_page_has_every_name_of_a_package_and_no_other(name: str) -> None:
    assert _names_below(f"### `{name}`") == PACKAGES[name].__all__


def _names_below(heading: str) -> list[str]:
    """Return the names in the first table below a heading of the page."""
    table = PAGE.read_text().partition(f"\n{heading}\n" if heading.startswith("###") else heading)[2]
    lines = table.partition("| name |")[2].partition("\n\n")[0].splitlines()[2:]
    return sorted(name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1]))


def test_the_page_has_every_subpackage_that_has_an_api() -> None:
    with_names = {path.parent.name for path in Path(CORE.__path__[0]).glob("*/__init__.pyi")}
    assert with_names == {name.rpartition(".")[2] for name in PACKAGES}


def test_a_name_loads_no_more_than_it_needs() -> None:
    program = (
        "import sys, offsetfs.storage\n"
        "loaded = lambda: {name for name in sys.modules if name.startswith('offsetfs.storage.')}\n"
        "assert not loaded(), loaded()\n"
        "offsetfs.storage.TopicPartition\n"
        "assert len(loaded()) < 6, loaded()\n"
        "from offsetfs.storage import directory, maintenance, records, segments, settings, verify, views\n"
        "assert len(loaded()) < 13, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_examples_do_what_the_page_states(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert text.count(DIRECTORY) == 2
    examples = doctest.DocTestParser().get_doctest(text.replace(DIRECTORY, str(tmp_path)), {}, PAGE.name, str(PAGE), 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(examples, out=printed.append, clear_globs=True)
    assert result.attempted > 10 and not result.failed, "".join(printed)
