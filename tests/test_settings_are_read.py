"""Each of Kafka's settings that is said to have an effect is read by the product, and the others by nothing."""

import ast
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from offsetfs.kafka.broker.settings import SETTING_KINDS, field_of
from offsetfs.storage.settings import DIRECTORY_SETTING_NAMES, TOPIC_SETTING_NAMES, TOPIC_SETTINGS_WITHOUT_EFFECT
from offsetfs.storage.settings.config import LogConfig

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "answers",
    "archive",
    "cli",
    "common",
    "fs",
    "kafka",
    "pipeline",
    "schemas",
    "src/offsetfs",
    "storage",
    "tables",
    "web",
)


@cache
def attributes_read() -> frozenset[str]:
    """The names after a dot that the modules of the product read."""
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(modules) > 300
    nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_bytes())))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


EFFECTIVE = {
    "topics": set(TOPIC_SETTING_NAMES) - TOPIC_SETTINGS_WITHOUT_EFFECT,
    "directories": set(DIRECTORY_SETTING_NAMES),
    "the server": set(SETTING_KINDS),
}


@pytest.mark.parametrize("names", EFFECTIVE.values(), ids=EFFECTIVE)
def test_a_setting_with_an_effect_is_read(names: set[str]) -> None:
    assert {name for name in names if field_of(name) not in attributes_read()} == set()


def test_a_setting_without_effect_is_read_by_nothing() -> None:
    assert {name for name in TOPIC_SETTINGS_WITHOUT_EFFECT if field_of(name) in attributes_read()} == set()
    assert {field_of(name) for name in TOPIC_SETTINGS_WITHOUT_EFFECT} < {each.name for each in fields(LogConfig)}
