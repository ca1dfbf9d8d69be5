"""Names of directories that wait for their removal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies

from offsetfs.storage.directory.partition_directories import is_deleted

pytestmark = pytest.mark.unit

_KAFKA = re.compile(r"\S+-\S+\.\S+-delete\Z")


@given(strategies.text("a-. ", max_size=8).map(lambda text: text + "-delete"))
def test_deleted_directories_are_those_that_kafka_takes_for_deleted(name: str) -> None:
    assert is_deleted(name) == (_KAFKA.match(name) is not None)
    assert not is_deleted(name + "d")
