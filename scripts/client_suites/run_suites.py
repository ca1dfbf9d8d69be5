"""Runs the suites of clients against offsetfs or Kafka: `scripts/suites --help`."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import suite_results
from franz_go import FranzGo
from kafka_go import KafkaGo
from kafka_python import KafkaPython
from kcat import Kcat
from librdkafka import Librdkafka
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sarama import Sarama
from sides import SIDES, Side, running_broker, tied_to_us
from suite import Outcome, RunningBroker, Suite, SuiteTest
from suite_results import TestResult
from suite_sources import SuiteError, require_commands

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "suites"
SUITES: tuple[Suite, ...] = (
    Librdkafka(),
    Librdkafka("librdkafka-consumer", "consumer"),
    Librdkafka("librdkafka-sasl", login=True),
    FranzGo(),
    FranzGo("franz-go-tls", secured=True),
    KafkaGo(),
    Kcat(),
    KafkaPython(),
    Sarama(),
)
SECONDS_MAX = 300
"""How long a test may take before it is stopped."""
MINUTES_MAX = 120
"""How long a run of all suites may take: after that it starts no tests, and `--missing` goes on where it ended."""
POLL_SECONDS = 0.1
EXAMPLES = """\
examples:
  scripts/suites                                   every suite, first with Kafka, then with offsetfs
  scripts/suites --side offsetfs                   what must pass, with offsetfs alone
  scripts/suites librdkafka 0081 0103              the tests of one suite whose names begin so
  scripts/suites --record --missing --parallel 4   go on with a run that was ended, and record its results
  scripts/suites --record --failed                 once more what did not pass, for example alone on the machine

