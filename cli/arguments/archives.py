"""LOGDIR as the URL of an archive in object storage: attached to this process, so that its path can be read.

Local paths import nothing of it.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from offsetfs.cli.exit_codes import FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.storage import files

if TYPE_CHECKING:
    from offsetfs.archive.reading import ReadSettings

_URL_SIGN = "://"
READ_ONLY = "is an archive, which is read-only; append to the log directory that is archived"


def is_archive(text: str) -> bool:
    """Whether LOGDIR, or another path, is the URL of an archive."""
    if _URL_SIGN not in text:
        return False
    from offsetfs.archive import urls

    return urls.is_remote(text)


def attached(text: str, settings: ReadSettings | None = None) -> str:
    """Return the path to open for `text`: of an archive, once it is attached; otherwise `text`. `Failure`."""
    if not is_archive(text):
        return text
    from offsetfs.archive import reading

    try:
        return reading.attach(text, settings or reading.DEFAULTS)
    except OSError as error:
        raise Failure(f"{error.filename or text}: {error.strerror}", exit_code(error, text)) from error


def exit_code(error: OSError, url: str) -> int:
    """Return the exit code of a command that cannot use the archive at `url`; `error` is that of the store or the disk.

    A wrong call: the URL does not fit, its bucket is missing, there is no archive or not the state that was asked for,
    or credentials and permissions are missing. Failed: something else is in the way, or a part of the archive is
    missing or damaged. Anything else, such as no answer, is an error of the system.
    """
    from offsetfs.archive.store_libraries import MissingBucket

    if isinstance(error, MissingBucket) or error.errno in (errno.EACCES, errno.EPERM, errno.ENOTEMPTY, errno.ENOTSUP):
        return WRONG_CALL
    if error.errno in (errno.ENOENT, errno.EINVAL):
        about = str(error.filename or "").rstrip("/")
        return WRONG_CALL if f"{url.rstrip('/')}/".startswith(f"{about}/") else FAILED
    return FAILED if error.errno in (errno.EEXIST, errno.ESTALE) else SYSTEM


def is_directory(path: str) -> bool:
    """Whether a path of a disk or of an attached archive is a directory; links are followed."""
    return files.is_directory(path) if is_archive(path) else os.path.isdir(path)


def exists(path: str) -> bool:
    """Whether a path of a disk or of an attached archive exists; links are not followed."""
    return files.exists(path) if is_archive(path) else os.path.lexists(path)
