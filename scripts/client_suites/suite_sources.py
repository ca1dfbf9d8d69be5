"""Download the sources of client suites, in pinned versions, and verify their checksums.

Debian's source packages come through apt with a list of sources of its own, so that the machine's sources stay as they
are. Go modules come through `go mod download`, which verifies them against Go's checksum database too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class SuiteError(Exception):
    """A suite cannot be downloaded, built or run; the text says why."""


def require_commands(commands: Mapping[str, str]) -> None:
    """Raise SuiteError if one of `commands`, or of paths of headers, is not there; each with its Debian package."""
    missing = sorted({package for each, package in commands.items() if not (shutil.which(each) or Path(each).exists())})
    if missing:
        raise SuiteError(f"missing packages: apt-get install {' '.join(missing)}")


def run_quietly(command: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a step of a build; raise SuiteError with the end of its output if it fails."""
    with log.open("ab") as output:
        done = subprocess.run(
            ["nice", "-n", "5", *command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            check=False,
        )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise SuiteError(f"{' '.join(command)} failed, see {log}\n{tail}")


def unpack_debian_source(package: str, version: str, release: str, sha256: str, folder: Path) -> None:
    """Unpack the original archive of a source package of Debian's `release` as `folder`."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "lists" / "partial").mkdir(parents=True)
        sources = scratch / "sources.list"
        sources.write_text(f"deb-src [signed-by={KEYRING}] http://deb.debian.org/debian {release} main\n")
        options = [
            f"Dir::Etc::sourcelist={sources}",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::Lists={scratch / 'lists'}",
            f"Dir::Cache={scratch}",
            "APT::Sandbox::User=",  # apt's own user cannot write into our directory
        ]
        apt = ["apt-get", *(word for option in options for word in ("-o", option))]
        log = folder.parent / f"{folder.name}.log"
        run_quietly([*apt, "update"], cwd=scratch, log=log)
        run_quietly([*apt, "source", "--download-only", "--tar-only", f"{package}={version}"], cwd=scratch, log=log)
        archive = next(scratch.glob("*.orig.tar.*"))
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != sha256:
            raise SuiteError(f"{archive.name} of Debian has the checksum {found}, and {sha256} is pinned")
        unpacked = scratch / "unpacked"
        unpacked.mkdir()
        run_quietly(["tar", "--no-same-owner", "-xf", str(archive)], cwd=unpacked, log=log)
        next(unpacked.iterdir()).rename(folder)


def unpack_python_source(name: str, version: str, sha256: str, folder: Path) -> None:
    """Unpack the source archive of a Python package as `folder`."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch_name:
        scratch = Path(scratch_name)
        requirements = scratch / "requirements.txt"
        requirements.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
        log = folder.parent / f"{folder.name}.log"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
        run_quietly([*pip, "--no-binary", ":all:", "--require-hashes", "-r", str(requirements)], cwd=scratch, log=log)
        archive = next(scratch.glob("*.tar.gz"))
        unpacked = scratch / "unpacked"
        unpacked.mkdir()
        run_quietly(["tar", "--no-same-owner", "-xf", str(archive)], cwd=unpacked, log=log)
        next(unpacked.iterdir()).rename(folder)


def go_module(path: str, version: str, checksum: str, folder: Path) -> Path:
    """Download a Go module and return its directory, which is read-only."""
    words = ["go", "mod", "download", "-json", f"{path}@{version}"]
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise SuiteError(f"{' '.join(words)} failed\n{done.stdout.decode()}{done.stderr.decode()}")
    found = json.loads(done.stdout)
    if found["Sum"] != checksum:
        raise SuiteError(f"{path} {version} has the checksum {found['Sum']}, and {checksum} is pinned")
    return Path(found["Dir"])


def copy_of_go_module(path: str, version: str, checksum: str, folder: Path) -> None:
    """Download a Go module and copy its directory as `folder`, which can be written."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        copied = Path(name) / folder.name
        shutil.copytree(go_module(path, version, checksum, folder.parent), copied)
        for each in (copied, *copied.rglob("*")):
            each.chmod(each.stat().st_mode | stat.S_IWUSR)
        copied.rename(folder)
