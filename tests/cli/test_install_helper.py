"""`offsetfs install-helper` writes what it lists, spares what is not its own, and takes away exactly what it wrote."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.cli.commands import install_helper
from offsetfs.cli.installed import contents
from offsetfs.cli.installed.contents import MARK, Installed
from offsetfs.cli.installed.installation import Installation, Ledger
from offsetfs.cli.installed.units import word

pytestmark = pytest.mark.unit

WHERE = {
    "sbin/mount.offsetfs",
    "sbin/mount.fuse.offsetfs",
    "usr/local/share/man/man1/offsetfs.1",
    "usr/local/share/man/man1/offsetfs-mount.1",
    "usr/local/share/man/man8/mount.offsetfs.8",
    "usr/local/share/bash-completion/completions/offsetfs",
    "usr/local/share/zsh/site-functions/_offsetfs",
    "usr/local/share/fish/vendor_completions.d/offsetfs.fish",
    "usr/local/lib/systemd/system/offsetfs@.service",
    "usr/local/lib/systemd/user/offsetfs@.service",
}
LEDGER = "usr/local/share/offsetfs/installed"
SCRIPT = "sbin/mount.offsetfs"


def files(root: Path) -> dict[str, bytes]:
    return {os.fspath(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system with a directory of its own and somebody's file."""
    (tmp_path / "root" / "sbin").mkdir(parents=True)
    (tmp_path / "root" / "sbin" / "mount.other").write_text("foreign")
    return tmp_path / "root"


def install(root: Path, *arguments: str) -> int:
    return run(["install-helper", "--root", os.fspath(root), *arguments])


def test_what_is_written_is_listed_and_lies_where_it_is_looked_for(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install(root) == 0
    listed = {line.removeprefix("wrote: /") for line in capsys.readouterr().out.splitlines()}
    there = files(root)
    assert set(there) >= WHERE and set(there) == listed | {LEDGER, "sbin/mount.other"}
    assert all(MARK.encode() in content for path, content in there.items() if path != "sbin/mount.other")


def test_everybody_may_read_it_whatever_the_umask(root: Path) -> None:
    before = os.umask(0o077)
    try:
        assert install(root) == 0
    finally:
        os.umask(before)
    for path in (root / "usr").rglob("*"):
        is_program = path.is_dir() or path.parent.name == "bin"
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if is_program else 0o644), path
    assert stat.S_IMODE((root / SCRIPT).stat().st_mode) == 0o755


def test_doing_it_again_changes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(root) == 0
    before = files(root)
    capsys.readouterr()
    assert install(root) == 0
    assert {line.split(":")[0] for line in capsys.readouterr().out.splitlines()} == {"unchanged"}
    assert files(root) == before


def test_remove_leaves_the_system_as_it_was(root: Path) -> None:
    before = sorted(root.rglob("*"))
    assert install(root) == 0
    assert install(root, "--remove") == 0
    assert sorted(root.rglob("*")) == before


def test_what_was_never_installed_is_not_removed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(root, "--remove") == 0
    assert capsys.readouterr().out == "nothing is installed\n" and set(files(root)) == {"sbin/mount.other"}


def test_a_dry_run_shows_it_and_does_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(root, "--dry-run") == 0
    assert f"would write: /{SCRIPT}" in capsys.readouterr().out and set(files(root)) == {"sbin/mount.other"}
    install(root)
    before = files(root)
    capsys.readouterr()
    assert install(root, "--remove", "--dry-run") == 0
    assert f"would remove: /{SCRIPT}" in capsys.readouterr().out and files(root) == before


# --- files of others -------------------------------------------------------------------------------------------------


def test_a_foreign_file_is_never_overwritten_and_nothing_is_written_then(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / SCRIPT).write_text("#!/bin/sh\necho mine\n")
    before = files(root)
    assert install(root) == exit_codes.FAILED
    assert f"/{SCRIPT}: there already" in capsys.readouterr().err
    assert files(root) == before
    assert install(root, "--force") == 0
    assert MARK in (root / SCRIPT).read_text()


