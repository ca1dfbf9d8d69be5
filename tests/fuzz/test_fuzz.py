"""Five seconds of fuzzing for each parser, with the same inputs on every run; `scripts/soak fuzz` finds new ones."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets import TARGETS

pytestmark = pytest.mark.fuzz

SECONDS = 5
SECONDS_MAX = 240
FOLDER = Path(__file__).parent
Campaign = Callable[[Path, str], int]


@pytest.fixture(scope="session")
def campaign() -> Iterator[Campaign]:
    """Fuzz a parser, in a child of a process of the session; return the exit code."""
    fixed = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(FOLDER / "fuzz_campaign.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=fixed, start_new_session=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        answers = process.stdout

        def run(output: Path, name: str) -> int:
            print(json.dumps([str(output), name, str(SECONDS), "-seed=1"]), file=process.stdin, flush=True)
            ending = threading.Timer(SECONDS_MAX, os.killpg, (process.pid, signal.SIGKILL))
            ending.start()
            try:
                return int(answers.readline() or -signal.SIGKILL)
            finally:
                ending.cancel()

        yield run
        process.stdin.close()


@pytest.mark.security(
    "Hostile bytes lead to a specific error, never to a crash, an endless loop or the bytes of another record."
)
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_end_in_named_errors(name: str, campaign: Campaign, tmp_path: Path) -> None:
    output = tmp_path / "output"
    code = campaign(output, name)
    printed = output.read_text(errors="replace")
    assert code == 0 and "stat::number_of_executed_units" in printed, printed[-4000:]


def test_what_was_once_found_stays_mended() -> None:
    found = {path: path.read_bytes() for path in (FOLDER / "corpus").glob("*/*")}
    assert [path for path, data in found.items() if TARGETS[path.parent.name](data) is not None] == []
