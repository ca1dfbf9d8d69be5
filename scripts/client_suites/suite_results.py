"""The recorded results of suites: which tests pass with Kafka and which with offsetfs.

The tests that have passed with offsetfs are the allow-list of a suite. It only grows: a later failure of one of them is
an error of the run, and is not recorded.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sides import SIDES, Side
from suite import Outcome, Suite

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "evidence" / "client-suites"


@dataclass(frozen=True, slots=True)
class TestResult:
    """How a test ended, and after how many seconds."""

    outcome: Outcome
    seconds: float

    def __str__(self) -> str:
        return f"{self.outcome} {self.seconds:g} s"


SuiteResults = Mapping[str, Mapping[Side, TestResult]]
"""By test and broker."""


def read(name: str) -> SuiteResults:
    """Return the recorded results of a suite."""
    path = _path(name)
    if not path.exists():
        return {}
    tests = json.loads(path.read_text())["tests"]
    return {
        test: {side: TestResult(Outcome(entry[side][0]), entry[side][1]) for side in SIDES if side in entry}
        for test, entry in tests.items()
    }


def passing(recorded: SuiteResults) -> frozenset[str]:
    """Return the allow-list: the tests that have passed with offsetfs."""
    sides = ((test, entry.get("offsetfs")) for test, entry in recorded.items())
    return frozenset(test for test, result in sides if result is not None and result.outcome is Outcome.PASS)


def record(suite: Suite, side: Side, test: str, result: TestResult) -> SuiteResults:
    """Store a result and return all of the suite. A test that has passed keeps that result."""
    FOLDER.mkdir(exist_ok=True)
    with _locked(FOLDER):  # runs against both brokers may record at the same time
        recorded = {name: dict(entry) for name, entry in read(suite.name).items()}
        entry = recorded.setdefault(test, {})
        if side not in entry or entry[side].outcome is not Outcome.PASS:
            entry[side] = result
        lines = [f"{json.dumps(name)}: {_json(sides)}" for name, sides in sorted(recorded.items())]
        text = f'{{"version": {json.dumps(suite.version)}, "tests": {{\n' + ",\n".join(lines) + "\n}}\n"
        _path(suite.name).write_text(text)
    return recorded


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _json(entry: Mapping[Side, TestResult]) -> str:
    return json.dumps({side: [result.outcome, result.seconds] for side, result in sorted(entry.items())})


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"
