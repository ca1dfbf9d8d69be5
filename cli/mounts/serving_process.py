"""The process that serves a log directory with `offsetfs serve`: its record in the registry, and requests to it.

    serve-4711.json     process, start time, log directory, listeners, page; beside those of mounts (`daemon_registry`)
    serve-4711.sock     the socket of its `common.control_server`

Commands find the record by the process that holds the lock of the log directory. So the record of a process that has
ended misleads no command. The next process that registers removes what killed ones have left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.storage import TopicPartition, files
from offsetfs.storage.directory import writer_of

ANSWER_S = 120.0
"""The longest time that a command waits for an answer, such as that of the deletion of thousands of partitions."""

_ANSWER_BYTES = 1 << 16
_NAME = re.compile(r"serve-([0-9]{1,10})\.(json|sock|json\.tmp)")


@dataclass(frozen=True, slots=True)
class ServingProcess:
    """A process that serves a log directory. `started`: clock ticks between boot and start of the process."""

    pid: int
    started: int
    directory: str
    listeners: tuple[str, ...]
    registry: str
    page: str = ""
    """The address of its page, with the token; "" without one."""

    @property
    def addresses(self) -> str:
        return ", ".join(self.listeners)

    def request(self, action: str, partitions: list[TopicPartition], **arguments: object) -> Any:
        """Return the result of an action that the process has carried out; `Failure` with its reason."""
        message = {"action": action, "partitions": [str(partition) for partition in partitions], **arguments}
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.settimeout(ANSWER_S)
                stream.connect(socket_path(self.pid, self.registry))
                stream.sendall(json.dumps(message).encode() + b"\n")
                answer = json.loads(b"".join(iter(lambda: stream.recv(_ANSWER_BYTES), b"")))
        except TimeoutError as error:
            raise Failure(
                f"{self.directory} is served at {self.addresses}: no answer of process {self.pid} within {ANSWER_S:g} "
                "s; it may carry out the command later, see its log"
            ) from error
        except (OSError, ValueError) as error:
            reason = "process does not answer commands" if isinstance(error, OSError) else "process ended meanwhile"
            raise Failure(f"{self.directory} is served at {self.addresses}: {reason} ({self.pid})") from error
        if "failure" in answer:
            raise Failure(str(answer["failure"]))
        return answer["done"]


def socket_path(pid: int, registry: str) -> str:
    """Return the path of the socket on which process `pid` answers commands."""
    return os.path.join(registry, f"serve-{pid}.sock")


def register(log_directory: str, listeners: tuple[str, ...], page: str = "") -> None:
    """Write the record of this process, for its user alone. OSError if another user could change the registry."""
    pid, registry = os.getpid(), daemon_registry.own_directory()
    started = daemon_registry.started(pid) or 0
    process = ServingProcess(pid, started, files.real_path(log_directory), listeners, registry, page)
    daemon_registry.create_own(registry)
    _remove_dead(registry)
    daemon_registry.replace_file(_path(pid, registry), json.dumps(dataclasses.asdict(process)).encode() + b"\n")


def unregister() -> None:
    """Remove the record of this process, if there is one."""
    with contextlib.suppress(OSError):
        os.unlink(_path(os.getpid(), daemon_registry.own_directory()))


def _remove_dead(registry: str) -> None:
    """Remove the records and sockets of processes that were killed, from a registry of this user."""
    for name in os.listdir(registry):
        named = _NAME.fullmatch(name)
        if named is None:
            continue
        started, record = daemon_registry.started(int(named[1])), _read(int(named[1]), registry, os.geteuid())
        # Another process may have the number of a killed process by now, and its own socket.
        is_of_another = named[2] == "json" and record is not None and record.started != started
        if started is None or is_of_another:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(registry, name))


def serving_process(log_directory: str) -> ServingProcess | None:
    """Return the process that holds the lock of a log directory if it is `offsetfs serve` of this user, or for root."""
    directory = files.real_path(log_directory)
    pid = writer_of(directory)
    if pid is None:
        return None
    for registry, owner in _registries(pid):
        process = _read(pid, registry, owner)
        if process is not None and process.directory == directory and daemon_registry.started(pid) == process.started:
            return process
    return None


def _registries(pid: int) -> Iterator[tuple[str, int]]:
    """Yield the registries in which process `pid` may be, with their owners: this user, for root also its own user."""
    own = os.geteuid()
    owner = daemon_registry.owner_of(pid)
    if owner == own:
        yield daemon_registry.own_directory(), own
    elif own == 0 and owner is not None:
        for registry in daemon_registry.directories_of(owner):
            yield registry, owner


def _read(pid: int, registry: str, owner: int) -> ServingProcess | None:
    try:
        daemon_registry.check_own(registry, owner)
        content = json.loads(files.read_file(_path(pid, registry), 1 << 20))
        listeners = tuple(str(listener) for listener in content["listeners"])
        return ServingProcess(
            int(content["pid"]),
            int(content["started"]),
            content["directory"],
            listeners,
            registry,
            str(content.get("page", "")),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(pid: int, registry: str) -> str:
    return os.path.join(registry, f"serve-{pid}.json")
