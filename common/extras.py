"""The command that installs the packages of an extra, for messages about a missing package."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator

_EXTRA = re.compile(r'extra == "([a-z0-9]+)"')
_NESTED = re.compile(r"offsetfs\[([a-z0-9,]+)\]")


def install_command(extra: str) -> str:
    """Return the command that installs the packages of `extra` where this process runs: with pipx, or its interpreter.

    The packages are named, because offsetfs itself may be installed from a file, which pip would search in its index.
    """
    import importlib.metadata  # slow to import

    try:
        packages = [*dict.fromkeys(_packages(extra, importlib.metadata.requires("offsetfs") or []))]
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        packages = []
    names = shlex.join(packages or [f"offsetfs[{extra}]"])
    if f"{os.sep}pipx{os.sep}venvs{os.sep}" in sys.prefix + os.sep:
        return f"pipx inject {os.path.basename(sys.prefix)} {names}"
    return f"{shlex.quote(sys.executable)} -m pip install {names}"


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