Sources of pinned versions are downloaded into .cache/suites and built there; the output of each test is in
.cache/suites/output. --list names the Debian packages that the builds need; `scripts/setup test` installs the rest.
"""


def main() -> int:
    arguments = _arguments()
    suites = [suite for suite in SUITES if arguments.suite in (None, suite.name)]
    if arguments.list:
        for suite in SUITES:
            needs = " ".join(sorted(set(suite.needs.values())))
            print(f"{suite.name:<14}{suite.version}" + (f"; needs {needs}" if needs else ""))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through every `with`: no broker is left behind
    sides: Sequence[Side] = [arguments.side] if arguments.side else SIDES
    deadline = time.monotonic() + arguments.minutes * 60
    broken: list[str] = []
    try:
        for suite in suites:
            require_commands(suite.needs)
            CACHE.mkdir(parents=True, exist_ok=True)
            suite.build(CACHE)
            for side in sides:
                broken += _run_suite(suite, side, deadline, arguments)
    except SuiteError as error:
        print(f"suites: {error}", file=sys.stderr)
        return 2
    for line in broken:
        print(line, file=sys.stderr)
    return int(bool(broken))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/suites",
        description="Run the test suites of Kafka clients against Kafka 4.1 and then against offsetfs. A test that has "
        "passed with offsetfs must pass.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", nargs="?", choices=[suite.name for suite in SUITES], help="all suites if left out")
    parser.add_argument("tests", nargs="*", help="tests, or how their names begin; all of the suite if left out")
    parser.add_argument("--side", choices=SIDES, help="this broker alone; both if left out")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help=f"limit of each test ({SECONDS_MAX})")
    parser.add_argument("--minutes", type=float, default=MINUTES_MAX, help=f"no test begins later ({MINUTES_MAX})")
    parser.add_argument("--parallel", type=int, default=1, help="how many tests run at once (1)")
    parser.add_argument("--record", action="store_true", help=f"update {suite_results.FOLDER.relative_to(ROOT)}")
    parser.add_argument("--missing", action="store_true", help="only tests without a recorded result of the broker")
    parser.add_argument("--failed", action="store_true", help="only tests that did not pass with the broker")
    parser.add_argument("--list", action="store_true", help="what there is")
    return parser.parse_args()


def _run_suite(suite: Suite, side: Side, deadline: float, arguments: argparse.Namespace) -> list[str]:
    """Run the selected tests of a suite and return a line for each that passed with us before and does not now."""
    recorded = suite_results.read(suite.name)
    tests = [test for test in suite.tests(CACHE) if _is_selected(test, recorded.get(test.name, {}), side, arguments)]
    found: dict[str, TestResult] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suites-")))
        brokers: dict[str, RunningBroker] = {}

        def start(test: SuiteTest) -> _StartedTest:
            key = str(test.settings)
            if key not in brokers:
                folder = scratch / f"broker-{len(brokers)}"
                brokers[key] = stack.enter_context(running_broker(side, folder, test.settings, suite.listeners))
            return _StartedTest(suite, side, test, brokers[key], scratch)

        bar = stack.enter_context(_progress_bar())
        task = bar.add_task(f"{suite.name} with {side}", total=len(tests))
        in_time = itertools.takewhile(lambda _: time.monotonic() < deadline, tests)
        for name, result in _run_tests(map(start, in_time), arguments.parallel, arguments.seconds):
            found[name] = result
            print(f"{suite.name} {name:<60} {result}{_compared(side, recorded.get(name, {}))}", flush=True)
            bar.advance(task)
            if arguments.record:
                recorded = suite_results.record(suite, side, name, result)
    _print_counts(suite, side, found, not_run=len(tests) - len(found))
    if side == "kafka":
        return []
    allowed = suite_results.passing(recorded)
    return [
        f"{suite.name} {name}: passed before, now {result}; its output is in {_output(suite, side, name)}"
        for name, result in found.items()
        if name in allowed and result.outcome is not Outcome.PASS
    ]


def _progress_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)


def _is_selected(test: SuiteTest, before: Mapping[Side, TestResult], side: Side, arguments: argparse.Namespace) -> bool:
    if arguments.missing and side in before:
        return False
    if arguments.failed and (side not in before or before[side].outcome is Outcome.PASS):
        return False
    return not arguments.tests or test.name.startswith(tuple(arguments.tests))


class _StartedTest:
    """A test that is running, as a process that ends with ours."""

    def __init__(self, suite: Suite, side: Side, test: SuiteTest, broker: RunningBroker, scratch: Path) -> None:
        self.name = test.name
        self._suite = suite
        self._path = _output(suite, side, test.name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        run = suite.run_of(test, broker, CACHE, scratch)
        self._start = time.monotonic()
        with self._path.open("wb") as output:
            self._process = subprocess.Popen(
                [*tied_to_us(), "nice", "-n", "5", *run.command],
                cwd=run.cwd,
                env={**os.environ, **run.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def result(self, seconds_max: float) -> TestResult | None:
        """Return the result once the test has ended. A test that has run for `seconds_max` is stopped."""
        seconds = round(time.monotonic() - self._start, 1)
        status = self._process.poll()
        if status is not None:
            return TestResult(self._suite.outcome(status, self._path.read_text(errors="replace")), seconds)
        if seconds < seconds_max:
            return None
        self.stop()
        return TestResult(Outcome.TIMEOUT, seconds)

    def stop(self) -> None:
        """End the process; does nothing if it has ended."""
        self._process.kill()
        self._process.wait()


def _run_tests(tests: Iterator[_StartedTest], parallel: int, seconds_max: float) -> Iterator[tuple[str, TestResult]]:
    """Run tests, `parallel` at once, and yield the result of each when it ends."""
    running = list(itertools.islice(tests, parallel))
    try:
        while running:
            for test in tuple(running):
                result = test.result(seconds_max)
                if result is not None:
                    running.remove(test)
                    running.extend(itertools.islice(tests, 1))
                    yield test.name, result
            time.sleep(POLL_SECONDS)
    finally:
        for test in running:
            test.stop()


def _output(suite: Suite, side: Side, name: str) -> Path:
    return CACHE / "output" / side / suite.name / f"{name}.log"


def _compared(side: Side, before: Mapping[Side, TestResult]) -> str:
    return "".join(f"  ({each}: {result})" for each, result in before.items() if each != side)


def _print_counts(suite: Suite, side: Side, found: Mapping[str, TestResult], *, not_run: int) -> None:
    outcomes: Sequence[Outcome] = [result.outcome for result in found.values()]
    counts = [f"{outcomes.count(each)} {each}" for each in Outcome if each in outcomes]
    if not_run:
        counts.append(f"{not_run} not run, because the time was over")
    print(f"{suite.name} with {side}: {', '.join(counts) or 'no tests'}")


if __name__ == "__main__":
    sys.exit(main())
