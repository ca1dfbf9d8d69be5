"""The credentials and ACLs of a log directory: read and changed in it, or through the process that serves it."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Sequence
from typing import Any

import click

from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.cli.mounts.serving_process import serving_process
from offsetfs.cli.terminal.progress import open_for_writing
from offsetfs.common.security_rows import SECURITY_ROWS
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.storage import LogDirectory
from offsetfs.storage.directory import has_meta_properties
from offsetfs.storage.errors import LogDirectoryLocked, StorageError
from offsetfs.storage.security import SecurityImage, security_record_bytes


def read(log_directory: str, action: str) -> Any:
    """Return the rows of an action of `SECURITY_ROWS`; `Failure`."""
    server = serving_process(log_directory)
    if server is not None:
        return server.request(action, [])
    rows = SECURITY_ROWS[action]
    if not os.listdir(log_directory):  # where the first one can be added
        return rows(SecurityImage())
    try:
        with contextlib.closing(LogDirectory.open(log_directory, read_only=True)) as directory:
            return rows(directory.security.image)
    except StorageError as error:
        raise Failure(str(error)) from error


def change(log_directory: str, records: Sequence[ProtocolMessage], command: str) -> None:
    """Apply records; they are on disk when this returns. `Failure`. Warnings begin with the name of the command."""
    if has_meta_properties(log_directory):
        click.echo(
            f"offsetfs {command}: warning: {log_directory} belongs to a broker, which does not read this change; only "
            "offsetfs uses it",
            err=True,
        )
    try:
        directory = open_for_writing(log_directory)
    except LogDirectoryLocked as error:
        server = serving_process(log_directory)
        if server is None:
            raise in_use(error, log_directory, UNMOUNT_FIRST) from error
        texts = [base64.b64encode(security_record_bytes(record)).decode() for record in records]
        server.request("change_security", [], records=texts)
        return
    except StorageError as error:
        raise Failure(str(error)) from error
    try:
        directory.security.change(records)
    except StorageError as error:
        raise Failure(str(error)) from error
    finally:
        directory.close()
