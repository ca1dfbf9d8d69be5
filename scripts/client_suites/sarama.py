"""The functional tests of sarama, a Go client.

They are written for five brokers behind proxies. Here there is one broker without a proxy and topics have one replica,
so that tests which break connections or need several brokers fail with Kafka as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite import Listeners, Outcome, RunningBroker, SuiteTest, TestRun, outcome_of_go_test
from suite_sources import SuiteError, copy_of_go_module, run_quietly

MODULE = "github.com/IBM/sarama"
VERSION = "v1.61.1"
CHECKSUM = "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg="
FOR_ONE_BROKER = (
    ("ReplicationFactor: 3,", "ReplicationFactor: 1,"),
    ("for i := 1; i <= 5; i++ {", "for i := 1; i <= 0; i++ {"),
    ("env.KafkaBrokerAddrs = nil", 'env.KafkaBrokerAddrs = []string{os.Getenv("KAFKA_ADDRESS")}'),
    ("if err := FunctionalTestEnv.ToxiproxyClient.ResetState(); err != nil {", "if err := error(nil); err != nil {"),
)
"""Edits of functional_test.go, which prepares the tests."""


class Sarama:
    name = "sarama"
    version = f"sarama {VERSION}"
    needs: Mapping[str, str] = {"go": "golang-go"}
    listeners = Listeners()

    def build(self, cache: Path) -> None:
        folder = self._folder(cache)
        if not folder.exists():
            copy_of_go_module(MODULE, VERSION, CHECKSUM, folder)
            _use_one_broker(folder / "functional_test.go")
        if not self._binary(cache).exists():
            words = ["go", "test", "-c", "-tags", "functional", "-o", str(self._binary(cache)), "."]
            run_quietly(words, cwd=folder, log=cache / "sarama.log")

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        return [
            SuiteTest(name)
            for path in sorted(self._folder(cache).glob("functional_*_test.go"))
            for name in re.findall(r"^func (Test\w+)\(t ", path.read_text(), re.MULTILINE)
        ]

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        env = {"TOXIPROXY_ADDR": "http://127.0.0.1:1", "KAFKA_VERSION": "4.1.0", "KAFKA_ADDRESS": broker.address}
        command = [str(self._binary(cache)), "-test.v", "-test.run", f"^{test.name}$"]
        return TestRun(command, self._folder(cache), env)

    def outcome(self, status: int, output: str) -> Outcome:
        return outcome_of_go_test(status, output)

    def _folder(self, cache: Path) -> Path:
        return cache / f"sarama-{VERSION}"

    def _binary(self, cache: Path) -> Path:
        return cache / f"sarama-{VERSION}.test"


def _use_one_broker(source: Path) -> None:
    text = source.read_text()
    for original, edited in FOR_ONE_BROKER:
        if original not in text:
            raise SuiteError(f"{source}: {original!r} is not there")
        text = text.replace(original, edited)
    source.write_text(text)
