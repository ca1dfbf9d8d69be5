"""`offsetfs acls`: what clients may do, without a server and through one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.kafka.broker.operations import Operation, Pattern, Permission, Resource
from offsetfs.storage.security import Acl, SecurityStore

ALICE, BOB = "User:alice", "User:bob"

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(logs: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs `offsetfs acls`; returns its exit code and output."""

    def said(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return run(["acls", str(logs), *words]), *capsys.readouterr()

    return said


def stored(logs: Path) -> set[Acl]:
    return set(SecurityStore(str(logs), read_only=True).image.acls.values())


def acl(operation: Operation, kind: Resource, name: str, user: str = ALICE, pattern: Pattern = Pattern.LITERAL) -> Acl:
    return Acl(kind, name, pattern, user, "*", operation, Permission.ALLOW)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "acls"),
    [
        (
            "--allow-principal User:alice --operation read --operation DescribeConfigs --topic orders",
            [
                acl(Operation.READ, Resource.TOPIC, "orders"),
                acl(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "orders"),
            ],
        ),
        (
            "--allow-principal User:alice --allow-principal User:bob --operation Read --group g --topic t",
            [
                acl(Operation.READ, kind, name, user)
                for kind, name in ((Resource.GROUP, "g"), (Resource.TOPIC, "t"))
                for user in (ALICE, BOB)
            ],
        ),
        (
            "--allow-principal User:alice --resource-pattern-type prefixed --topic or",
            [acl(Operation.ALL, Resource.TOPIC, "or", pattern=Pattern.PREFIXED)],
        ),
        (
            "--deny-principal User:* --deny-host 10.0.0.7 --deny-host 10.0.0.8 --operation Alter --cluster",
            [
                Acl(
                    Resource.CLUSTER,
                    "kafka-cluster",
                    Pattern.LITERAL,
                    "User:*",
                    host,
                    Operation.ALTER,
                    Permission.DENY,
                )
                for host in ("10.0.0.7", "10.0.0.8")
            ],
        ),
        (
            "--allow-principal User:alice --producer --topic t --transactional-id tx",
            [
                *(acl(each, Resource.TOPIC, "t") for each in (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)),
                *(acl(each, Resource.TRANSACTIONAL_ID, "tx") for each in (Operation.WRITE, Operation.DESCRIBE)),
            ],
        ),
        (
            "--allow-principal User:alice --consumer --topic t --group g",
            [
                *(acl(each, Resource.TOPIC, "t") for each in (Operation.READ, Operation.DESCRIBE)),
                acl(Operation.READ, Resource.GROUP, "g"),
            ],
        ),
        (
            "--allow-principal User:alice --operation DescribeTokens --user-principal User:bob",
            [acl(Operation.DESCRIBE_TOKENS, Resource.USER, "User:bob")],
        ),
        (
            "--allow-principal User:alice --operation Describe --delegation-token *",
            [acl(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, "*")],
        ),
    ],
)
def test_acls_are_added_once(logs: Path, said: Said, words: str, acls: list[Acl]) -> None:
    for _ in range(2):
        assert said("add", *words.split()) == (exit_codes.DONE, "", "")
        assert stored(logs) == set(acls)
        assert len(SecurityStore(str(logs), read_only=True).image.acls) == len(acls)


@pytest.fixture
def several(said: Said) -> None:
    for words in (
        "--allow-principal User:alice --operation Read --topic orders",
        "--allow-principal User:bob --allow-host 10.0.0.7 --operation Write --topic orders",
        "--deny-principal User:alice --operation Read --topic or --resource-pattern-type prefixed",
        "--allow-principal User:alice --operation Read --group g",
    ):
        assert said("add", *words.split())[0] == exit_codes.DONE


LINES = [
    "topic prefixed or  User:alice  deny   Read   from any host",
    "topic orders       User:alice  allow  Read   from any host",
    "topic orders       User:bob    allow  Write  from 10.0.0.7",
    "group g            User:alice  allow  Read   from any host",
]


