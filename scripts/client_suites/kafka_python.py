"""The integration tests of kafka-python, a client in pure Python; its source archive on PyPI has them.

The tests of TLS and SASL start a Kafka of their own, and are left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_shell import prepare_kafka_folder
from suite import ACLS, Listeners, Outcome, RunningBroker, SuiteTest, TestRun
from suite_sources import unpack_python_source

VERSION = "3.0.12"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
SERVICE = """\
class SpawnedService:
    pass


class ExternalService:
    def __init__(self, host, port):
        pass

    def stop(self):
        pass
"""
"""What the fixtures import for a broker that runs already."""
MODULES = ("test_admin_integration", "test_consumer_integration", "test_producer_integration")


class KafkaPython:
    name = "kafka-python"
    version = f"kafka-python {VERSION}"
    needs: Mapping[str, str] = {}

    listeners = Listeners()

    def build(self, cache: Path) -> None:
        if not self._folder(cache).exists():
            unpack_python_source("kafka-python", VERSION, SHA256, self._folder(cache))
            # The archive lacks these two; and Python has a package `test` of its own.
            (self._folder(cache) / "test" / "__init__.py").touch()
            (self._folder(cache) / "test" / "service.py").write_text(SERVICE)

        prepare_kafka_folder(cache / "kafka")

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        return [
            SuiteTest(
                f"{module.removesuffix('_integration')}.{statement.name}", ACLS if "acls" in statement.name else {}
            )
            for module in MODULES
            for statement in ast.parse((self._integration(cache) / f"{module}.py").read_text()).body
            if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_")
        ]

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        module, _, function = test.name.partition(".")
        path = self._integration(cache) / f"{module}_integration.py"
        # Without its own options for pytest, which need plug-ins.
        options = ["-o", "addopts=", "-o", "cache_dir=" + str(scratch / "pytest-cache")]
        command = [sys.executable, "-m", "pytest", "-q", "-rs", *options, f"{path}::{function}"]
        env = {"KAFKA_URI": f"kafka://{broker.address}", "KAFKA_VERSION": "4.1", "KAFKA_ROOT": str(cache / "kafka")}
        return TestRun(command, self._folder(cache), env)

    def outcome(self, status: int, output: str) -> Outcome:
        if status:
            return Outcome.FAIL
        return Outcome.PASS if " passed" in output else Outcome.SKIP

    def _folder(self, cache: Path) -> Path:
        return cache / f"kafka-python-{VERSION}"

    def _integration(self, cache: Path) -> Path:
        return self._folder(cache) / "test" / "integration"
