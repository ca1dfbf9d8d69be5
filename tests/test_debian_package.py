"""The Debian package without its Python environment: what scripts/debian/stage puts beside it.

`scripts/release deb` builds the whole package, and `scripts/release try` installs, uses, upgrades and purges it.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from offsetfs.cli.installed.contents import MARK

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent
DEPENDS = "fuse3, python3 (>= 3.11~), python3 (<< 3.12~)"


def stage(tree: Path) -> None:
    who = {"DEBFULLNAME": "Ann Example", "DEBEMAIL": "ann@example.org", "SOURCE_DATE_EPOCH": "1700000000"}
    script = ROOT / "scripts" / "debian" / "stage"
    subprocess.run([script, tree, sys.executable, "1.2+deb12", DEPENDS], env=os.environ | who, check=True, cwd="/")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The staged files of a package."""
    tree = tmp_path_factory.mktemp("package") / "tree"
    stage(tree)
    return tree


def names(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}


def test_the_package_has_command_mount_helper_units_manual_and_completion(tree: Path) -> None:
    assert {
        "usr/bin/offsetfs",
        "usr/sbin/mount.offsetfs",
        "usr/sbin/mount.fuse.offsetfs",
        "usr/lib/systemd/system/offsetfs@.service",
        "usr/lib/systemd/system/offsetfs-serve@.service",
        "usr/lib/systemd/user/offsetfs@.service",
        "usr/share/man/man1/offsetfs.1.gz",
        "usr/share/man/man7/offsetfs-tree.7.gz",
        "usr/share/man/man8/mount.offsetfs.8.gz",
        "usr/share/bash-completion/completions/offsetfs",
        "usr/share/zsh/vendor-completions/_offsetfs",
        "usr/share/fish/vendor_completions.d/offsetfs.fish",
        "usr/share/doc/offsetfs/copyright",
        "usr/share/doc/offsetfs/changelog.gz",
    } <= names(tree)


def test_every_command_of_the_package_calls_the_python_of_the_package(tree: Path) -> None:
    for script in ("usr/bin/offsetfs", "usr/sbin/mount.offsetfs"):
        assert "\nexec /usr/lib/offsetfs/bin/python3 -I -X utf8 -m offsetfs" in (tree / script).read_text()
        assert os.access(tree / script, os.X_OK)
    unit = (tree / "usr/lib/systemd/system/offsetfs-serve@.service").read_text()
    assert "ExecStart=/usr/lib/offsetfs/bin/python3 -I -X utf8 -m offsetfs serve" in unit
    texts = [path.read_bytes() for path in tree.rglob("*") if path.is_file()]
    unpacked = [gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text for text in texts]
    assert not [text for text in unpacked if sys.executable.encode() in text]


def test_install_helper_takes_no_file_of_the_package_for_its_own(tree: Path) -> None:
    assert "usr/share/offsetfs/installed" not in names(tree)
    scripts = [path.read_text() for path in (tree / "usr").rglob("*") if path.is_file() and path.suffix != ".gz"]
    assert not [text for text in scripts if MARK in text]
    assert "Belongs to the Debian package offsetfs." in (tree / "usr/bin/offsetfs").read_text()


def test_dpkg_builds_the_package_with_the_same_bytes_each_time(tree: Path, tmp_path: Path) -> None:
    again = tmp_path / "tree"
    stage(again)
    built: list[bytes] = []
    for place in (tree, again):
        file = tmp_path / f"{len(built)}.deb"
        subprocess.run(
            ["dpkg-deb", "-Znone", "--build", "--root-owner-group", place, file],
            env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
            check=True,
            capture_output=True,
        )
        built.append(file.read_bytes())
    assert built[0] == built[1]
    shown = subprocess.run(["dpkg-deb", "-f", tmp_path / "0.deb"], check=True, capture_output=True, text=True).stdout
    assert "Version: 1.2+deb12\n" in shown and f"Depends: {DEPENDS}\n" in shown
    assert "Maintainer: Ann Example <ann@example.org>\n" in shown


def test_maintainer_scripts_compile_and_clean_and_do_nothing_else(tree: Path) -> None:
    assert {path.name for path in (tree / "DEBIAN").iterdir()} == {"control", "md5sums", "postinst", "postrm", "prerm"}
    for name in ("postinst", "postrm", "prerm"):
        script = tree / "DEBIAN" / name
        assert os.access(script, os.X_OK)
        subprocess.run(["sh", "-n", script], check=True)
