"""The process that mirrors a cluster (`offsetfs mirror`, a mount of `kafka://`): its record in the registry.

    mirror-4711.json    process, start time, log directory, and the state of each partition, written again every second

Commands find it by the process that holds the lock of the log directory, as that of `serving_process`.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from offsetfs.cli.mounts import daemon_registry
from offsetfs.storage import files
from offsetfs.storage.directory import writer_of

if TYPE_CHECKING:
    from offsetfs.kafka.mirror.status import MirrorStatus

_BYTES_MAX = 1 << 26


def publish(log_directory: str, status: MirrorStatus) -> None:
    """Write the record of this process; OSError if another user could change files of the registry."""
    pid, registry = os.getpid(), daemon_registry.own_directory()
    daemon_registry.create_own(registry)
    head = {"pid": pid, "started": daemon_registry.started(pid), "directory": files.real_path(log_directory)}
    daemon_registry.replace_file(_path(pid, registry), json.dumps({**head, **status.as_json()}).encode() + b"\n")


def withdraw() -> None:
    """Remove the record of this process, if there is one."""
    with contextlib.suppress(OSError):
        os.unlink(_path(os.getpid(), daemon_registry.own_directory()))


def mirroring_process(log_directory: str) -> dict[str, Any] | None:
    """Return the record of the process that holds the lock of a log directory if it is a mirror of this user."""
    directory = files.real_path(log_directory)
    pid = writer_of(directory)
    if pid is None:
        return None
    registry = daemon_registry.own_directory()
    try:
        daemon_registry.check_own(registry)
        content: dict[str, Any] = json.loads(files.read_file(_path(pid, registry), _BYTES_MAX))
        is_it = content["directory"] == directory and content["started"] == daemon_registry.started(pid)
        return content if is_it else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(pid: int, registry: str) -> str:
    return os.path.join(registry, f"mirror-{pid}.json")
