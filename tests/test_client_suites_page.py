"""docs/evidence/client-suites.md has the figures of the recorded results and a reason for each test that fails here.

What has passed with `offsetfs` in any commit is in the lists still.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
PAGE = (EVIDENCE / "client-suites.md").read_text()
Results = dict[str, dict[str, list[str | float]]]
SUITES: dict[str, Results] = {
    path.stem: json.loads(path.read_text())["tests"] for path in (EVIDENCE / "client-suites").glob("*.json")
}


def passing(tests: Results, side: str) -> set[str]:
    return {test for test, sides in tests.items() if sides.get(side, [""])[0] == "pass"}


def test_the_page_has_the_figures_of_the_recorded_results() -> None:
    rows = re.findall(r"^\| ([\w-]+) [^|]*\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: tuple(map(int, figures)) for name, *figures in rows} == {
        suite: (
            len(tests),
            len(passing(tests, "kafka")),
            len(passing(tests, "offsetfs")),
            len(passing(tests, "kafka") - passing(tests, "offsetfs")),
        )
        for suite, tests in SUITES.items()
    }


def test_the_page_has_a_reason_for_each_test_that_passes_with_kafka_only() -> None:
    named = set(re.findall(r"^\| ([\w-]+) ([\w.-]+) \| [^\d|][^|]+ \|$", PAGE, re.MULTILINE))
    assert named == {
        (suite, test)
        for suite, tests in SUITES.items()
        for test in passing(tests, "kafka") - passing(tests, "offsetfs")
    }


def test_a_test_that_has_passed_stays_in_the_allow_list() -> None:
    command = ["git", "log", "--format=", "--patch", "--unified=0", "--", "docs/evidence/client-suites"]
    history = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    suite, passed = "", set()
    for line in history.splitlines():
        if line.startswith(("--- a/", "+++ b/")):
            suite = Path(line).stem
        elif match := re.match(r'[-+]"([^"]+)": .*"offsetfs": \["pass"', line):
            passed.add((suite, match[1]))
    assert passed <= {(suite, test) for suite, tests in SUITES.items() for test in passing(tests, "offsetfs")}
