"""The suite of franz-go, a Go client: its package kgo.

It is compiled to one test binary, which runs one test by its name. With KGO_TEST_RF its topics have one
replica, and with KGO_TEST_RECORDS the tests of groups and transactions process 50,000 records instead of 500,000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite import Outcome, SuiteTest, TestRun
from suite_sources import go_module, run_quietly

MODULE = "github.com/twmb/franz-go"
VERSION = "v1.22.2"
CHECKSUM = "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww="
USES_A_BROKER = re.compile(
    r"newTestClient|testClientOpts|getSeedBrokers|tmpTopic|tmpGroup|newTestConsumer|testChainETL"
)
RECORDS = 50_000


class FranzGo:
    name = "franz-go"
    version = f"franz-go {VERSION}, package kgo"
    needs: Mapping[str, str] = {"go": "golang-go"}

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
        return [
            SuiteTest(name) for name, body in bodies.items() if name.startswith("Test") and USES_A_BROKER.search(body)
        ]

    def run_of(self, test: SuiteTest, address: str, cache: Path, scratch: Path) -> TestRun:
        env = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS), "KGO_LOG_LEVEL": "none"}
        command = [str(self._binary(cache)), "-test.v", "-test.run", f"^{test.name}$"]
        return TestRun(command, self._module(cache) / "pkg" / "kgo", env)

    def outcome(self, status: int, output: str) -> Outcome:
        if status:
            return Outcome.FAIL
        return Outcome.PASS if re.search(r"^--- PASS", output, re.MULTILINE) else Outcome.SKIP

    def _module(self, cache: Path) -> Path:
        return go_module(MODULE, VERSION, CHECKSUM, cache)

    def _binary(self, cache: Path) -> Path:
        return cache / f"franz-go-{VERSION}.test"
