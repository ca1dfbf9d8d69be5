"""The files that statements of a session may read and write: those that DuckDB's own settings allow.

A log directory is only read. DuckDB has no setting for "everything but this directory", so statements get no files at
all but those of named directories, none of which is at, in or above the log directory. DuckDB checks each access,
whatever the statement and however it computes the path, behind symbolic links too; after `lock_configuration` no
statement changes that. Reading the statements, as a version before did, missed texts with escapes and variables.

What may be written elsewhere without a check of paths is off: extensions, which are native code, persistent secrets,
and the settings of profiles, logs and temporary files. Bind mounts are recognized when the session begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import duckdb

from offsetfs.archive.urls import is_remote

_CHANGEABLE = (
    *("TimeZone", "Calendar", "memory_limit", "max_memory", "threads", "worker_threads", "max_execution_time"),
    *("search_path", "schema", "default_order", "default_null_order", "null_order", "default_collation"),
    *("preserve_insertion_order", "preserve_identifier_case", "integer_division", "ieee_floating_point_ops"),
    *("order_by_non_integer_literal", "max_expression_depth", "pivot_limit", "explain_output", "binary_as_string"),
    *("enable_progress_bar", "enable_progress_bar_print", "progress_bar_time", "disabled_optimizers"),
    *("enable_profiling", "profiling_coverage", "tracked_metrics", "scalar_subquery_error_on_multiple_rows"),
)
"""The settings that statements may change. None of them has a path, or lets DuckDB load or write anything."""

_LOG_ENDINGS = ("", ".checkpoint", ".recovery")
_MOUNTS = "/proc/self/mountinfo"


class FileRefused(Exception):
    """A file or directory at, in or above the log directory; the message has the remedy."""


class FileAccess:
    """The files that a session over one log directory may use."""

    def __init__(self, log_directory: str, named: Sequence[str] | None) -> None:
        """`named`: directories and files. None: the working directory, unless it is at, in or above the log directory.

        `FileRefused` for a named path that is. The URL of an archive is at no path.
        """
        self._log_directory = None if is_remote(log_directory) else os.path.realpath(log_directory)
        self.directories: list[str] = []
        self.files: list[str] = []
        if named is None:
            here = os.getcwd()
            if self._relation(here) is None:
                self.directories.append(os.path.realpath(here))
            return
        for name in named:
            path = os.path.realpath(name)
            self._check(name, self._relation(path))
            (self.directories if os.path.isdir(path) else self.files).append(path)

    def check_file(self, path: str) -> None:
        """Raise `FileRefused` for a file that is in the log directory."""
        relation = self._relation(os.path.realpath(path))
        self._check(path, None if relation == "is above" else relation)

    def apply(self, connection: duckdb.DuckDBPyConnection, spill: str) -> None:
        """Leave a connection these files and its directory for temporary files, for good."""
        directories = [os.path.join(directory, "") for directory in (*self.directories, spill)]
        files = [related for file in self.files for related in _with_companions(file)]
        connection.execute(f"SET allowed_directories = {_texts(directories)}")
        connection.execute(f"SET allowed_paths = {_texts(files)}")
        connection.execute(f"SET allowed_configs = {_texts(_CHANGEABLE)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def described(self) -> str:
        """Return what statements may use, for messages."""
        return ", ".join((*self.directories, *self.files)) or "no files"

    def _check(self, path: str, relation: str | None) -> None:
        if relation is not None:
            raise FileRefused(
                f"{path} {relation} the log directory, which SQL only reads; give a path outside of it"
                + (", or single files" if relation == "is above" else "")
            )

    def _relation(self, path: str) -> str | None:
        """Return how a real path is related to the log directory; None: not at all. Bind mounts are recognized."""
        if self._log_directory is None:
            return None
        if path == self._log_directory:
            return "is"
        inside, outside = _identities(self._log_directory), _identities(path)
        if (inside and inside[0] in outside) or _is_below(path, self._log_directory):
            return "is in"
        if _is_below(self._log_directory, path) or _identity(path) in inside:
            return "is above"
        if any(_identity(point) in inside or inside[:1] == _identities(point)[:1] for point in _mounts_below(path)):
            return "is above"
        return None


def _is_below(path: str, directory: str) -> bool:
    return os.path.commonpath([path, directory]) == directory


def _with_companions(path: str) -> list[str]:
    """Return a file, the logs of a database of that name, and the file that COPY renames to it."""
    folder, name = os.path.split(path)
    return [path, *(f"{path}.wal{end}" for end in _LOG_ENDINGS), os.path.join(folder, f"tmp_{name}")]


def _texts(values: Sequence[str]) -> str:
    return "[{}]".format(", ".join("'{}'".format(value.replace("'", "''")) for value in values))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _identities(path: str) -> list[tuple[int, int]]:
    """Return devices and inodes of a path, as far as it exists, and of the directories above it."""
    identities = []
    while True:
        if (identity := _identity(path)) is not None:
            identities.append(identity)
        above = os.path.dirname(path)
        if above == path:
            return identities
        path = above


def _mounts_below(directory: str) -> Iterator[str]:
    """Yield the mount points in a directory."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            points = [line.split(" ")[4].encode().decode("unicode_escape") for line in mounts]
    except OSError:
        return
    yield from (point for point in points if point != directory and _is_below(point, directory))
