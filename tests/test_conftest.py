"""The ground that tests stand on: a watched log, tests that have a class, golden logs to read and to change."""

import os
import re
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.logs import left_logs
from fixtures.machine import free_ports
from fixtures.plugins.order_of_tests import group_by_session, longest_first
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import retention
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.unit
pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parent / "conftest.py"

INNER_TESTS = """
import logging

import pytest

LOG = logging.getLogger("here")
pytestmark = pytest.mark.unit


@pytest.fixture
def logs_at_start():
    LOG.error("abc")


@pytest.fixture
def logs_at_end():
    yield
    LOG.error("abc")


def test_silent():
    pass


def test_information():
    LOG.info("abc")


def test_warning():
    LOG.warning("abc")


def test_expected(expect_log):
    expect_log("^WARNING here: abc$")
    LOG.warning("abc")


@pytest.mark.expect_log("abc")
def test_expected_by_marker(logs_at_start):
    LOG.error("abcd")


def test_one_of_two_expected(expect_log):
    expect_log("abc")
    LOG.error("abc")
    LOG.error("xyz")


def test_expected_and_missing(expect_log):
    expect_log("abc")


def test_error_in_a_fixtures_start(logs_at_start):
    pass


def test_error_in_a_fixtures_end(logs_at_end):
    pass


@pytest.mark.mount
def test_two_classes():
    pass


def leave_damage(tmp_path):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(b"x" * 100)


def test_damage_is_left(tmp_path):
    leave_damage(tmp_path)


@pytest.mark.damages
def test_damage_is_left_on_purpose(tmp_path):
    leave_damage(tmp_path)
"""

OUTCOMES = {
    "test_silent": {"PASSED"},
    "test_information": {"PASSED"},
    "test_warning": {"FAILED"},
    "test_expected": {"PASSED"},
    "test_expected_by_marker": {"PASSED"},
    "test_one_of_two_expected": {"FAILED"},
    "test_expected_and_missing": {"PASSED", "ERROR"},
    "test_error_in_a_fixtures_start": {"ERROR"},
    "test_error_in_a_fixtures_end": {"PASSED", "ERROR"},
    "test_two_classes": {"ERROR"},
    "test_damage_is_left": {"PASSED", "ERROR"},
    "test_damage_is_left_on_purpose": {"PASSED"},
    "test_no_class": {"ERROR"},
}


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project with this project's conftest."""
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini(f"[pytest]\npythonpath = {CONFTEST.parent}\nmarkers =\n  unit: u\n  mount: m\n")
    return pytester


@pytest.mark.long
def test_a_test_fails_for_what_it_logs_unexpectedly_and_for_having_no_class(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_a=INNER_TESTS, test_b="def test_no_class():\n    pass\n")
    lines = inner.runpytest_subprocess("-rA", "-m", "unit").outlines
    found = [match.groups() for line in lines if (match := re.match(r"(PASSED|FAILED|ERROR) test_.\.py::(\w+)", line))]
    assert {name: {outcome for outcome, test in found if test == name} for _, name in found} == OUTCOMES


@pytest.mark.long
def test_a_file_of_another_class_is_not_imported(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_a="import pytest\npytestmark = pytest.mark.unit\ndef test_it(): pass",
        test_b="import pytest\npytestmark = pytest.mark.mount\nraise AssertionError",
        test_c="import pytest\n@pytest.mark.mount\ndef test_it(): pass\n@pytest.mark.unit\ndef test_other(): pass",
    )
    inner.runpytest_subprocess("-m", "unit").assert_outcomes(passed=2, deselected=1)
    inner.runpytest_subprocess("-m", "unit and not slow").assert_outcomes(passed=2, deselected=1)
    inner.runpytest_subprocess("-m", "unit and long").assert_outcomes(passed=0, deselected=3)
    for expression in ("mount", "unit or mount", "not mount"):
        inner.runpytest_subprocess("-m", expression).assert_outcomes(errors=1)


