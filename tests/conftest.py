"""What every test gets: its class, a watched log, the golden logs, and Hypothesis without chance.

A test belongs to one class, given by its marker (see CLASSES); one without would run in no class and never be missed,
so it fails.
A test that logs a warning or an error that it does not expect fails, as does one that expects a line which never comes.
A test that is skipped fails where the environment variable CI is set: there everything has to run.
A test that leaves a mount in its `tmp_path` fails, and so does the last test of a run that leaves one anywhere.
A test that leaves a log directory in its `tmp_path` that `verify` calls damaged fails, unless it is marked `damages`.
The golden logs are what real Kafka wrote; tests read them in place, or change a copy.
"""

import gc
import json
import logging
import os
import re
import shutil
import signal
import sys
import tarfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings
from left_logs import damage_left_by_a_test
from left_mounts import mounts_below, take_away
from order_of_tests import group_by_session, longest_first

CLASSES = ("unit", "fuzz", "crash", "mount", "interop", "spark")
GOLDEN = Path(__file__).parent / "golden"

# `python -m pytest` puts the working directory first, whose folder `kafka` would stand for the package kafka-python.
sys.path[:] = [path for path in sys.path if path not in ("", str(Path(__file__).parents[1]))]

# The same examples on every run: what fails in CI fails on the next machine too.
settings.register_profile("offsetfs", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("offsetfs")


# --- golden logs


@pytest.fixture(scope="session")
def golden() -> Path:
    """The log directory of a Kafka 4.1 broker that was stopped cleanly, with what clients saw; not to be changed."""
    return GOLDEN / "kafka-4.1"


@pytest.fixture
def golden_copy(golden: Path, tmp_path: Path) -> Path:
    """A copy of `golden` to write to: partitions, checkpoints and meta.properties, as the broker left them."""
    beside = shutil.ignore_patterns("*.txt", "*.ndjson", "*.bounds.json")
    return Path(shutil.copytree(golden, tmp_path / "kafka-4.1", ignore=beside))


@pytest.fixture
def lasting_copy(golden_copy: Path) -> Path:
    """`golden_copy` for tests that append to it: records are never too old for their topic, however late a test runs.

    The records are of November 2026. By default retention removes them after seven days, and an append rolls a segment.
    """
    topics = {path.name.rpartition("-")[0] for path in golden_copy.iterdir() if path.is_dir()}
    settings = {"retention.ms": "-1", "segment.ms": str(2**63 - 1)}
    kept = {topic: settings for topic in sorted(topics) if not topic.startswith("__")}
    (golden_copy / ".offsetfs-topics.json").write_text(json.dumps({"version": 0, "topics": kept}))
    return golden_copy


def _unpack(archive: str, to: Path) -> None:
    with tarfile.open(GOLDEN / archive) as packed:
        if hasattr(tarfile, "data_filter"):
            packed.extractall(to, filter="data")
        else:
            packed.extractall(to)


@pytest.fixture(scope="session")
def golden_44(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a Kafka 4.4 broker that was stopped cleanly, as `golden`; not to be changed.

    Beside it is `kafka-4.4-tier`, what the broker has put into its remote storage.
    """
    place = tmp_path_factory.mktemp("golden")
    _unpack("kafka-4.4.tar.xz", place)
    return place / "kafka-4.4"


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    """Directories after `kafka-storage format --standalone` of 4.1 and 4.4, and after a first run of a 4.4 broker."""
    _unpack("kafka-formatted.tar.xz", tmp_path)
    return tmp_path / "formatted"


@pytest.fixture
def unclean_copy(tmp_path: Path) -> Path:
    """A copy to write to of two partitions and the checkpoints of a broker that was killed.

    The index files of the active segments are as long as Kafka allocates them, 10 MiB of mostly holes.
    """
    _unpack("kafka-4.1-unclean.tar.xz", tmp_path)
    return tmp_path / "kafka-4.1-unclean"


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """What a read-only mount keeps, and logs of Spark, go into folders of this run, not into those of its user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_mount_is_left(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Fail where a mount is left when everything of the run has ended; each worker has a folder of its own."""
    yield
    _check_mounts(tmp_path_factory.getbasetemp())


# --- the run


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "damages: this test leaves a log directory in which verify finds damage")
    config.addinivalue_line("markers", "expect_log(pattern): this test logs warnings or errors that match")
    # A run that is terminated takes its mounts and brokers with it, also where a shell started it with Ctrl-C ignored.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)


# --- the class of a test


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, without importing it, a file whose tests are all of other classes than the selected one.

    A file that names no class is collected: its tests have to fail.
    """
    selected = re.fullmatch(rf"({'|'.join(CLASSES)})( and (not )?\w+)*", config.option.markexpr)
    if selected is None or not re.fullmatch(r"test_\w+\.py", collection_path.name):
        return None
    named = set(_CLASS_MARKER.findall(collection_path.read_text(encoding="utf-8")))
    return True if named and selected[1] not in named else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search no garbage among the tests: collecting makes 10,000 of them, which stay until the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Put tests without a class among the unit tests, where they run and fail; those of a worker into its order."""
    for item in items:
        classes = [name for name in CLASSES if item.get_closest_marker(name)]
        if len(classes) != 1:
            item.add_marker("unit")
            item.stash[_CLASS_FAULT] = (
                f"a test carries one of the markers {', '.join(CLASSES)}; this one has {classes or 'none'}"
            )
    group_by_session(items)
    yield
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which every test was skipped has tested nothing, and says so as pytest says it of an empty run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        session.exitstatus == 0
        and reporter
        and not session.config.option.collectonly
        and "passed" not in reporter.stats
    ):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


_CLASS_FAULT = pytest.StashKey[str]()
_CLASS_MARKER = re.compile(rf"\bmark\.({'|'.join(CLASSES)})\b")


# --- the log


@pytest.fixture
def expect_log(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Call it with a regular expression: warnings and errors in which it is found are expected, and one must come."""
    return _watch_of(request.node).expect


class _LogWatch(logging.Handler):
    """Collects the warnings and errors of one test; reports unexpected ones, and expected ones that did not come."""

    def __init__(self, item: pytest.Item) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.expected = [str(pattern) for mark in item.iter_markers("expect_log") for pattern in mark.args]

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    def expect(self, pattern: str) -> None:
        self.expected.append(pattern)

    def check(self, *, at_end: bool) -> None:
        unexpected = [line for line in self.lines if not any(re.search(pattern, line) for pattern in self.expected)]
        missing = [pattern for pattern in self.expected if not any(re.search(pattern, line) for line in self.lines)]
        if unexpected:
            self.lines = [line for line in self.lines if line not in unexpected]
            pytest.fail("logged, and not expected (see expect_log):\n" + "\n".join(unexpected), pytrace=False)
        if at_end and missing:
            pytest.fail("expected in the log, and not there:\n" + "\n".join(missing), pytrace=False)


_WATCH = pytest.StashKey[_LogWatch]()


def _watch_of(item: pytest.Item) -> _LogWatch:
    if _WATCH not in item.stash:
        item.stash[_WATCH] = _LogWatch(item)
    return item.stash[_WATCH]


def _watched(item: pytest.Item, *, at_end: bool = False) -> Generator[None, object, object]:
    watch = _watch_of(item)
    logging.getLogger().addHandler(watch)
    try:
        result = yield
    finally:
        logging.getLogger().removeHandler(watch)
    watch.check(at_end=at_end)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    result = yield from _watched(item)
    if fault := item.stash.get(_CLASS_FAULT, None):
        pytest.fail(fault, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _watched(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    try:
        result = yield from _watched(item, at_end=True)
    finally:
        del item.stash[_WATCH]  # the module logging goes through all handlers there are whenever one ends
    if folder is not None:
        _check_mounts(folder)
    if folder is not None and item.stash.get(_PASSED, False) and item.get_closest_marker("damages") is None:
        _check_left(item, folder)
    return result


# --- what it leaves


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where CI is set and nothing may be: {report.longrepr}"
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def _check_mounts(folder: Path) -> None:
    if points := mounts_below(folder):
        take_away(points)
        pytest.fail("left mounted, and detached now:\n" + "\n".join(points), pytrace=False)


def _check_left(item: pytest.Item, folder: Path) -> None:
    damage = damage_left_by_a_test(folder)
    if damage:
        pytest.fail("left damaged, by a test that is not marked `damages`:\n" + "\n".join(damage[:10]), pytrace=False)


_PASSED = pytest.StashKey[bool]()