def test_a_link_in_the_place_of_a_file_is_not_written_through(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(MARK)
    (root / SCRIPT).symlink_to(tmp_path / "elsewhere")
    assert install(root) == exit_codes.FAILED
    assert install(root, "--force") == 0
    assert (tmp_path / "elsewhere").read_text() == MARK and not (root / SCRIPT).is_symlink()


def test_a_file_that_was_changed_since_is_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(root)
    unit = root / "usr/local/lib/systemd/system/offsetfs@.service"
    unit.write_text(unit.read_text() + "Nice=5\n")
    assert install(root) == exit_codes.FAILED
    capsys.readouterr()
    assert install(root, "--remove") == 0
    assert "kept, changed since it was written" in capsys.readouterr().out
    left = set(files(root))
    assert left == {"sbin/mount.other", LEDGER, "usr/local/lib/systemd/system/offsetfs@.service"}
    assert install(root, "--remove", "--force") == 0
    assert set(files(root)) == {"sbin/mount.other"}


def test_files_of_an_earlier_version_are_taken_away_by_the_next(root: Path) -> None:
    def version(*names: str) -> None:
        installation = Installation(os.fspath(root), "/usr", lambda done, path: None, force=False, dry_run=False)
        installation.install([Installed(f"/usr/share/{name}", f"{MARK} {name}") for name in names])

    version("a", "b")
    version("b", "c")
    assert sorted(os.listdir(root / "usr" / "share")) == ["b", "c", "offsetfs"]


def test_the_ledger_is_read_by_sha256sum(root: Path) -> None:
    install(root)
    ledger = Ledger.parse((root / LEDGER).read_text())
    for path, digest in ledger.files.items():
        assert hashlib.sha256((root / path.lstrip("/")).read_bytes()).hexdigest() == digest
    assert Ledger.parse(ledger.text()) == ledger


# --- who, where, with what -------------------------------------------------------------------------------------------


def test_without_root_it_prints_the_reason(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run(["install-helper"]) == exit_codes.WRONG_CALL
    assert "run it as root, or with --root DIR" in capsys.readouterr().err


def test_a_package_has_it_below_usr(tmp_path: Path) -> None:
    assert install(tmp_path, "--prefix", "/usr", "--python", "/usr/bin/python3") == 0
    there = files(tmp_path)
    assert {"usr/sbin/mount.offsetfs", "usr/share/man/man8/mount.offsetfs.8"} < set(there)
    assert b"\nexec /usr/bin/python3 -I -X utf8 -m offsetfs.cli.mount_helper" in there["usr/sbin/mount.offsetfs"]
    assert b"ExecStart=/usr/bin/python3 -I" in there["usr/lib/systemd/system/offsetfs@.service"]


def test_a_prefix_is_a_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert install(tmp_path, "--prefix", "usr") == exit_codes.WRONG_CALL
    assert "must be an absolute path" in capsys.readouterr().err


@pytest.mark.parametrize(
    "interpreter", ["/opt/o'f f/bin/python", "/opt/$HOME/python", '/opt/"x"/python', "/opt/%n\\x/python"]
)
def test_the_path_of_the_interpreter_is_one_word_for_the_shell_and_for_systemd(
    tmp_path: Path, interpreter: str
) -> None:
    made = {each.path: each.content for each in contents.contents("/usr/local", interpreter)}
    script = made["/sbin/mount.offsetfs"].replace("exec ", 'printf "%s\\n" ', 1)
    said = subprocess.run(["sh", "-c", script, "sh", "a b"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [interpreter, "-I", "-X", "utf8", "-m", "offsetfs.cli.mount_helper", "a b"]
    assert f"ExecStart={word(interpreter)} -I " in made["/usr/local/lib/systemd/system/offsetfs@.service"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/opt/v-1_2.3/python", "/opt/v-1_2.3/python"),
        ("/opt/a b", '"/opt/a b"'),
        ('/o"p\\t', '"/o\\"p\\\\t"'),
        ("/o%n$HOME", '"/o%%n$$HOME"'),
    ],
)
def test_a_word_of_a_unit_is_quoted_as_systemd_reads_it(text: str, shown: str) -> None:
    assert word(text) == shown


def test_an_interpreter_that_finds_offsetfs_for_one_user_only_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert install(tmp_path) == exit_codes.WRONG_CALL
    assert "/bin/false finds offsetfs only for this user" in capsys.readouterr().err and files(tmp_path) == {}


def test_users_that_could_act_for_root_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.stat

    def owned(path: str, **how: Any) -> os.stat_result:
        found = real(path, **how)
        return os.stat_result((*found[:4], 1000, *found[5:10])) if path == sys.executable else found

    monkeypatch.setattr(os, "stat", owned)
    install_helper._check_interpreter(sys.executable)
    assert f"{sys.executable} belongs to user 1000, who can change what root then runs" in capsys.readouterr().err


@pytest.mark.long
def test_the_script_imports_nothing_from_where_it_is_called(root: Path, tmp_path: Path) -> None:
    install(root)
    trap = tmp_path / "trap"
    (trap / "offsetfs").mkdir(parents=True)
    for name in ("offsetfs/__init__.py", "click.py", "ctypes.py"):
        (trap / name).write_text("raise SystemExit('trapped')\n")
    environment = {**os.environ, "PYTHONPATH": os.fspath(trap), "LC_ALL": "C"}
    said = subprocess.run(
        [root / SCRIPT, "/none/ä", "/none"], cwd=trap, env=environment, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (
        1,
        "mount.offsetfs: /none: the mount point does not exist: create it with mkdir\n",
    )


def test_the_command_is_installed_for_the_path_with_the_manual_of_the_tree(root: Path) -> None:
    assert install(root) == 0
    done = subprocess.run(
        [root / "usr/local/bin/offsetfs", "--version"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0 and done.stdout.startswith("offsetfs ")
    assert (root / "usr/local/share/man/man7/offsetfs-tree.7").exists()
    assert (root / "usr/local/share/man/man1/offsetfs-spark-import.1").exists()
