"""The command itself: help, version, exit codes, one sentence for each error."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import types

import click
import pytest

from offsetfs import __version__
from offsetfs.cli import VERBS, exit_codes, run
from offsetfs.cli.exit_codes import Failure

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: offsetfs {verb}") and f"\n  offsetfs {verb}" in said


def commands() -> list[tuple[str, click.Command]]:
    """Return every command and its name, those of `spark` and `table` included."""
    found: list[tuple[str, click.Command]] = []
    for verb in VERBS:
        command = importlib.import_module(f"offsetfs.cli.commands.{verb.replace('-', '_')}").command
        found.append((verb, command))
        if isinstance(command, click.Group):
            found += [(f"{verb} {name}", each) for name, each in command.commands.items()]
    return found


def test_every_option_has_a_text_and_a_name_for_its_value() -> None:
    for name, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                metavar = option.make_metavar(click.Context(command))
                assert option.help, (name, option.opts)
                assert not metavar.startswith(("TEXT", "INTEGER", "FLOAT", "PATH")) or option.is_flag, (
                    name,
                    option.opts,
                )


def test_a_choice_states_its_default() -> None:
    for name, command in commands():
        for option in command.params:
            if (
                isinstance(option, click.Option)
                and isinstance(option.type, click.Choice)
                and isinstance(option.default, str)
            ):
                assert option.show_default, (name, option.opts)


def test_exit_codes_ascend_and_success_is_named_only_with_a_condition() -> None:
    for name, command in commands():
        stated = re.search(r"Exit codes: (.*)", " ".join((command.help or "").split()))
        assert stated or name.startswith("spark "), name
        if stated:
            codes = [int(code) for code in re.findall(r"(?:^|[,;] )(\d+) ", stated[1])]
            assert codes == sorted(codes) and "0 done" not in stated[1], (name, stated[1])


def test_help_names_every_verb_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import sys, offsetfs.cli as c; code = c.run(['--help']); "
        "sys.exit(code or any(m in sys.modules for m in ('trio', 'pyfuse3', 'rich', 'offsetfs.cli.commands.mount')))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert all(f"  {verb}" in result.stdout for verb in VERBS)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"offsetfs {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mout"], "offsetfs: no such command 'mout'; did you mean mount? (see"),
        (["frobnicate"], "offsetfs: no such command 'frobnicate' (see"),
        (["mount"], "offsetfs mount: missing argument 'LOGDIR'"),
        (["mount", "/nowhere", "/nowhere", "-x"], "offsetfs mount: no such option"),
        (["mount", "/nowhere", "/nowhere", "-o", "rw,lingerms=5"], "offsetfs mount: unknown option 'lingerms'"),
        (["create", "/nowhere", "t", "--partitions", "0"], "offsetfs create: invalid value for '-p' / '--partitions'"),
        (["umount"], "offsetfs umount: missing argument 'MNT'"),
        (["status", "/nowhere"], "offsetfs status: /nowhere: there is no such directory"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_code_1(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == exit_codes.WRONG_CALL
    said = capsys.readouterr()
    assert said.err.startswith(sentence) and said.err.count("\n") == 1 and said.out == ""


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (Failure("no", 32), 32, "offsetfs status: no\n"),
        (KeyboardInterrupt(), 8, "offsetfs status: interrupted\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "offsetfs status: /x: Permission denied\n"),
        (OSError(28, "No space left on device"), 2, "offsetfs status: No space left on device\n"),
        (ValueError("odd"), 4, "offsetfs status: internal error: ValueError('odd')\n"),
        (None, 0, ""),
    ],
)
def test_each_end_has_its_code(
    error: BaseException | None,
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @click.command("status")
    def command() -> None:
        if error is not None:
            raise error

    module = types.ModuleType("offsetfs.cli.commands.status")
    module.__dict__["command"] = command
    monkeypatch.setitem(sys.modules, "offsetfs.cli.commands.status", module)
    assert run(["status"]) == code
    said = capsys.readouterr().err
    assert said.endswith(sentence) and (("Traceback" in said) == (code == exit_codes.INTERNAL))
