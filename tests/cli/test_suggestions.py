"""Suggestions for names that are not there: commands, options, topics, partitions, offsets, addresses."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from offsetfs import NewRecord, cli
from offsetfs import open as open_log
from offsetfs.cli import exit_codes, option_hints, run

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("log"))
    assert run(["create", path, "orders", "-p", "2"]) == run(["create", path, "users"]) == 0
    return path


@pytest.mark.parametrize("arguments", [["topic", "list"], ["list"], ["tail", "LOG"], ["lst"], ["fsck"], ["query"]])
def test_a_command_of_another_tool_has_a_suggestion(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == exit_codes.WRONG_CALL
    assert f"offsetfs: no such command '{arguments[0]}'; did you mean " in capsys.readouterr().err


def test_names_of_other_tools_are_no_verbs_here() -> None:
    assert cli._VERB_OF_SYNONYM.keys().isdisjoint(cli.VERBS)
    assert cli.VERBS.keys() >= set(cli._VERB_OF_SYNONYM.values())


def test_remedies_for_options_of_other_tools_name_options_that_are_there() -> None:
    """The options of a remedy are those of the command, or of the one that it names."""
    group = cli.root_command
    for verb, hints in option_hints._HINTS.items():
        for option, hint in hints.items():
            assert option not in _options(group, verb), (verb, option)
            for part in hint.split("; "):
                other = re.search(r"offsetfs (\w+)", part)
                known = _options(group, other[1] if other else verb)
                assert known.issuperset(re.findall(r"(?<!\S)--?[a-z-]+", part)), (verb, part)


def _options(group: click.Group, verb: str) -> set[str]:
    command = group.get_command(click.Context(group), verb)
    assert command is not None, verb
    return {name for parameter in command.params for name in parameter.opts}


def test_help_and_version_are_verbs_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == run(["help"]) == run(["help", "table", "sync"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("offsetfs 0.")
    assert "Usage: offsetfs [OPTIONS] COMMAND" in printed
    assert "Usage: offsetfs table sync" in printed


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["cat", "LOG", "order-0/42"], "did you mean orders-0?"),
        (["ls", "LOG", "order"], "did you mean orders?"),
        (["follow", "LOG", "ordrs"], "did you mean orders?"),
        (["append", "LOG", "order-1"], "did you mean orders-1?"),
        (["cat", "LOG", "order-9/42"], "did you mean orders?"),
        (["cat", "LOG", "orders-9/42"], "orders has partitions 0 to 1"),
        (["cat", "LOG", "users-1/42"], "users has only users-0"),
        (["truncate", "LOG", "order-0", "1"], "did you mean orders-0?"),
        (["delete", "LOG", "order"], "did you mean orders?"),
        (["delete-records", "LOG", "order-0=1"], "did you mean orders-0?"),
        (["verify", "LOG", "order-0"], "did you mean orders-0?"),
        (["verify", "LOG", "user"], "did you mean users?"),
        (["dump", "LOG", "user-0"], "did you mean users-0?"),
        (["config", "LOG", "user"], "did you mean users?"),
        (["spark", "stats", "LOG", "--topic", "user"], "did you mean users?"),
        (["restore", "LOG", "127.0.0.1:1", "--topic", "order"], "did you mean orders?"),
        (["verify", "LOG", "--topic", "orders"], "write the topic after LOGDIR"),
        (["create", "LOG", "--topic", "orders"], "write the topic after LOGDIR"),
        (["mount", "LOG", "/nowhere", "-o", "readonly"], "did you mean ro?"),
        (["create", "LOG", "new", "--config", "retention.ms=7d"], "-o NAME=VALUE sets a topic setting"),
        (["find", "LOG", "--topic", "orders"], "no such option '--topic'; write the topic after LOGDIR (see"),
        (["find", "LOG", "orders", "--limit", "3"], "--first N prints the oldest N"),
        (["find", "LOG", "orders", "--csv"], "--format csv writes CSV"),
        (["find", "LOG", "orders", "--since", "-1h"], "--from takes an offset or a time"),
        (["groups", "LOG", "--group", "g"], "write the group after LOGDIR"),
        (["groups", "LOG", "g", "--to-earliest"], "--reset-to takes earliest, latest"),
        (["diff", "LOG", "LOG", "--topic", "orders"], "write the topic after A and B"),
        (["stats", "LOG", "--topic", "orders"], "write the topic after LOGDIR"),
        (["schemas", "LOG", "--subject", "orders-value"], "write the subject after LOGDIR"),
        (["doctor", "LOG", "--fix"], "offsetfs repair LOGDIR shows"),
        (["find", "LOG", "orders", "--where", "amount > 100"], "write value->>'amount'"),
    ],
    ids=" ".join,
)
def test_a_name_that_is_not_there_has_the_nearest_one(
    log: str, arguments: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([log if each == "LOG" else each for each in arguments]) == exit_codes.WRONG_CALL
    printed = capsys.readouterr().err
    assert suggestion in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("verb", ["cat", "ls"])
def test_an_offset_without_a_record_has_the_offsets_of_its_partition(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = os.fspath(tmp_path)
    with open_log(log, "a") as directory:
        directory.create("orders")[0].extend(NewRecord(b"value") for _ in range(3))
        directory.create("empty")
    assert run([verb, log, "orders-0/99"]) == exit_codes.WRONG_CALL
    assert capsys.readouterr().err.endswith("orders-0/99: No such file or directory; orders-0 has offsets 0 to 2\n")
    assert run([verb, log, "empty-0/99"]) == exit_codes.WRONG_CALL
    assert capsys.readouterr().err.endswith("; empty-0 has no records, its next offset is 0\n")


@pytest.mark.parametrize(("text", "port"), [("39098", "39098"), ("9092x", "9092")])
def test_a_port_without_a_host_is_no_address(
    log: str, text: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", log, "--listen", text]) == exit_codes.WRONG_CALL
    reason = f"'{text}' is not an address; write HOST:PORT, such as 127.0.0.1:{port}"
    assert capsys.readouterr().err == f"offsetfs serve: {reason}\n"


def test_what_is_there_already_says_what_would_be_added(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", log, "users"]) == exit_codes.FAILED
    assert "users-0 already exists; --if-not-exists makes that a success\n" in capsys.readouterr().err
    assert run(["create", log, "users", "-p", "3"]) == exit_codes.FAILED
    assert "users-0 already exists; --if-not-exists adds the 2 missing partitions\n" in capsys.readouterr().err


def test_a_job_of_another_name_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spark", "count", "LOG"]) == exit_codes.WRONG_CALL
    assert "offsetfs spark: no such command 'count'; did you mean stats?" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["acls", "users"])
def test_an_empty_list_is_said(log: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, log]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"offsetfs {verb}: there are none\n")


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("kafka://127.0.0.1:9092", "is a cluster; mount it, or copy its topics with offsetfs mirror"),
        ("ftp://host/kafka", "is not the URL of an archive; their schemes are s3, s3a, "),
    ],
)
def test_a_url_that_a_command_does_not_take_has_the_remedy(
    url: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("ls", "verify"):
        assert run([verb, url]) != 0
        assert f"offsetfs {verb}: {url}: {remedy}" in capsys.readouterr().err
