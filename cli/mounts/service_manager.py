"""Notifies systemd of the state of a service with Type=notify: ready, busy, stopping.

The protocol is sd_notify(3): one datagram of `NAME=value` lines to the socket in NOTIFY_SOCKET. Without this variable
nothing is sent. If sending fails, a warning is logged and the mount continues.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

from offsetfs.common.formatting import printable

_log = logging.getLogger(__name__)


class ServiceManager:
    """The service manager that started this process, if any."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET") or None

    @property
    def is_there(self) -> bool:
        """Whether a service manager waits for notifications of this process."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """Report that the service is ready, so that dependent units can start."""
        self._send("READY=1", f"STATUS={printable(status)}")

    def busy(self, status: str, extend_s: int) -> None:
        """Report progress while starting or stopping, and extend the timeout to `extend_s` seconds from now."""
        self._send(f"STATUS={printable(status)}", f"EXTEND_TIMEOUT_USEC={extend_s * 1_000_000}")

    def stopping(self, status: str, extend_s: int) -> None:
        """Report that the service is stopping."""
        self._send("STOPPING=1", f"STATUS={printable(status)}", f"EXTEND_TIMEOUT_USEC={extend_s * 1_000_000}")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as out:
                out.sendto("\n".join(lines).encode("utf-8", "replace"), address)
        except OSError as error:
            _log.warning("the service manager cannot be notified of %s: %s", lines[0], error)
            self._address = None
