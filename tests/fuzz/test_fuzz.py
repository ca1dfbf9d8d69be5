"""Ten seconds of fuzzing for each parser, with the same inputs on every run; `scripts/soak fuzz` finds new ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from targets import TARGETS

pytestmark = pytest.mark.fuzz

SECONDS = 10
FOLDER = Path(__file__).parent


@pytest.mark.security(
    "Hostile bytes lead to a specific error, never to a crash, an endless loop or the bytes of another record."
)
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_end_in_named_errors(name: str) -> None:
    run = [sys.executable, str(FOLDER / "fuzz_campaign.py"), name, str(SECONDS), "-seed=1"]
    fixed = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        run, capture_output=True, text=True, errors="replace", timeout=SECONDS + 60, check=False, env=fixed
    )
    assert done.returncode == 0 and "stat::number_of_executed_units" in done.stderr, done.stderr[-4000:]


def test_what_was_once_found_stays_mended() -> None:
    found = {path: path.read_bytes() for path in (FOLDER / "corpus").glob("*/*")}
    assert [path for path, data in found.items() if TARGETS[path.parent.name](data) is not None] == []
