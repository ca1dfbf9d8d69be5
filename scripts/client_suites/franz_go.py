"""The suite of franz-go, a Go client: its package kgo.

It is compiled to one test binary, which runs one test by its name. With KGO_TEST_RF its topics have one
replica, and with KGO_TEST_RECORDS the tests of groups and transactions process 50,000 records instead of 500,000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite import PASSWORDS, SCRAM_256_USER, Listeners, Outcome, RunningBroker, SuiteTest, TestRun, outcome_of_go_test
from suite_sources import go_module, run_quietly

MODULE = "github.com/twmb/franz-go"
VERSION = "v1.22.2"
CHECKSUM = "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww="
USES_A_BROKER = re.compile(
    r"newTestClient|testClientOpts|getSeedBrokers|tmpTopic|tmpGroup|newTestConsumer|testChainETL"
)
LOGS_IN = re.compile("scramSeeds")
RECORDS = 50_000


@dataclass(frozen=True, slots=True)
class FranzGo:
    """The suite; with `secured`, over mutual TLS, and its tests of SCRAM log in."""

    name: str = "franz-go"
    secured: bool = False

    @property
    def version(self) -> str:
        return f"franz-go {VERSION}, package kgo"

    @property
    def needs(self) -> Mapping[str, str]:
        return {"go": "golang-go"}

    @property
    def listeners(self) -> Listeners:
        return Listeners(secured=("SSL", "SASL_PLAINTEXT")) if self.secured else Listeners()

    def build(self, cache: Path) -> None:
        binary = self._binary(cache)
        if not binary.exists():
            words = ["go", "test", "-c", "-o", str(binary), "./pkg/kgo"]
            run_quietly(words, cwd=self._module(cache), log=cache / "franz-go.log")

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        bodies = {}
        for path in sorted((self._module(cache) / "pkg" / "kgo").glob("*_test.go")):
            for part in re.split(r"^func (?=\w)", path.read_text(), flags=re.MULTILINE)[1:]:
                bodies[part.split("(")[0]] = part
        tests = {name: body for name, body in bodies.items() if name.startswith("Test")}
        return [
            SuiteTest(name)
            for name, body in tests.items()
            if USES_A_BROKER.search(body) or (self.secured and LOGS_IN.search(body))
        ]

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        env = {
            "KGO_SEEDS": broker.address,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(RECORDS),
            "KGO_LOG_LEVEL": "none",
        }
        if self.secured:
            env["KGO_SEEDS"] = broker.addresses["SSL"]
            env["KGO_TEST_TLS"] = f"ca:{broker.authority},cert:{broker.certificate},key:{broker.key}"
            env["KGO_TEST_SCRAM_SEEDS"] = broker.addresses["SASL_PLAINTEXT"]
            env["KGO_TEST_SCRAM"] = f"{SCRAM_256_USER}:{PASSWORDS[SCRAM_256_USER]}"
        command = [str(self._binary(cache)), "-test.v", "-test.run", f"^{test.name}$"]
        return TestRun(command, self._module(cache) / "pkg" / "kgo", env)

    def outcome(self, status: int, output: str) -> Outcome:
        return outcome_of_go_test(status, output)

    def _module(self, cache: Path) -> Path:
        return go_module(MODULE, VERSION, CHECKSUM, cache)

    def _binary(self, cache: Path) -> Path:
        return cache / f"franz-go-{VERSION}.test"
