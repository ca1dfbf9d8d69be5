"""The HTTP server from which Prometheus reads the metrics of a broker or of a mirror."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

import trio
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

Report = TypeVar("Report")


class _ReportCollector(Collector, Generic[Report]):
    """Makes a report for each request of Prometheus, in the threads of its HTTP server."""

    def __init__(self, report: Callable[[], Awaitable[Report]], families: Callable[[Report], Iterator[Metric]]) -> None:
        self._report = report
        self._families = families
        self._token = trio.lowlevel.current_trio_token()

    def collect(self) -> Iterator[Metric]:
        try:
            report = trio.from_thread.run(self._report, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):  # the process ends
            return
        yield from self._families(report)


class MetricsServer:
    """Serves metrics over HTTP, on any path, in threads of its own. Created on the event loop."""

    def __init__(
        self,
        report: Callable[[], Awaitable[Report]],
        families: Callable[[Report], Iterator[Metric]],
        host: str,
        port: int,
    ) -> None:
        """OSError if the address cannot be used. `report` runs on the event loop, `families` in a thread."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_ReportCollector(report, families))
        ProcessCollector(namespace="offsetfs", registry=registry)
        self._server, _ = start_http_server(port, host, registry)
        self.address: tuple[str, int] = (host, self._server.server_port)

    def close(self) -> None:
        """Stop; waits for at most half a second."""
        self._server.shutdown()
        self._server.server_close()
