"""What a suite of a client is: how to build it, which tests it has, and how to run one of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

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

    def build(self, cache: Path) -> None:
        """Download and build what is not there yet."""
        ...

    def tests(self, cache: Path) -> Sequence[SuiteTest]:
        """Return the tests that need a broker, in the suite's order."""
        ...

    def run_of(self, test: SuiteTest, address: str, cache: Path, scratch: Path) -> TestRun:
        """Return how to run `test` against the broker at `address`."""
        ...

    def outcome(self, status: int, output: str) -> Outcome:
        """Return how a test ended whose command returned `status` and wrote `output`."""
        ...
