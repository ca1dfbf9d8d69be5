"""A public class name occurs once in the project."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
KAFKAS = ("kafka/protocol/messages/*.py", "kafka/protocol/metadata_records.py", "kafka/protocol/records.py")
"""Classes that are generated, with the names that Kafka gives its messages."""
PACKAGES = (
    "archive",
    "cli",
    "common",
    "fs",
    "kafka",
    "pipeline",
    "answers",
    "schemas",
    "scripts",
    "src/offsetfs",
    "storage",
    "tables",
    "web",
)


@functools.cache
def places() -> dict[str, list[str]]:
    """Return the modules of each public class, by its name; nested classes and functions' own classes are left out."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if any(path.match(each) for each in KAFKAS):
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return dict(found)


@pytest.mark.long
def test_a_public_class_name_occurs_once() -> None:
    assert len(places()) > 300
    assert {name: where for name, where in places().items() if len(where) > 1} == {}
