"""The command that installs the packages of an extra, for messages about a missing package."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator

_EXTRA = re.compile(r'extra == "([a-z0-9]+)"')
_PACKAGED = "/usr/lib/offsetfs"
"""Where the package of Debian and the image have offsetfs."""

_NESTED = re.compile(r"offsetfs\[([a-z0-9,]+)\]")


def install_command(extra: str) -> str:
    """Return the command that installs the packages of `extra` where this process runs: with pip, pipx or uv.

    A package of Debian and an image have no pip; beside them it is an environment of its own. The packages are named,
    because offsetfs itself may be installed from a file, which pip would search in its index.
    """
    import importlib.metadata  # slow to import
    import importlib.util

    try:
        packages = [*dict.fromkeys(_packages(extra, importlib.metadata.requires("offsetfs") or []))]
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        packages = []
    names = shlex.join(packages or [f"offsetfs[{extra}]"])
    place = sys.prefix + os.sep
    if f"{os.sep}pipx{os.sep}venvs{os.sep}" in place:
        return f"pipx inject {os.path.basename(sys.prefix)} {names}"
    if f"{os.sep}uv{os.sep}tools{os.sep}" in place:
        return f"uv tool install --upgrade offsetfs {' '.join('--with ' + shlex.quote(name) for name in packages)}"
    if sys.prefix == _PACKAGED:
        return f"pipx install {shlex.quote(f'offsetfs[{extra}]')}, beside this package"
    if _is_made_by_uv(sys.prefix):
        return f"uv pip install --python {shlex.quote(sys.executable)} {names}"
    if importlib.util.find_spec("pip") is None:  # python -m venv --without-pip: another pip installs into it
        return f"pip --python {shlex.quote(sys.executable)} install {names}"
    return f"{shlex.quote(sys.executable)} -m pip install {names}"


def _is_made_by_uv(prefix: str) -> bool:
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8") as file:
            return any(line.partition("=")[0].strip() == "uv" for line in file)
    except (OSError, ValueError):
        return False


def _packages(extra: str, requirements: list[str]) -> Iterator[str]:
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        if extra not in _EXTRA.findall(marker):
            continue
        nested = _NESTED.fullmatch(package.strip())
        if nested is None:
            yield package.strip()
            continue
        for name in nested[1].split(","):
            yield from _packages(name, requirements)
