"""The command that installs the packages of an extra."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

from offsetfs.common.extras import install_command

pytestmark = pytest.mark.unit

REQUIREMENTS = [
    "click>=8.1",
    'pyarrow>=18; extra == "arrow"',
    'offsetfs[arrow]; extra == "sql"',
    'duckdb<3,>=2; extra == "sql"',
    'atheris>=3; python_version < "3.14" and extra == "test"',
]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: REQUIREMENTS)
    monkeypatch.setattr(sys, "executable", "/opt/offsetfs/bin/python")
    monkeypatch.setattr(sys, "prefix", "/opt/offsetfs")


def test_an_extra_is_installed_with_the_interpreter_that_misses_it() -> None:
    assert install_command("sql") == "/opt/offsetfs/bin/python -m pip install 'pyarrow>=18' 'duckdb<3,>=2'"
    assert install_command("test") == "/opt/offsetfs/bin/python -m pip install 'atheris>=3'"


def test_packages_are_injected_into_an_environment_of_pipx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/root/.local/share/pipx/venvs/offsetfs")
    assert install_command("arrow") == "pipx inject offsetfs 'pyarrow>=18'"


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/root/.local/share/uv/tools/offsetfs", "uv tool install --upgrade offsetfs --with 'pyarrow>=18'"),
        ("/usr/lib/offsetfs", "pipx install 'offsetfs[arrow]', beside this package"),
        ("/home/anna/project/.venv", "pip --python /opt/offsetfs/bin/python install 'pyarrow>=18'"),
    ],
)
def test_an_environment_without_pip_is_not_told_to_use_it(
    monkeypatch: pytest.MonkeyPatch, prefix: str, command: str
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert install_command("arrow") == command


def test_an_environment_of_uv_is_told_to_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("arrow") == "uv pip install --python /opt/offsetfs/bin/python 'pyarrow>=18'"


def test_an_extra_without_metadata_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert install_command("sql") == "/opt/offsetfs/bin/python -m pip install 'offsetfs[sql]'"
