"""Names of a package that are loaded when they are first asked for (PEP 562).

The packages of the engine's API name classes and functions of many modules. A command that uses two of them must not
load the others, because loading the whole engine takes longer than most commands run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

ENGINE = "offsetfs.storage"


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package`. `modules`: for each name the module of the engine that defines it.

    A name must differ from those of the submodules of `package`, because the import of a submodule sets the attribute
    of that name.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{ENGINE}.{modules[name]}"), name)

    return load
