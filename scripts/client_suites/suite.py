"""What a suite of a client is: how to build it, which tests it has, and how to run one of them."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

ACLS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Settings of the broker for tests that create ACLs."""


class Outcome(enum.StrEnum):
    """How a test ended."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    TIMEOUT = "timeout"


SecurityProtocol = Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]
PLAIN_USER, SCRAM_256_USER, SCRAM_512_USER = "adminplain", "adminscram256", "adminscram512"
PASSWORDS: Mapping[str, str] = {
    PLAIN_USER: "admin-secret",
    SCRAM_256_USER: "admin-secret-256",
    SCRAM_512_USER: "admin-secret-512",
}
"""The users of listeners with SASL, each for one mechanism, as the tests of kafka-go have them."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """What a suite expects of the broker's listeners: beside that without security, those of `secured`.

    `ports` are those that the suite has in its source; other listeners have any free port. `host` is advertised.
    """

    secured: Sequence[SecurityProtocol] = ()
    ports: Mapping[SecurityProtocol, int] = field(default_factory=dict)
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """Where clients find a broker, and what those of TLS need: an authority, and their own certificate and key."""

    addresses: Mapping[SecurityProtocol, str]
    authority: Path
    certificate: Path
    key: Path

    @property
    def address(self) -> str:
        """The address of the listener without security."""
        return self.addresses["PLAINTEXT"]


@dataclass(frozen=True, slots=True)
class SuiteTest:
    """One test, with the settings of the broker that it asks for beyond those of all suites."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestRun:
    """A command that runs one test."""

    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


class Suite(Protocol):
    """A client's suite: its sources stay in .cache, and nothing of it is part of the repository."""

    @property
    def name(self) -> str:
        """The name on the command line and of the files with its results."""
        ...

    @property
    def version(self) -> str:
        """The pinned version, for people."""
        ...

    @property
    def needs(self) -> Mapping[str, str]:
        """The commands and headers that the build needs, each with its Debian package."""
        ...

    @property
    def listeners(self) -> Listeners:
        """What the suite expects of the broker's listeners."""
        ...

    def build(self, cache: Path) -> None:
        """Download and build what is not there yet."""
        ...

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        """Return the tests that need a broker, in the suite's order."""
        ...

    def run_of(self, test: SuiteTest, broker: RunningBroker, cache: Path, scratch: Path) -> TestRun:
        """Return how to run `test` against `broker`."""
        ...

    def outcome(self, status: int, output: str) -> Outcome:
        """Return how a test ended whose command returned `status` and wrote `output`."""
        ...


def outcome_of_go_test(status: int, output: str) -> Outcome:
    """Return how the one test of a binary of `go test` ended that ran with -test.v."""
    if status:
        return Outcome.FAIL
    return Outcome.PASS if re.search(r"^--- PASS", output, re.MULTILINE) else Outcome.SKIP
