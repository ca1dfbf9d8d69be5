"""The errors for changes that a mount does not permit."""

from __future__ import annotations

import errno

from pyfuse3 import FUSEError

from offsetfs.fs.reporting.error_log import ErrorLog, Fault


class Refusals:
    """Makes the errors of refused changes: EROFS on a read-only mount, else EPERM."""

    def __init__(self, error_log: ErrorLog, *, is_read_only: bool) -> None:
        self._error_log = error_log
        self._is_read_only = is_read_only

    def error(self) -> FUSEError:
        """Return the error for a change that is not possible."""
        return FUSEError(errno.EROFS if self._is_read_only else errno.EPERM)

    def missing_option(self, option: str, op: str, path: str) -> FUSEError:
        """Return the error for a change that needs the mount option `option`, and record which one is missing."""
        if not self._is_read_only:
            self._error_log.report(
                Fault(errno.EPERM, op, path, f"the option {option} was not given", f"use -o {option}")
            )
        return self.error()
