"""The packages whose names are loaded late: each stub has the form that is read, and its names are there."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
STUBS = {
    ".".join(path.parent.relative_to(SOURCE).parts): path
    for pattern in ("*", "*/*", "*/*/*", "*/*/*/*")  # `**` follows no links
    for path in SOURCE.glob(f"{pattern}/__init__.pyi")
}
LINE = re.compile(r"from (offsetfs(?:\.\w+)+) import (\w+) as (\2)")


@pytest.mark.parametrize("package", STUBS)
def test_each_line_of_a_stub_imports_one_name(package: str) -> None:
    for line in STUBS[package].read_text().splitlines():
        assert LINE.fullmatch(line), line


@pytest.mark.parametrize("package", STUBS)
def test_each_name_of_a_stub_is_that_of_its_module(package: str) -> None:
    found = importlib.import_module(package)
    lines = LINE.findall(STUBS[package].read_text())
    assert found.__all__ == sorted(name for _, name, _ in lines)
    for module, name, _ in lines:
        assert getattr(found, name) is getattr(importlib.import_module(module), name)
        assert name in vars(found)  # it is looked up once


@pytest.mark.parametrize("package", STUBS)
def test_a_name_that_a_stub_does_not_have_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing


def test_the_library_the_engine_and_the_messages_have_stubs() -> None:
    assert {"offsetfs", "offsetfs.storage", "offsetfs.storage.views", "offsetfs.kafka.protocol.messages"} <= set(STUBS)


def test_a_package_publishes_no_names_of_packages_above() -> None:
    """import-linter reads no stubs."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (engine,) = (each for each in contracts if each["name"].startswith("The packages of the engine"))
    heights = {name: -number for number, line in enumerate(engine["layers"]) for name in line.split(" : ")}
    assert heights.keys() & STUBS.keys()
    for package in heights.keys() & STUBS.keys():
        for module, _, name in LINE.findall(STUBS[package].read_text()):
            other = ".".join(module.split(".")[:3])
            assert other == package or heights.get(other, min(heights.values()) - 1) < heights[package], name
