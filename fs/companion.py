"""What a mount knows of the broker in its process (`offsetfs mount -o listen=`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offsetfs.storage import LogDirectory

if TYPE_CHECKING:  # a mount without a broker does without its modules
    from offsetfs.broker.report import BrokerReport


class MountCompanion(Protocol):
    """Serves the log directory of a mount to other clients, in the same event loop: the Kafka protocol."""

    async def run(self, directory: LogDirectory) -> None:
        """Serve `directory` until `stop`. What it has accepted is in the segment files then."""

    def stop(self) -> None:
        """Accept nothing more, and let `run` return soon."""

    async def report(self) -> BrokerReport | None:
        """Return its metrics; None before it serves."""
