"""TAB in bash, zsh and fish: what is offered, and that asking is quick."""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.cli import VERBS, root_command
from offsetfs.cli.completion.scripts import VARIABLE, Bash, script
from offsetfs.fs.options import takes_value

pytestmark = pytest.mark.unit

HEAVY = ("trio", "pyfuse3", "rich", "offsetfs.fs.mounting.mount")
SHELLS = ("bash", "zsh", "fish")
BREAKS = " \t\n\"'><=;|&(:"


Items = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> Items:
    """Call it with a line that ends at the cursor: kinds and values of what is answered to bash."""

    def ask(line: str, *, breaks: str = BREAKS) -> list[tuple[str, str]]:
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_WORDBREAKS", breaks)
        said = Bash(root_command, {}, "offsetfs", VARIABLE).complete()
        return [(kind, value) for kind, _, value in (each.partition(",") for each in said.splitlines())]

    return ask


def asked(line: str, afterwards: str) -> str:
    """Let a process answer as a shell's does; return what it prints, `afterwards` in the last line."""
    program = (
        f"import os, sys, atexit; os.environ.update(_OFFSETFS_COMPLETE='bash_complete', COMP_WORDS={line!r})\n"
        f"atexit.register(lambda: print({afterwards}))\n"
        "from offsetfs.cli import main; main()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


# --- what is offered -------------------------------------------------------------------------------------------------


def test_verbs_come_first_and_none_is_loaded(items: Items) -> None:
    assert items("offsetfs ") == [("plain", verb) for verb in VERBS]
    assert items("offsetfs um") == [("plain", "umount")]
    assert set(items("offsetfs --")) == {("plain", "--version"), ("plain", "--help")}
    said = asked("offsetfs ", "*[m for m in sys.modules if m.startswith(('offsetfs.', 'trio', 'rich'))]")
    *verbs, loaded = said.splitlines()
    assert verbs == [f"plain,{verb}" for verb in VERBS]
    assert not {f"offsetfs.cli.commands.{verb.replace('-', '_')}" for verb in VERBS} & set(loaded.split())
    assert not any(name.startswith(("offsetfs.storage", "offsetfs.fs", "trio", "rich")) for name in loaded.split())


@pytest.mark.long
def test_no_verb_loads_anything_heavy_to_complete() -> None:
    modules = [f"offsetfs.cli.commands.{verb.replace('-', '_')}" for verb in VERBS]
    load = f"[__import__(name) for name in {modules}] and [m for m in {HEAVY} if m in sys.modules]"
    assert asked("offsetfs mount --", load).splitlines() == [
        "plain,--config",
        "plain,--foreground",
        "plain,--help",
        "[]",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("offsetfs mount ", [("dir", "")]),
        ("offsetfs mount /va", [("dir", "/va")]),
        ("offsetfs mount log ", [("dir", "")]),
        ("offsetfs verify lo", [("dir", "lo")]),
        ("offsetfs dump fi", [("file", "fi")]),
        ("offsetfs dump --files ", [("file", "")]),
        ("offsetfs truncate log ", [("plain", "orders-0"), ("plain", "orders-1"), ("plain", "users.v2-0")]),
        ("offsetfs truncate log o", [("plain", "orders-0"), ("plain", "orders-1")]),
        ("offsetfs clean log users.v2-0 orders-1", [("plain", "orders-1")]),
        ("offsetfs verify log u", [("plain", "users.v2-0")]),
        ("offsetfs dump log u", [("plain", "users.v2-0")]),
        ("offsetfs delete-records log o", [("part", "orders-0="), ("part", "orders-1=")]),
        ("offsetfs delete log ord", [("plain", "orders"), ("plain", "orders-0"), ("plain", "orders-1")]),
        ("offsetfs config log ", [("plain", "orders"), ("plain", "users.v2")]),
        ("offsetfs config log orders retention.m", [("part", "retention.ms=")]),
        ("offsetfs create log t -o retention.m", [("part", "retention.ms=")]),
        ("offsetfs mirror b:9092 t -o re", [("part", "retention.ms=")]),
        ("offsetfs serve t -o log.roll.h", [("part", "log.roll.hours=")]),
        ("offsetfs sql log --param retention.m", []),
        ("offsetfs truncate 'with blank' ", [("plain", "spaced-0")]),
        ("offsetfs truncate nowhere ", []),
        ("offsetfs cat log o", [("part", "orders-0/"), ("part", "orders-1/")]),
        ("offsetfs cat log orders-1/42 R", [("plain", "README")]),
        ("offsetfs ls log orders-0/se", [("part", "orders-0/segments/")]),
        (
            "offsetfs append log orders-0/append",
            [("plain", f"orders-0/append{end}") for end in ("", ".ndjson", ".raw")],
        ),
        ("offsetfs follow log orders-0/f", [("plain", "orders-0/first"), ("plain", "orders-0/follow")]),
        ("offsetfs follow log orders-7/f", []),
        ("offsetfs append log orders-0 -o lin", [("part", "linger-ms=")]),
        ("offsetfs mount --fore", [("plain", "--foreground")]),
        ("offsetfs mount log mnt -o li", [("part", "list="), ("part", "linger-ms="), ("part", "listen=")]),
        ("offsetfs mount log mnt -o ro,cr", [("plain", "ro,create")]),
        ("offsetfs mount log mnt -o create,list=5,cr", []),
        ("offsetfs mount log mnt -o isolation=", [("plain", "read_uncommitted"), ("plain", "read_committed")]),
        ("offsetfs mount log mnt -o ro,flush-ms=o", [("plain", "off")]),
    ],
)
def test_what_may_follow_is_offered(
    line: str, expected: list[tuple[str, str]], items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("log/orders-0", "log/orders-1", "log/users.v2-0", "log/not a partition", "with blank/spaced-0"):
        (tmp_path / path).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert items(line) == expected


def test_every_option_of_a_mount_is_offered(items: Items) -> None:
    assert items("offsetfs mount log mnt -o ") == [
        ("part" if has_value else "plain", f"{name}=" if has_value else name)
        for name, has_value in takes_value().items()
    ]


def test_where_an_equals_sign_ends_no_word_the_whole_word_is_given(items: Items) -> None:
    whole = items("offsetfs mount log mnt -o ro,isolation=read_c", breaks=" \t\n")
    assert whole == [("plain", "ro,isolation=read_committed")]


def test_a_log_directory_is_found_where_the_shell_would_find_it(
    items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs" / "orders-0").mkdir(parents=True)
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert items("offsetfs truncate ~/logs ") == [("plain", "orders-0")]
    assert items("offsetfs truncate $HOME/logs ") == [("plain", "orders-0")]


@pytest.mark.long
def test_asking_for_verbs_is_quick() -> None:
    """150 ms by the wall on an idle machine. Here it is processor time, relative to a process that imports click alone.

    The engine would take three times as long, on a slow or busy machine as well.
    """

    def seconds(answer: Callable[[], object]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def import_click() -> None:
        subprocess.run([sys.executable, "-c", "import click"], check=True)

    rounds = [(seconds(lambda: asked("offsetfs ", "''")), seconds(import_click)) for _ in range(3)]
    assert min(each[0] for each in rounds) < 2 * min(each[1] for each in rounds), rounds


# --- in the shells ---------------------------------------------------------------------------------------------------


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the scripts, a log directory, and `offsetfs` on PATH."""
    for shell in SHELLS:
        (tmp_path / f"complete.{shell}").write_text(script(shell, root_command))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "offsetfs").write_text(f'#!/bin/sh\nexec {sys.executable} -m offsetfs "$@"\n')
    (tmp_path / "bin" / "offsetfs").chmod(0o755)
    (tmp_path / "log" / "orders-0").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_parses_its_script(shell: str, on_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    result = subprocess.run([shell, "-n", f"complete.{shell}"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


TYPED = {
    "offsetfs umo\t": "offsetfs umount ",
    "offsetfs mount lo\t": "offsetfs mount log/",
    "offsetfs truncate log or\t": "offsetfs truncate log orders-0 ",
    "offsetfs mount log mnt -o ro,lin\t": "offsetfs mount log mnt -o ro,linger-ms=",
    "offsetfs mount log mnt -o isolation=read_c\t": "offsetfs mount log mnt -o isolation=read_committed ",
    "offsetfs delete-records log ord\t": "offsetfs delete-records log orders-0=",
}
SHELL = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        'source ./complete.bash; keep() { echo "kept[$READLINE_LINE]"; READLINE_LINE=; }; bind -x \'"\\C-xk": keep\'',
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; source ./complete.zsh; "
        "keep() { print -r -- \"kept[$BUFFER]\"; BUFFER= }; zle -N keep; bindkey '^Xk' keep",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELL)
def test_tab_completes_in_a_real_shell(shell: str, on_path: Path) -> None:
    """Types lines on a terminal; a key of the test's own prints the line as it stands, and empties it."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    command, setup = SHELL[shell]
    ours, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null", "HOME": os.fspath(on_path)}
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True, env=environment
    ) as process:
        os.close(terminal)
        os.write(ours, f"{setup}; echo ready$((1))\n".encode())
        read_until(ours, rb"ready1")
        for typed, completed in TYPED.items():
            os.write(ours, typed.encode() + b"\x18k")
            assert read_until(ours, rb"kept\[([^$\r\n]*)\]").decode() == completed
        os.write(ours, b"\x04")
        process.wait(timeout=30)
    os.close(ours)


def read_until(terminal: int, pattern: bytes) -> bytes:
    """Read what a shell shows until it matches; return the group, or the match."""
    said = b""
    while True:
        found = re.search(pattern, said)
        if found is not None:
            return found[found.re.groups]
        assert select.select([terminal], [], [], 60)[0], said
        said += os.read(terminal, 4096)


@pytest.mark.long
def test_fish_offers_it(on_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    offered = {
        "offsetfs umo": "umount\tUnmount it, and wait until everything is on disk.",
        "offsetfs mount lo": "log/\tDirectory",
        "offsetfs truncate log o": "orders-0",
        "offsetfs mount log mnt -o ro,ling": "ro,linger-ms=",
    }
    lines = "; ".join(f"complete --do-complete '{line}'" for line in offered)
    command = ["fish", "--no-config", "--command", f"source complete.fish; {lines}"]
    environment = {**os.environ, "HOME": os.fspath(on_path)}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.splitlines() == list(offered.values())
