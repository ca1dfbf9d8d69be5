"""docs/use/sql.md: every statement of its recipes has the result that the page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import offsetfs
from offsetfs.cli.sql.rows_text import table_lines
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import CommittedOffset, commit_key, commit_value
from offsetfs.storage.records.format.batch import build
from offsetfs.tables.sql.session import SqlSession

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs" / "use" / "sql.md").read_text()
EXAMPLES = re.findall(r"^    offsetfs> (.*?;)\n((?:    [^\n]*\n)+)", PAGE, re.MULTILINE | re.DOTALL)
HOUR = 3_600_000
TIME = 1_795_266_000_000
"""2026-11-21T13:00 UTC."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlSession]:
    """Users, their orders, and a group that has read a part of the orders."""
    path = tmp_path_factory.mktemp("shop")
    with offsetfs.open(path, "a") as data:
        (users,) = data.create("users", 1, {"retention.ms": "-1"})
        users.extend(
            offsetfs.NewRecord(value, key, (), TIME)
            for key, value in (
                (b"u1", b'{"name": "Ada"}'),
                (b"u2", b'{"name": "Bob"}'),
                (b"u3", b'{"name": "Cem"}'),
                (b"u1", b'{"name": "Ada B."}'),
                (b"u3", None),
            )
        )
        orders = data.create("orders", 2, {"retention.ms": "-1"})
        for number in range(10):
            user, amount = number % 3 + 1, 10.5 + number
            orders[user % 2].append(
                json.dumps({"user": f"u{user}", "amount": amount}).encode(),
                key=b"o%d" % number,
                headers=[("trace", b"first"), ("trace", b"t%d" % number)] if number % 2 else [],
                timestamp=TIME + number * HOUR // 4,
            )
    with closing(LogDirectory.open(str(path))) as directory:
        commits = [
            (commit_key("billing", TopicPartition("orders", partition)), commit_value(commit), (), TIME)
            for partition, commit in enumerate((CommittedOffset(2, -1, "", TIME), CommittedOffset(6, -1, "", TIME)))
        ]
        log = directory.create_partition(TopicPartition("__consumer_offsets", 0))
        log.append_replicated(bytes(build(commits, base_offset=0, leader_epoch=0)))
    with closing(LogDirectory.open(str(path), read_only=True)) as directory, SqlSession(directory) as session:
        session.run("SET TimeZone = 'UTC'")
        yield session


def test_the_page_has_recipes() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize(("typed", "shown"), EXAMPLES)
def test_the_recipes_have_the_results_of_the_page(shop: SqlSession, typed: str, shown: str) -> None:
    statement = re.sub(r"\n    +-> ", "\n", typed)
    lines = list(table_lines(shop.run(statement)))
    assert lines == [line.removeprefix("    ") for line in shown.splitlines()]
