"""`offsetfs top URL`: what it shows of the metrics of a broker, and addresses that have none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from offsetfs.cli import exit_codes, run
from offsetfs.cli.commands import top
from offsetfs.cli.mounts.metrics_samples import Sample, parse_metrics
from offsetfs.common.group_lags import GroupLags
from offsetfs.kafka.broker import exporter
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.report import BrokerReport, GroupSnapshot
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Unsynced

pytestmark = pytest.mark.unit


class _Exported(Collector):
    def __init__(self, report: BrokerReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        yield from exporter.families(self._report)


def text_of(metrics: BrokerMetrics, *groups: GroupSnapshot, lags: dict[tuple[str, str], int] | None = None) -> str:
    report = BrokerReport("0.1.0", "/srv/logs", False, 2, 3, metrics, groups, GroupLags(lags or {}), Unsynced(), 0.0)
    return str(generate_latest(_Exported(report)), "utf-8")


def after(metrics: BrokerMetrics, handling_s: float, requests: int) -> BrokerMetrics:
    """Count requests of Produce and Fetch, each handled in `handling_s`."""
    metrics.connections, metrics.connections_accepted = 2, 5
    metrics.received_bytes += 1000 * requests
    for api in ("Produce", "Fetch"):
        counts = metrics.apis[api]
        counts.requests += requests
        for _ in range(requests):
            counts.handling.add(handling_s)
    metrics.apis["Fetch"].waits.add(0.5)
    metrics.apis["Produce"].errors[ErrorCode.INVALID_RECORD] += requests
    metrics.produced("orders", 10 * requests, 100 * requests)
    metrics.fetched("users", 50)
    return metrics


def samples() -> tuple[Sample, Sample]:
    metrics = after(BrokerMetrics(), 9.0, 3)
    before = text_of(metrics)
    groups = [GroupSnapshot("readers", "Stable", 3, {}), GroupSnapshot("new\nline", "Empty", 0, {})]
    lags = {("readers", "orders"): 4, ("readers", "users"): 1}
    now = text_of(after(metrics, 0.002, 20), *groups, lags=lags)
    return parse_metrics(before, 10.0), parse_metrics(now, 12.0)


def test_rates_and_times_are_those_between_two_samples() -> None:
    before, now = samples()
    lines = top.lines(before, now)
    assert lines[0].startswith("/srv/logs as a broker, rw, for ")
    assert lines[1] == "connections 2 open, 5 accepted, 0 refused"
    assert lines[2] == "requests    20/s, in 10 kB/s, out 0 B/s, event loop delay -"
    apis, topics, _ = top.tables(before, now)
    fetch, produce = apis.rows
    assert fetch == ("Fetch", "10", "0", "2 ms", "≤2.5 ms", "500 ms")
    assert produce == ("Produce", "10", "10", "2 ms", "≤2.5 ms", "-")
    assert topics.rows == [("orders", "100", "1 kB", "0 B"), ("users", "0", "0 B", "25 B")]


def test_groups_have_members_and_the_lag_of_all_their_topics() -> None:
    *_, groups = top.tables(*samples())
    assert groups.rows == [("readers", "3", "5"), ("new\\nline", "0", "-")]


def test_requests_slower_than_all_bounds_are_shown_as_that() -> None:
    before, now = BrokerMetrics(), after(BrokerMetrics(), 60.0, 1)
    apis, *_ = top.tables(parse_metrics(text_of(before), 1.0), parse_metrics(text_of(now), 2.0))
    assert {row[4] for row in apis.rows} == {">10 s"}


def test_a_broker_without_requests_has_no_tables() -> None:
    sample = parse_metrics(text_of(BrokerMetrics()), 1.0)
    assert top.tables(sample, sample) == []


class _Page:
    """An HTTP server that answers each request with `body`."""

    body = b""

    def __call__(
        self, environment: object, start_response: Callable[[str, list[tuple[str, str]]], object]
    ) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [self.body]


class _SilentHandler(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[tuple[_Page, str]]:
    found = _Page()
    with make_server("127.0.0.1", 0, found, handler_class=_SilentHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield found, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_broker_is_shown_by_its_url(
    page: tuple[_Page, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, url = page
    found.body = text_of(after(BrokerMetrics(), 0.002, 1)).encode()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # is not used for an address of this machine
    assert run(["top", url, "--once", "--interval", "0.1"]) == exit_codes.DONE
    assert "Produce" in capsys.readouterr().out


@pytest.mark.parametrize("body", [b"", b"up 1\n", b"<html>\n"])
def test_a_url_without_metrics_of_a_broker_is_refused(
    page: tuple[_Page, str], body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    found, url = page
    found.body = body
    assert run(["top", url, "--once", "--interval", "0.1"]) != exit_codes.DONE
    assert url in capsys.readouterr().err


def test_an_address_at_which_no_process_listens_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "http://127.0.0.1:1", "--once"]) == exit_codes.FAILED
    error = capsys.readouterr().err
    cause = "http://127.0.0.1:1: Connection refused; offsetfs serve --metrics HOST:PORT serves metrics"
    assert error == f"offsetfs top: {cause}\n"
