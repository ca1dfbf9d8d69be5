"""The section on Spark of docs/use/first-steps.md: its lines of Python and its commands, in the session of the run."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
from fixtures.pages.commands import commands_of

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "use" / "first-steps.md").read_text()
SECTION = PAGE.partition("\n## In Apache Spark\n")[2].partition("\n## ")[0]


def test_the_first_steps_in_spark_read_write_and_export(spark: Any, golden_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with offsetfs.open(tmp_path / "logs", "a") as logs:
        logs.create("orders")
    section = SECTION.replace(".cache/demo/broker", str(golden_copy))
    code, commands = section.partition("    $ ")[0], commands_of(section)
    exec(textwrap.dedent(code).replace('"logs"', repr(str(tmp_path / "logs"))), {"spark": spark})
    with offsetfs.open(tmp_path / "logs") as logs:
        assert logs.topic("copied").arrow().read_all().num_rows == 400
    assert len(commands) == 2
    for command, _ in commands:
        words = shlex.split(command.replace(" parquet", f" {tmp_path / 'parquet'}"))
        assert words.pop(0) == "offsetfs"
        assert run(words) == 0
    assert len(list((tmp_path / "parquet").rglob("*.parquet"))) == 4
