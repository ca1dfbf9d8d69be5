"""The tests of kcat, a command on librdkafka: shell scripts, with Debian's kcat."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_shell import prepare_kafka_folder
from suite import Listeners, Outcome, RunningBroker, SuiteTest, TestRun
from suite_sources import unpack_debian_source

UPSTREAM = "1.7.1"
DEBIAN_VERSION = "1.7.1-2"
DEBIAN_RELEASE = "bookworm"
SHA256 = "4b957b7ffc728a88e163bc4e581aa371e56c7e74c8b84b1fe0583d0302ef8d58"


class Kcat:
    name = "kcat"
    version = f"kcat {UPSTREAM} (Debian's source package {DEBIAN_VERSION} of kafkacat, Debian's kcat)"
    needs: Mapping[str, str] = {"kcat": "kcat", "jq": "jq", "dpkg-source": "dpkg-dev", "script": "bsdutils"}

    listeners = Listeners()

    def build(self, cache: Path) -> None:
        folder = self._folder(cache)
        if not folder.exists():
            unpack_debian_source("kafkacat", DEBIAN_VERSION, DEBIAN_RELEASE, SHA256, folder)
        command, installed = folder / "kcat", shutil.which("kcat")
        if installed and not command.is_symlink():
            command.symlink_to(installed)
        prepare_kafka_folder(cache / "kafka")

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        return [SuiteTest(path.stem) for path in sorted((self._folder(cache) / "tests").glob("0*.sh"))]

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        env = {"BROKERS": broker.address, "KAFKA_PATH": str(cache / "kafka")}
        # On a terminal of its own: without one, kcat would produce where the tests expect that it consumes.
        command = ["script", "--quiet", "--return", "--command", f"bash {test.name}.sh", "/dev/null"]
        return TestRun(command, self._folder(cache) / "tests", env)

    def outcome(self, status: int, output: str) -> Outcome:
        if status:
            return Outcome.FAIL
        return Outcome.SKIP if "TEST SKIPPED" in output else Outcome.PASS

    def _folder(self, cache: Path) -> Path:
        return cache / f"kcat-{UPSTREAM}"
