"""Which of a compiled module and its reference is selected."""

import importlib.machinery
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from offsetfs.storage import native

pytestmark = pytest.mark.unit

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "storage" / "native").glob("*.pyx"))


@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_module_is_selected_unless_the_reference_is_asked_for(name: str) -> None:
    package = "reference" if os.environ.get("OFFSETFS_PURE") == "1" else "native"
    assert native.select(name).__name__ == f"offsetfs.storage.{package}.{name}"


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_selected_if_the_environment_asks_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSETFS_PURE", "1")
    assert native.select(name).__name__ == f"offsetfs.storage.reference.{name}"


def test_the_reference_is_selected_if_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSETFS_PURE", raising=False)
    monkeypatch.setattr(native, "__path__", [])
    monkeypatch.delitem(sys.modules, "offsetfs.storage.native.codec", raising=False)
    assert native.select("codec").__name__ == "offsetfs.storage.reference.codec"


@pytest.mark.parametrize("name", sorted(native.LITTLE_ENDIAN_ONLY))
def test_modules_that_read_words_are_not_selected_on_a_big_endian_machine(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OFFSETFS_PURE", raising=False)
    monkeypatch.setattr(sys, "byteorder", "big")
    assert native.select(name).__name__ == f"offsetfs.storage.reference.{name}"


def test_a_module_that_was_compiled_from_older_sources_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSETFS_PURE", raising=False)
    module = native.select("codec")
    with pytest.raises(ImportError, match=r"native\.codec has no newer_function: .* run scripts/setup"):
        _ = module.newer_function
    assert not hasattr(module, "__wrapped__")  # inspect asks any module


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (f"codec{importlib.machinery.EXTENSION_SUFFIXES[0]}", b"not a library", "codec"),
        ("codec.py", b"import a_module_that_is_missing", "imports a_module_that_is_missing.* run scripts/setup"),
    ],
    ids=["no library", "its import is missing"],
)
def test_a_compiled_module_that_does_not_load_is_an_error(
    file: str, content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).write_bytes(content)
    monkeypatch.delenv("OFFSETFS_PURE", raising=False)
    monkeypatch.setattr(native, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "offsetfs.storage.native.codec", raising=False)
    with pytest.raises(ImportError, match=message):
        native.select("codec")


@pytest.mark.parametrize("name", NAMES)
def test_pyproject_names_every_file_that_a_module_includes(name: str) -> None:
    """The source distribution has only those that are named: without one of them it does not compile."""
    root = Path(__file__).parents[2]
    modules = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    named = {
        Path(path).name
        for module in modules
        if module["name"].endswith(f".native.{name}")
        for path in module.get("depends", [])
    }
    source = root / "storage" / "native" / f"{name}.pyx"
    own = source.with_suffix(".pxd")  # Cython reads it without being asked to
    assert named == included(source) | ({own.name} | included(own) if own.exists() else set())


def included(source: Path) -> set[str]:
    text = source.read_text()
    found = {name for name in ("crc32c.h", "find_bytes.h") if f'"{name}"' in text}
    own = source.with_suffix(".pxd")
    found |= {own.name} if own.exists() else set()
    for module in re.findall(r"offsetfs\.storage\.native\.(\w+) cimport", text):
        found |= {f"{module}.pxd"} | included(source.parent / f"{module}.pxd")
    return found
