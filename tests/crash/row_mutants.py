"""Row 18: are the tests any good? Each known mistake, put into a copy of our code, is caught by the test named for it.

The test fails of the mistake by an assertion of its own, and passes without. The copy stands before the package that is
installed; `mutants` has the table. The row of power cuts on a real disk is played with a writer under `eatmydata`,
whose syncs do nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from xml.etree import ElementTree

import row_power_cut
from disks import NEEDS, memory
from fault_program import FOLDER, Row
from mutants import MUTANTS, Mutant

ROOT = FOLDER.parents[1]
PARTS = 4
"""A seed plays so much of the mistakes: every fourth, and the power cuts among the last."""

SECONDS_MAX = 120
_PACKAGE = ROOT / "src" / "offsetfs"
_RUN = """
import sys, offsetfs.storage, pytest
assert offsetfs.storage.__file__.startswith(sys.argv[1]), offsetfs.storage.__file__
sys.exit(pytest.main(sys.argv[2:]))
"""
_OF_A_TEST = ("AssertionError", "assert ", "Failed: ", "DID NOT RAISE")
"""What the message of a failure begins with where a test asked, and did not just stumble."""


def play(seed: int, scratch: Path) -> int:
    """Make a part of the mistakes, each by itself; return how many there were. All of them were caught."""
    part = seed % PARTS
    chosen = MUTANTS[part::PARTS]
    with memory(scratch) as folder:
        package = copied(folder)
        _pass_without(chosen, package, folder)
        survivors = [reported for mutant in chosen if (reported := _survives(mutant, package, folder))]
    assert survivors == [], "\n".join(["what no test notices:", *survivors])
    if part != PARTS - 1:
        return len(chosen)
    _cut_power_under_a_liar(seed, scratch)
    return len(chosen) + 1


# --- a copy of the package -------------------------------------------------------------------------------------------


def copied(scratch: Path) -> Path:
    """Copy the package, compiled modules and all; return what is to stand on PYTHONPATH."""
    target = scratch / "src" / "offsetfs"
    shutil.copytree(_PACKAGE, target, ignore=shutil.ignore_patterns("*.c", "*.h", "*.pyx", "*.pxd"))
    return target.parent


def _survives(mutant: Mutant, package: Path, scratch: Path) -> str:
    """Run the test with the mistake in the code; return what is wrong with how it ends, if anything."""
    file = package / "offsetfs" / mutant.file
    before, times = file.read_text(), file.stat()
    file.write_text(mutant.applied(before))
    os.utime(file, (0, 0))  # what was compiled of it is of another time
    try:
        ends = _run([mutant.test], package, scratch)
    finally:
        file.write_text(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    if any(end.startswith(_OF_A_TEST) for end in ends.values()):
        return ""
    return f"{mutant.name} ({mutant.file}): {mutant.test} ends with {ends}"


def _pass_without(chosen: Collection[Mutant], package: Path, scratch: Path) -> None:
    ends = _run(sorted({mutant.test for mutant in chosen}), package, scratch)
    failures = {test: end for test, end in ends.items() if end}
    assert failures == {}, f"without any mistake: {failures}"


def _run(tests: Collection[str], package: Path, scratch: Path) -> dict[str, str]:
    """Run tests with the package there; return how each ended: "" where it passed, else how its failure begins."""
    report = scratch / "report.xml"
    report.unlink(missing_ok=True)
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={scratch / 'tests'}", f"--junit-xml={report}"]
    run = subprocess.run(
        [sys.executable, "-B", "-c", _RUN, str(package), *options, *tests],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert run.returncode in (0, 1) and report.exists(), f"{tests}: {run.stdout[-3000:]}\n{run.stderr[-3000:]}"
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) >= len(tests), f"not all of {tests} were run: {run.stdout[-3000:]}"
    return {str(case.get("name")): _end_of(case) for case in cases}


def _end_of(case: ElementTree.Element) -> str:
    """What is no failure but an error comes from outside of the test: an import, a fixture."""
    for kind in ("error", "skipped", "failure"):
        found = case.find(kind)
        if found is not None:
            message = str(found.get("message"))
            return message[:300] if kind == "failure" else f"{kind}: {message[:300]}"
    return ""


# --- a disk that lies ------------------------------------------------------------------------------------------------


def _cut_power_under_a_liar(seed: int, scratch: Path) -> None:
    """Let the row of power cuts find out a writer that synced nothing."""
    folder = scratch / "liar"
    folder.mkdir()
    try:
        row_power_cut.play_with(seed, folder, ["eatmydata"])
    except AssertionError as finding:
        assert any(word in str(finding) for word in ("were promised", "/history.py")), finding  # it is the check's own
    else:
        raise AssertionError("the power was cut under a writer that synced nothing, and nothing was found")


ROW = Row(
    18,
    "mutants",
    "our own code with a known mistake in it",
    play,
    seeds_in_ci=range(PARTS),
    goal=len(MUTANTS) + 1,
    unit="mistakes",
    needs=(*NEEDS, "eatmydata"),
)
