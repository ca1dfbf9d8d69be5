"""Row 12: hostile bytes, for every parser there is.

The targets and their runner are those of tests/fuzz, where a run of the tests gives each of them five seconds. A round
of this row gives one of them a few, with a seed of its own, under a limit of memory: a parser that allocates what a
length field says would take the machine with it.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

from fault_program import Row
from targets import TARGETS

RUNNER = Path(__file__).parents[1] / "fuzz" / "fuzz_campaign.py"
SECONDS = 5
MEMORY_BYTES_MAX = 4 << 30
"""Of addresses: an interpreter with all of its libraries takes one of these gigabytes."""

_RUNS = re.compile(r"stat::number_of_executed_units: *(\d+)")


def play(seed: int, scratch: Path) -> int:
    """Fuzz one target, which the seed decides; return the number of inputs."""
    target = list(TARGETS)[seed % len(TARGETS)]
    done = subprocess.run(
        [sys.executable, RUNNER, target, str(SECONDS), f"-seed={seed % 2**31 + 1}", f"-artifact_prefix={scratch}/"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS + 300,  # the imports alone take ten seconds of processor time
        check=False,
        preexec_fn=_limit_memory,
    )
    runs = _RUNS.search(done.stderr)
    assert done.returncode == 0 and runs, f"target {target}: {done.stderr[-4000:]}"
    return int(runs[1])


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


ROW = Row(
    12,
    "hostile_bytes",
    "bytes that were made to do harm",
    play,
    seeds_in_ci=range(2),
    goal=1_000_000,
    unit="inputs",
    promises=("Memory, open files and the time per request are bounded, whatever the files contain.",),
)
