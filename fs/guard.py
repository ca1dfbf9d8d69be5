"""The last fence around the handlers of a mount: nothing but FUSEError gets out.

pyfuse3 ends its loop, and with it the whole mount, when a handler raises anything else. Operations turn the errors
they know into FUSEError themselves; what arrives here is a mistake of ours, so it is logged with its traceback, and
the one request that met it fails with EIO.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pyfuse3

from offsetfs.fs.errors import errno_of

_log = logging.getLogger(__name__)

HANDLERS = (
    *("lookup", "forget", "getattr", "setattr", "access", "statfs"),
    *("open", "create", "read", "write", "flush", "fsync", "release", "poll"),
    *("opendir", "readdir", "fsyncdir", "releasedir"),
    *("readlink", "symlink", "link", "mknod", "mkdir", "unlink", "rmdir", "rename"),
    *("getxattr", "setxattr", "listxattr", "removexattr"),
)

_Handler = Callable[..., Awaitable[Any]]


def guard(operations: pyfuse3.Operations) -> None:
    """Fence every handler of `operations`, in place."""
    for name in HANDLERS:
        setattr(operations, name, fenced(getattr(operations, name), is_answered=name != "forget"))


def fenced(handler: _Handler, *, is_answered: bool = True) -> _Handler:
    """Return `handler` with every exception but FUSEError turned into one, and logged.

    A request that the kernel expects no answer to (`is_answered` False) raises nothing at all.
    """

    @functools.wraps(handler)
    async def call(*arguments: Any) -> Any:
        try:
            return await handler(*arguments)
        except pyfuse3.FUSEError:
            if is_answered:
                raise
        except Exception as error:
            _log.exception("%s failed", handler.__name__)
            if is_answered:
                raise pyfuse3.FUSEError(errno_of(error)) from error

    return call
