"""Names of a package that are loaded when they are first asked for (PEP 562), from the stub beside its `__init__.py`.

Loading all that a package publishes takes longer than most commands run. `__init__.pyi` has the names for type
checkers; each of its lines is `from MODULE import NAME as NAME`. It is read when a name of the package is first asked
for: a file of 40 lines takes 50 µs.
"""

import os
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package`, which also has `__all__`.

    A name must differ from those of the submodules of `package`, because the import of a submodule sets the attribute
    of that name.
    """
    modules: dict[str, str] = {}

    def load(name: str) -> Any:
        if not modules:
            modules.update(_modules(package))
        if name == "__all__":
            return sorted(modules)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(__import__(modules[name], fromlist=[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def _modules(package: str) -> dict[str, str]:
    """Return the module of each name in the stub of a package."""
    with open(os.path.join(*sys.modules[package].__path__, "__init__.pyi"), "rb") as stub:
        words = stub.read().decode().split()
    return dict(zip(words[5::6], words[1::6], strict=True))