def cells(line: str) -> list[str]:
    return [each.strip() for each in line.split("  ") if each]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("", [0, 1, 2, 3]),
        ("--topic orders", [1, 2]),
        ("--topic orders --resource-pattern-type match", [0, 1, 2]),
        ("--topic or --resource-pattern-type prefixed", [0]),
        ("--topic or --resource-pattern-type literal", []),
        ("--principal User:alice", [0, 1, 3]),
        ("--principal User:alice --group g --topic orders", [1, 3]),
        ("--allow-principal User:alice", [1, 3]),
        ("--deny-principal User:alice", [0]),
        ("--allow-host 10.0.0.7", [2]),
        ("--operation Write --operation All", [2]),
        ("--cluster", []),
    ],
)
def test_options_select_what_is_listed_and_removed(
    logs: Path, said: Said, several: None, words: str, numbers: list[int]
) -> None:
    code, out, err = said(*words.split())
    assert (code, err) == (exit_codes.DONE, "" if numbers else "offsetfs acls: there are none\n")
    assert [cells(each) for each in out.splitlines()] == [cells(LINES[number]) for number in numbers]
    assert len(json.loads(said(*words.split(), "--json")[1])) == len(numbers)
    if not words:
        return
    code, out, err = said("remove", *words.split())
    assert [cells(each) for each in out.splitlines()] == [cells(LINES[number]) for number in numbers]
    if numbers:
        assert (code, err) == (exit_codes.DONE, "")
    else:
        assert (code, err) == (
            exit_codes.WRONG_CALL,
            f"offsetfs acls: {logs} has no such ACL; offsetfs acls {logs} lists them\n",
        )
    assert len(stored(logs)) == len(LINES) - len(numbers)


@pytest.mark.unit
def test_the_list_is_aligned_and_has_all_words(said: Said, several: None) -> None:
    assert said()[1].splitlines() == LINES
    assert json.loads(said("--allow-host", "10.0.0.7", "--json")[1]) == [
        {
            "resource_type": "topic",
            "resource_name": "orders",
            "pattern_type": "literal",
            "principal": "User:bob",
            "host": "10.0.0.7",
            "operation": "Write",
            "permission": "allow",
        }
    ]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("add --topic t", "give --allow-principal or --deny-principal"),
        ("add --allow-principal User:alice", "give a resource: --topic, --group"),
        ("add --allow-principal alice --topic t", "no colon is present"),
        ("add --allow-principal User:alice --topic t --principal User:bob", "--principal is to list and remove"),
        ("add --allow-principal User:alice --topic t --resource-pattern-type match", "match is to list and remove"),
        (
            "add --allow-principal User:alice --group g --operation Write",
            "a group has the operations Read, Delete, Describe, DescribeConfigs, AlterConfigs, All",
        ),
        ("add --allow-principal User:alice --cluster --producer", "--producer and --consumer say nothing of a cluster"),
        ("add --allow-principal User:alice --topic t --operation Fly", "'Fly' is not one of"),
        ("remove", "give what to remove, such as --principal User:alice or --topic orders"),
        ("remove --topic t --consumer", "--producer and --consumer are for add"),
        ("--producer", "--producer and --consumer are for add"),
        ("change", "'change' is not one of 'add', 'remove'"),
    ],
)
def test_a_wrong_call_changes_nothing(logs: Path, said: Said, words: str, sentence: str) -> None:
    code, out, err = said(*words.split())
    assert (code, out) == (exit_codes.WRONG_CALL, "")
    assert sentence in err
    assert os.listdir(logs) == []


@pytest.mark.unit
def test_a_name_cannot_control_the_terminal(said: Said) -> None:
    assert said("add", "--allow-principal", "User:a\x1b[2J", "--topic", "x\ny")[0] == exit_codes.DONE
    assert said()[1] == "topic x\\ny  User:a\\x1b[2J  allow  All  from any host\n"


@pytest.fixture
def server(logs: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "offsetfs", "serve", str(logs), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "is served at" in process.stdout.readline()
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.mount
def test_acls_are_changed_through_the_process_that_serves_the_directory(logs: Path, server: None, said: Said) -> None:
    assert said("add", "--allow-principal", ALICE, "--topic", "t", "--operation", "Read") == (exit_codes.DONE, "", "")
    assert stored(logs) == {acl(Operation.READ, Resource.TOPIC, "t")}
    assert said()[1] == said("remove", "--topic", "t")[1] == "topic t  User:alice  allow  Read  from any host\n"
    assert stored(logs) == set() and said()[1] == ""
