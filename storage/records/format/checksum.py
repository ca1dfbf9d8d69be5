"""The checksum of batches and snapshots, CRC-32C, by the extension module of the crc32c package.

`crc32c(data, before=0)` returns the checksum of `data` behind bytes with the checksum `before`. The package itself asks
for its version when it is imported. For that it loads the modules of mail, sockets and archives: a tenth of the time
that most commands run. So only its extension module is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

_PACKAGE = "crc32c"
_MODULE = f"{_PACKAGE}._crc32c"


def _extension() -> Any:
    if _MODULE in sys.modules:
        return sys.modules[_MODULE]
    package = PathFinder.find_spec(_PACKAGE)
    locations = None if package is None else package.submodule_search_locations
    spec = None if locations is None else PathFinder.find_spec(_MODULE, locations)
    if spec is None or spec.loader is None:  # a package of another form
        return __import__(_PACKAGE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_MODULE] = module
    return module


crc32c: Callable[..., int] = _extension().crc32c
