"""Produce and fetch over TLS: the same client against `offsetfs serve` and against Kafka, in turn."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import brokers
import logs
from bench import Bench
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker
from fixtures.security.certificates import Authority
from measuring import Contender, Goal, Peer, Row, times_as_fast, times_as_long
from mounted import KAFKA_VERSION
from served_logs import KAFKA, OURS, Server, Work, kcat_in, kcat_out, server_cpu


@dataclass(frozen=True, slots=True)
class TlsServer(Server):
    """A broker with a second listener, which kcat uses; `address` is the one without TLS."""

    tls_address: str
    trusted: Path

    @property
    def kcat(self) -> str:
        return f"-b {self.tls_address} -X security.protocol=ssl -X ssl.ca.location={self.trusted}"


@dataclass(frozen=True, slots=True)
class _Files:
    """The certificate of an authority, and key and certificate of both brokers."""

    trusted: Path
    keystore: Path


def _files(bench: Bench) -> _Files:
    def make() -> _Files:
        folder = bench.new("certificates")
        folder.mkdir()
        authority = Authority(folder)
        return _Files(authority.chain, authority.issue("/CN=server").both(folder / "server.pem"))

    return bench.once("certificates", make)


def tls_of_ours(bench: Bench) -> Server:
    def make() -> Server:
        files, log_dir = _files(bench), bench.new("served-tls")
        log_dir.mkdir()
        listeners = "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
        words = ("-o", listeners, "-o", f"ssl.keystore.location={files.keystore}", "-o", "log.retention.ms=-1")
        broker = bench.until_the_end.enter_context(served(log_dir, *words))
        plain, tls = broker.addresses
        return TlsServer(plain, broker.process.pid, log_dir, tls, files.trusted)

    return bench.once("served-tls", make)


def tls_of_kafka(bench: Bench) -> Server:
    """The same of Kafka, a broker apart."""

    def make() -> Server:
        files = _files(bench)
        tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files.keystore)}
        broker = KafkaBroker(bench.new("kafka-tls"), settings=brokers.SETTINGS, tls=tls, version=KAFKA_VERSION)
        bench.until_the_end.enter_context(broker)
        return TlsServer(broker.address, broker.pid, broker.log_dir, broker.tls_address, files.trusted)

    return bench.once("kafka-tls", make)


def _row(name: str, what: str, work: Work, goal: Goal, *, unit: str = "s", of: str = "records") -> Row:
    return Row(
        name,
        what,
        unit=unit,
        of=of,
        count=5_000_000,
        count_quick=5_000,
        ours=Contender(OURS, functools.partial(work, tls_of_ours)),
        peers=(Peer(Contender(KAFKA, functools.partial(work, tls_of_kafka)), goal),),
        record_bytes=logs.LINE_BYTES,
    )


ROWS = (
    _row("serve-tls-in", "`serve-in` over TLS", kcat_in(), times_as_fast(0.8), of="lines"),
    _row(
        "serve-tls-in-cpu",
        "CPU time of the broker for each GB of `serve-tls-in`",
        server_cpu(kcat_in()),
        times_as_long(0.6),
        unit="s/GB",
        of="lines",
    ),
    _row("serve-tls-out", "`serve-out` over TLS", kcat_out, times_as_fast(0.8)),
    _row(
        "serve-tls-out-cpu",
        "CPU time of the broker for each GB of `serve-tls-out`",
        server_cpu(kcat_out),
        times_as_long(0.6),
        unit="s/GB",
    ),
)
