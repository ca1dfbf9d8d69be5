"""The client libraries of object storage: their errors as OSError with the URL, and the ends of their connections.

Connections end when nothing uses them any longer, and when the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

_WRONG_CHECKSUM = "FlexibleChecksumError"
"""The error of botocore for bytes of a whole object that do not match the checksum of their upload."""

_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "BlobAlreadyExists", "412", "409")
"""Answers of S3 and Azure to a conditional creation: the object exists, or another writer creates it at the moment.

Other codes that Azure sends with the status 409, such as ContainerBeingDeleted, mean something else.
"""

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_UNKNOWN = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch"),
    *("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "401"),
)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError")
_DENIED = ("403", "AccessDenied", "AuthorizationFailure", "AuthorizationPermissionMismatch", "AccountIsDisabled")
_NOT_IMPLEMENTED = ("NotImplemented", "501")
"""Answers of a service to a header that it does not know, such as If-None-Match or a checksum of botocore."""

_PERMISSION = re.compile(r"\bstorage\.[a-z]+\.[a-zA-Z]+")  # as Google Cloud Storage names it in its message

_CALLS = {
    "cat_file": "reading objects",
    "info": "reading objects",
    "ls": "listing objects",
    "find": "listing objects",
    "pipe_file": "writing objects",
    "rm": "deleting objects",
}


class MissingBucket(FileNotFoundError):
    """The bucket, or the container, does not exist."""


class RefusedCredentials(Exception):
    """A provider's tools found no credentials, or gave no token for them; `code` names the error of the second case."""

    def __init__(self, code: str = "") -> None:
        super().__init__()
        self.code = code


class ShortObject(OSError):
    """A range begins at the end of an object or behind it."""


class StoreError(OSError):
    """An error that says itself what it means and what to do; only the URL is missing."""


def as_os_error(error: Exception, url: str, call: str, timeout_s: float) -> OSError:
    """Return the error of a library as an OSError with the URL, for any library. `call`: a method of fsspec."""
    if isinstance(error, StoreError):
        return OSError(error.errno, error.strerror, url)
    cause = next((link for link in _chain(error) if _code(link)), error)
    code, operation = _code(cause), str(getattr(cause, "operation_name", ""))
    said = _first_line(error)
    if code in _EXISTS or (isinstance(error, FileExistsError) and not code):
        return FileExistsError(errno.EEXIST, "the object exists already", url)
    if code in _NO_BUCKET or isinstance(error, MissingBucket):
        kind = "container" if url.startswith("a") else "bucket"
        return MissingBucket(errno.ENOENT, f"there is no such {kind}; create it, or correct the URL", url)
    if isinstance(error, FileNotFoundError) or code == "BlobNotFound":
        return FileNotFoundError(errno.ENOENT, "there is no such object", url)
    has_none = isinstance(error, RefusedCredentials) and not error.code
    if has_none or is_named(error, *_NO_CREDENTIALS) or "Anonymous caller" in said:
        return OSError(errno.EACCES, "no credentials were found; configure those of the provider's own tools", url)
    if code in _EXPIRED:
        return OSError(errno.EACCES, f"the credentials have expired ({operation}); renew them", url)
    if code in _UNKNOWN or isinstance(error, RefusedCredentials) or "failed to authenticate" in said:
        names = f"{operation}: {code}" if operation else code
        return OSError(errno.EACCES, f"the credentials are not accepted ({names}); correct or renew them", url)
    if isinstance(error, PermissionError) or code in _DENIED:
        permission = _PERMISSION.search(str(error))
        needed = operation or (permission[0] if permission else _CALLS[call])
        # HEAD has no body: 403 alone also stands for a wrong key
        wrong = "the credentials are wrong, or " if code == "403" else "the credentials "
        return OSError(errno.EACCES, f"access denied; {wrong}need the permission for {needed}", url)
    if code in _NOT_IMPLEMENTED:
        remedy = (
            "use a newer version of the store, with conditional writes (If-None-Match); where it refuses checksums "
            "alone, set AWS_REQUEST_CHECKSUM_CALCULATION=when_required"
        )
        return OSError(errno.ENOTSUP, f"the store refuses a header of {operation or _CALLS[call]}: {remedy}", url)
    if is_wrong_checksum(error):
        return OSError(errno.EIO, "the object is damaged: its bytes do not match their checksum", url)
    if code in ("416", "InvalidRange"):
        return ShortObject(errno.EIO, "the object is shorter than the range that was asked for", url)
    if isinstance(error, TimeoutError):
        return OSError(errno.EIO, f"no successful answer within {timeout_s:g} s, retries included", url)
    return OSError(errno.EIO, f"{operation}: {said}" if operation and operation not in said else said, url)


def is_wrong_checksum(error: BaseException) -> bool:
    """Whether the bytes of a whole object did not match the checksum of their upload."""
    return is_named(error, _WRONG_CHECKSUM)


def is_named(error: BaseException, *names: str) -> bool:
    """Whether an error, or one that it was raised for, is of a class with one of the names."""
    return any(type(link).__name__ in names for link in _chain(error))


_REASON_MAX = 80
"""The characters of a second line that are shown: behind the name it may be a regular expression."""


def _first_line(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    text = (said or str(error)).strip() or type(error).__name__
    first, *more = text.splitlines()
    if not more or not first.endswith(":"):
        return first
    reason = more[0].strip()
    return f"{first} {reason if len(reason) <= _REASON_MAX else reason[:_REASON_MAX] + '…'}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def _code(error: BaseException) -> str:
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        return str(response.get("Error", {}).get("Code", ""))
    code = getattr(error, "error_code", None) or getattr(error, "code", None)  # azure-core, gcsfs
    code = getattr(code, "value", code)
    return str(code) if isinstance(code, str | int) else ""


_CLOSE_S_MAX = 1.0


def close_with(owner: object, loop: AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run `close` in the event loop when `owner` is collected; it must not refer to `owner`."""
    weakref.finalize(owner, _close, loop, close, os.getpid())


def _close(loop: AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, object]], pid: int) -> None:
    if os.getpid() != pid or not loop.is_running():  # a forked child has no thread for the loop
        return
    try:
        is_inside = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_inside = False
    closing = asyncio.run_coroutine_threadsafe(close(), loop)
    if not is_inside:
        with contextlib.suppress(TimeoutError):
            closing.result(_CLOSE_S_MAX)
