"""docs/use/library.md: every example on the page does what it says there, and every error on it is one."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import offsetfs

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs" / "use" / "library.md"
PLACE = "/var/lib/kafka/data"
BEGINNING_MS = 1_795_266_300_000
"""2026-11-21T13:05 UTC."""


@pytest.mark.long
def test_the_examples_do_what_the_page_states(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        orders, _ = data.create("orders", 2)
        data.create("users")[0].extend(
            [
                offsetfs.NewRecord(b'{"name": "Ada"}', b"u1", [("trace", b"abc")], BEGINNING_MS),
                offsetfs.NewRecord(b'{"name": "Bob"}', b"u2", (), BEGINNING_MS),
            ]
        )
        orders.extend(
            offsetfs.NewRecord(b"value %d" % n, b"k%d" % (n % 10), (), BEGINNING_MS + 1000 * n) for n in range(100)
        )
    text = PAGE.read_text()
    assert text.count(PLACE) >= 5
    examples = doctest.DocTestParser().get_doctest(text.replace(PLACE, str(tmp_path)), {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 15
    said: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(examples, out=said.append, clear_globs=True).failed
    assert not failed, "".join(said)


def test_every_error_on_the_page_is_one() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text().partition("## Errors")[2], re.MULTILINE)
    names = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(names) > 10
    assert all(issubclass(getattr(offsetfs.errors, name), offsetfs.errors.StorageError) for name in names)
