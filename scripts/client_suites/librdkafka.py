"""The suite of librdkafka, the C client under Confluent's clients of Python, Go, .NET and JavaScript.

`tests/test-runner` selects tests by their numbers. Tests that use the client's mock cluster need no broker and are left
out, as are the ones that librdkafka itself marks as known issues. The quick mode of the test runner leaves out most of
the subtests, and is not used. Topics get one replica.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_shell import prepare_kafka_folder
from suite import ACLS, PASSWORDS, SCRAM_512_USER, Listeners, Outcome, RunningBroker, SuiteTest, TestRun
from suite_sources import SuiteError, run_quietly, unpack_debian_source

UPSTREAM = "2.14.2"
DEBIAN_VERSION = "2.14.2-1"
DEBIAN_RELEASE = "sid"
SHA256 = "4d53568c13717b167d12c7b2a0fe12aeb5d6bfe02de53df5b68f86d870a81b33"
LEFT_OUT = re.compile(r"TEST_F_LOCAL|TEST_F_MANUAL|TEST_F_KNOWN_ISSUE\b")
USES_ACLS = ("0081", "0109", "0115", "0119")
REAUTHENTICATES = "0142"
NO_AUTO_CREATION = "noautocreate"
"""The scenario of tests that expect a broker with auto.create.topics.enable=false."""
NEEDS: Mapping[str, str] = {
    "gcc": "gcc",
    "g++": "g++",
    "make": "make",
    "dpkg-source": "dpkg-dev",
    "javac": "default-jdk-headless",
    "/usr/include/openssl/ssl.h": "libssl-dev",
    "/usr/include/rapidjson/document.h": "rapidjson-dev",
    "/usr/include/zlib.h": "zlib1g-dev",
}
MEMBERS = re.compile(r"test_create_consumer|subscribe\(|KafkaConsumer::create")


@dataclass(frozen=True, slots=True)
class Librdkafka:
    """The suite, with the classic group protocol of its defaults or with `group.protocol=consumer`.

    With `login`, clients connect by TLS and log in by SCRAM.
    """

    name: str = "librdkafka"
    group_protocol: str = "classic"
    login: bool = False

    @property
    def version(self) -> str:
        return f"librdkafka {UPSTREAM} (Debian's source package {DEBIAN_VERSION})"

    @property
    def needs(self) -> Mapping[str, str]:
        return NEEDS

    @property
    def listeners(self) -> Listeners:
        return Listeners(secured=("SASL_SSL",)) if self.login else Listeners()

    def build(self, cache: Path) -> None:
        folder = self._folder(cache)
        log = cache / f"{folder.name}.log"
        if not folder.exists():
            unpack_debian_source("librdkafka", DEBIAN_VERSION, DEBIAN_RELEASE, SHA256, folder)
            _use_one_replica(folder / "tests" / "test.c")
        if not (folder / "tests" / "test-runner").exists():
            # A file called configure.log in the current directory would break the script: the log is elsewhere.
            run_quietly(["./configure", "--disable-gssapi", "--disable-zstd", "--disable-curl"], cwd=folder, log=log)
            run_quietly(["make", "-j2", "libs"], cwd=folder, log=log)
            run_quietly(["make", "-j2", "build"], cwd=folder / "tests", log=log)
        kafka = cache / "kafka"
        prepare_kafka_folder(kafka)
        # Two tests have a Java client as their peer, and call `make java` themselves.
        run_quietly(["make", "java"], cwd=folder / "tests", log=log, env={"KAFKA_PATH": str(kafka)})

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        source = (self._folder(cache) / "tests" / "test.c").read_text()
        table = source[source.index("struct test tests[]") :].split("{NULL}}")[0]
        found: dict[str, SuiteTest] = {}
        for entry in re.split(r"\b_TEST\((?=\d)", table)[1:]:
            if not LEFT_OUT.search(entry):
                number = entry[:4]
                if self.group_protocol == "consumer" and not self._consumes(number, cache):
                    continue
                if NO_AUTO_CREATION in entry:
                    name = f"{number}-{NO_AUTO_CREATION}"
                    found[name] = SuiteTest(name, {"auto.create.topics.enable": "false"})
                else:
                    found[number] = SuiteTest(number, self._settings(number))
        return list(found.values())

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        folder = self._folder(cache) / "tests"
        configuration = scratch / f"{test.name}.conf"
        lines = ["test.topic.random=true"]
        if self.login:
            lines += [
                f"metadata.broker.list={broker.addresses['SASL_SSL']}",
                "security.protocol=sasl_ssl",
                f"ssl.ca.location={broker.authority}",
                "sasl.mechanism=SCRAM-SHA-512",
                f"sasl.username={SCRAM_512_USER}",
                f"sasl.password={PASSWORDS[SCRAM_512_USER]}",
            ]
        else:
            lines.append(f"metadata.broker.list={broker.address}")
        if test.settings is ACLS:  # a test of 20 seconds runs kafka-acls.sh twice, beside 15 seconds of its own
            lines.append("test.timeout.multiplier=3")
        configuration.write_text("\n".join(lines) + "\n")
        number, _, scenario = test.name.partition("-")
        kafka = cache / "kafka"
        env = {
            "RDKAFKA_TEST_CONF": str(configuration),
            "TESTS": number,
            "TEST_KAFKA_VERSION": "4.1.0",
            "TEST_CONSUMER_GROUP_PROTOCOL": self.group_protocol,
            "BROKERS": broker.address,
            "KAFKA_PATH": str(kafka),
            "PATH": f"{kafka / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}",
        }
        command = [str(folder / "test-runner"), "-p1", "-L", "-s", scenario or "default"]
        return TestRun(command, folder, env)

    def outcome(self, status: int, output: str) -> Outcome:
        if status:
            return Outcome.FAIL
        rows = re.findall(r"^\|\S* (\d{4}\w+) +\| +(\w+)", output, re.MULTILINE)
        return Outcome.PASS if any(result == "PASSED" for _, result in rows) else Outcome.SKIP

    def _settings(self, number: str) -> Mapping[str, str]:
        if number in USES_ACLS:
            return ACLS
        return {"connections.max.reauth.ms": "5000"} if number == REAUTHENTICATES and self.login else {}

    def _consumes(self, number: str, cache: Path) -> bool:
        """Whether a test has members of groups."""
        sources = (self._folder(cache) / "tests").glob(f"{number}-*.c*")
        return any(MEMBERS.search(path.read_text()) for path in sources)

    def _folder(self, cache: Path) -> Path:
        return cache / f"librdkafka-{UPSTREAM}"


def _use_one_replica(source: Path) -> None:
    """Some tests create topics with three replicas, and a single node refuses them."""
    text = source.read_text()
    call = "rd_kafka_NewTopic_new(topicname, partition_cnt, "
    if call + "replication_factor," not in text:
        raise SuiteError(f"{source}: test_admin_create_topic has changed")
    source.write_text(text.replace(call + "replication_factor,", call + "replication_factor > 0 ? 1 : -1,"))
