"""Every file and function of the code that README, CONTRIBUTING or a page of docs names exists."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def named(page: Path) -> list[tuple[str, str]]:
    """Return each `path.py:name` of the page; the name is that of a class, function or method."""
    return sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", page.read_text())))


@functools.cache
def definitions(path: str) -> frozenset[str]:
    return frozenset(_defined(ast.parse((ROOT / path).read_text()), ""))


def _defined(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name
            if isinstance(child, ast.ClassDef):
                yield from _defined(child, f"{prefix}{child.name}.")


@pytest.mark.parametrize("page", [page for page in PAGES if named(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_functions_that_exist(page: Path) -> None:
    assert [path for path, _ in named(page) if not (ROOT / path).is_file()] == []
    assert [f"{path}:{name}" for path, name in named(page) if name not in definitions(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_that_exist(page: Path) -> None:
    paths = re.findall(r"`((?:\w+/)+[\w-]+\.(?:pyx?|pxd))(?::[\w.]+)?`", page.read_text())
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_the_lives_of_eight_operations_are_traced() -> None:
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    titles = ["`cat orders-0/42`", "`cat orders-0/values`", "`echo hello >> orders-0/append`", "A Produce request"]
    for title in [*titles, "A Fetch request", "A roll", "A recovery", "A Spark task"]:
        steps = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
        assert len(re.findall(r"^\d+\. ", steps, re.MULTILINE)) >= 4, title
        assert re.search(r"`[\w/]+\.py:[\w.]+`", steps), title


def test_what_may_not_await_awaits_nothing() -> None:
    """The functions that the page on concurrency lists as free of `await` are so."""
    page = (ROOT / "docs" / "internals" / "concurrency.md").read_text()
    section = page.partition("## What may not await\n")[2].partition("\n## ")[0]
    found = [
        (path, name)
        for path, name in re.findall(r"`([\w/]+\.py):([\w.]+)`", section)
        if name.rpartition(".")[2] in ("split", "append", "close", "poll")
    ]
    assert len(found) >= 5
    for path, name in found:
        tree: ast.AST = ast.parse((ROOT / path).read_text())
        for part in name.split("."):
            tree = next(node for node in ast.iter_child_nodes(tree) if getattr(node, "name", None) == part)
        assert isinstance(tree, ast.FunctionDef), f"{path}:{name} may await"
