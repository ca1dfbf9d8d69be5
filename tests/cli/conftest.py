"""What the tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from own_machine import Machine, own_machine


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine of the module's own, on which mount(8) knows offsetfs; see tests/fixtures/own_machine.py."""
    with own_machine(tmp_path_factory.mktemp("machine")) as machine:
        yield machine
