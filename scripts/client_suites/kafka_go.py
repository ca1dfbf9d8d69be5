"""The suite of kafka-go, a Go client: the tests of its files that use a broker.

They expect it at the ports 9092, and 9093 with logins, of localhost, with an authorizer that allows what no ACL is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite import ACLS, PASSWORDS, Listeners, Outcome, RunningBroker, SuiteTest, TestRun, outcome_of_go_test
from suite_sources import copy_of_go_module, run_quietly

MODULE = "github.com/segmentio/kafka-go"
VERSION = "v0.4.51"
CHECKSUM = "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno="
PACKAGES = (".", "compress", "sasl", "topics")
USES_A_BROKER = re.compile(r"(?:localhost|127\.0\.0\.1):909[23]|newLocalClient")
SETTINGS = {
    **ACLS,
    "super.users": ";".join(f"User:{user}" for user in PASSWORDS),
    "message.max.bytes": "200000000",
    "num.partitions": "1",
}


class KafkaGo:
    name = "kafka-go"
    version = f"kafka-go {VERSION}"
    needs: Mapping[str, str] = {"go": "golang-go"}
    listeners = Listeners(
        secured=("SASL_PLAINTEXT",), ports={"PLAINTEXT": 9092, "SASL_PLAINTEXT": 9093}, host="localhost"
    )

    def build(self, cache: Path) -> None:
        folder = self._folder(cache)
        if not folder.exists():
            copy_of_go_module(MODULE, VERSION, CHECKSUM, folder)
        for package in PACKAGES:
            binary = self._binary(package, cache)
            if not binary.exists():
                # Its go.mod lacks modules that the tests use.
                words = ["go", "test", "-mod=mod", "-c", "-o", str(binary), f"./{package}"]
                run_quietly(words, cwd=folder, log=cache / "kafka-go.log")

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        names = []
        for package in PACKAGES:
            for path in sorted((self._folder(cache) / package).glob("*_test.go")):
                text = path.read_text()
                if USES_A_BROKER.search(text):
                    prefix = "" if package == "." else f"{package}."
                    names += [prefix + each for each in re.findall(r"^func (Test\w+)\(t ", text, re.MULTILINE)]
        return [SuiteTest(name, SETTINGS) for name in names]

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        package, _, name = test.name.rpartition(".")
        package = package or "."
        # Its authors leave out the tests of its connection as a net.Conn, which fail with newer brokers.
        env = {"KAFKA_VERSION": "4.1.0", "KAFKA_SKIP_NETTEST": "1"}
        command = [str(self._binary(package, cache)), "-test.v", "-test.run", f"^{name}$"]
        return TestRun(command, self._folder(cache) / package, env)

    def outcome(self, status: int, output: str) -> Outcome:
        return outcome_of_go_test(status, output)

    def _folder(self, cache: Path) -> Path:
        return cache / f"kafka-go-{VERSION}"

    def _binary(self, package: str, cache: Path) -> Path:
        return cache / f"kafka-go-{VERSION}-{'root' if package == '.' else package}.test"
