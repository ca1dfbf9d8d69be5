"""The interface between a mount and a broker (`offsetfs mount -o listen=`) or mirror (`kafka://…`) in its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import LogDirectory

if TYPE_CHECKING:  # only the first read of `metrics` imports it
    from prometheus_client.core import Metric

OnFault = Callable[[Fault], None]
"""Called with each line for `.offsetfs/errors`."""


@dataclass(frozen=True, slots=True)
class CompanionReport:
    """The state of a companion at one moment. Other threads may read it."""

    lines: Callable[[], Iterator[str]]
    """Yields lines for `.offsetfs/stats`."""
    families: Callable[[], Iterator[Metric]]
    """Yields metrics for `.offsetfs/metrics`."""
    has_group_lags: bool = False
    """Whether the lags of consumer groups are among them."""


class MountCompanion(Protocol):
    """Writes to the log directory of a mount in the same event loop: a broker for its clients, or a mirror."""

    @property
    def name(self) -> str:
        """Its name in error messages."""

    async def run(self, directory: LogDirectory, on_fault: OnFault) -> None:
        """Serve `directory` until `stop`. What it has accepted is in the segment files then."""

    def stop(self) -> None:
        """Accept nothing more, and let `run` return soon."""

    async def report(self) -> CompanionReport | None:
        """Return its metrics; None before it serves."""