@pytest.mark.long
def test_a_run_that_skipped_everything_counts_as_empty(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    inner.makepyfile("import pytest\npytestmark = pytest.mark.unit\ndef test_it(): pytest.skip()")
    assert inner.runpytest_subprocess().ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.long
def test_a_test_that_is_skipped_fails_in_ci_and_states_why(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner.makepyfile(
        "import pytest\npytestmark = pytest.mark.unit\ndef test_a(): pytest.skip('no strace')\n"
        "@pytest.mark.skipif(True, reason='no groff')\ndef test_b(): pass\ndef test_c(): pass\n"
    )
    monkeypatch.delenv("CI", raising=False)
    inner.runpytest_subprocess().assert_outcomes(passed=1, skipped=2)
    monkeypatch.setenv("CI", "true")
    result = inner.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*nothing may be*no groff*", "*nothing may be*no strace*"], consecutive=False)


def test_workers_begin_with_long_tests_and_go_on_with_large_files(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  long: l\n  xdist_group: g\n")
    one = "def test_{}(): pass\n"
    with_session = "import pytest\n@pytest.fixture\ndef spark(): pass\ndef test_{}(spark): pass\n"
    pytester.makepyfile(
        test_a=one.format("a"),
        test_b=with_session.format("b") + one.format("without"),
        test_c=one.format("c") + one.format("d") + one.format("e"),
        test_f=one.format("f") + "import pytest\n@pytest.mark.long\n" + one.format("long"),
        test_g=with_session.format("g"),
    )
    items, _ = pytester.inline_genitems()
    group_by_session(items)
    names = " ".join(item.name for item in longest_first(items))
    assert names == "test_f test_long test_c test_d test_e test_b test_g test_a test_without"


def test_the_golden_copy_is_the_log_directory_alone(golden: Path, golden_copy: Path) -> None:
    assert {path.name for path in golden_copy.iterdir() if path.is_file()} == {
        ".kafka_cleanshutdown",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
    files = [path.relative_to(golden_copy) for path in golden_copy.rglob("*") if path.is_file()]
    assert all((golden_copy / file).read_bytes() == (golden / file).read_bytes() for file in files)
    assert len(list(golden_copy.glob("*/*.log"))) == len(list(golden.glob("*/*.log"))) > 0


@pytest.mark.parametrize("years", [0, 1, 30])
def test_in_the_lasting_copy_no_record_is_too_old(lasting_copy: Path, years: int) -> None:
    clock = FakeClock(time.time_ns() // 1_000_000 + years * 365 * 86_400_000)
    directory = LogDirectory.open(str(lasting_copy), clock=clock)
    log = directory.log(TopicPartition("keyed", 0))
    segments, start = len(list(log.snapshot())), log.log_start_offset
    builder = BatchBuilder(1 << 12)
    assert builder.append(None, b"now", (), clock.now_ms())
    log.append(builder.seal())
    assert retention.sweep(directory, directory.partitions(), clock.now_ms()) == ([], {})
    assert (len(list(log.snapshot())), log.log_start_offset) == (segments, start)
    directory.close()


def test_the_unclean_copy_keeps_the_holes_of_preallocated_indexes(unclean_copy: Path) -> None:
    index = (unclean_copy / "epochs-0" / "00000000000000000120.index").stat()
    assert index.st_size == 10 * 1024 * 1024
    assert index.st_blocks * 512 < 1024 * 1024
    assert not (unclean_copy / ".kafka_cleanshutdown").exists()


def test_a_port_that_a_process_has_chosen_for_a_server_is_given_to_no_other() -> None:
    program = f"import sys; sys.path.insert(0, {str(CONFTEST.parent)!r}); from fixtures.machine import free_ports; "
    (port,) = free_ports.free_ports(1)
    refused = subprocess.run([sys.executable, "-c", f"{program}print(free_ports._reserve([{port}]))"], stdout=-1)
    assert refused.stdout == b"False\n"
    chosen = subprocess.run([sys.executable, "-c", f"{program}print(*free_ports.free_ports(3, 10_000))"], stdout=-1)
    ports = [int(each) for each in chosen.stdout.split()]
    assert len(set(ports)) == 3 and free_ports._reserve(ports), "a process that ends gives its ports back"


def test_who_holds_a_log_directory_that_a_test_leaves_is_known(tmp_path: Path) -> None:
    code = "import offsetfs, sys; data = offsetfs.open(sys.argv[1], 'a'); print(1, flush=True); sys.stdin.read()"
    with closing(LogDirectory.open(str(tmp_path))):
        assert left_logs._holder_if_any(str(tmp_path)) == os.getpid()
    assert left_logs._holder_if_any(str(tmp_path)) is None
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"1\n"
        assert left_logs._holder_if_any(str(tmp_path)) == other.pid
        other.communicate()
    assert left_logs._holder_if_any(str(tmp_path)) is None
