"""The two brokers that suites run against: `offsetfs serve`, and Kafka 4.1 on a single node, on loopback addresses."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from suite import (
    PASSWORDS,
    PLAIN_USER,
    SCRAM_256_USER,
    SCRAM_512_USER,
    Listeners,
    RunningBroker,
    SecurityProtocol,
)

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests"))
from fixtures.broker.served import served
from fixtures.kafka.broker import SCRAM_MODULE, KafkaBroker, tied_to_us
from fixtures.machine.free_ports import free_ports
from fixtures.security.certificates import Authority
from fixtures.security.logins import PLAIN_MODULE

__all__ = ["SIDES", "Side", "running_broker", "tied_to_us"]

Side = Literal["kafka", "offsetfs"]
SIDES: tuple[Side, ...] = get_args(Side)
SETTINGS = {"auto.create.topics.enable": "true", "num.partitions": "4"}
"""What the suites expect of a broker: librdkafka's default scenario, and a topic that is created when it is used."""
KAFKA_VERSION = "4.1.0"
"""The newest that all suites know."""
SCRAM_USERS = {SCRAM_256_USER: ScramMechanism.SCRAM_SHA_256, SCRAM_512_USER: ScramMechanism.SCRAM_SHA_512}
REPORTS = r"authentication|TLS|login|ignored|no effect"
"""What `serve` logs of clients that fail to connect, as tests of logins and certificates do."""


@contextmanager
def running_broker(
    side: Side, folder: Path, settings: Mapping[str, str], listeners: Listeners
) -> Iterator[RunningBroker]:
    """Run a broker with a log directory in `folder`."""
    log_directory = folder / "log"
    log_directory.mkdir(parents=True)
    authority = Authority(folder)
    own = authority.issue("/CN=client")
    protocols: list[SecurityProtocol] = ["PLAINTEXT", *listeners.secured]
    ports = {**dict(zip(protocols, free_ports(len(protocols)), strict=True)), **listeners.ports}
    addresses = {protocol: f"127.0.0.1:{ports[protocol]}" for protocol in protocols}
    advertised = {protocol: f"{listeners.host}:{ports[protocol]}" for protocol in protocols}
    broker = RunningBroker(advertised, authority.chain, own.chain, own.key)
    settings = {**SETTINGS, **_security_settings(authority, listeners), **settings}
    if side == "kafka":
        settings["advertised.listeners"] = ",".join(f"{each}://{address}" for each, address in advertised.items())
        others: dict[str, str] = {protocol: addresses[protocol] for protocol in listeners.secured}
        port = ports["PLAINTEXT"]
        with KafkaBroker(
            folder, log_dir=log_directory, settings=settings, others=others, port=port, version=KAFKA_VERSION
        ):
            _add_users(broker, listeners)
            yield broker
    else:
        path = folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ["--config", str(path)]
        for protocol in listeners.secured:
            options += ["--listen", f"{protocol}://{addresses[protocol]}"]
        for protocol in protocols:
            options += ["--advertise", advertised[protocol]]
        with served(log_directory, *options, listen=addresses["PLAINTEXT"], reports=REPORTS):
            _add_users(broker, listeners)
            yield broker


def _security_settings(authority: Authority, listeners: Listeners) -> dict[str, str]:
    found: dict[str, str] = {}
    if any("SSL" in protocol for protocol in listeners.secured):
        keystore = authority.issue("/CN=server").both(authority.directory / "server.pem")
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.chain),
            "listener.name.ssl.ssl.client.auth": "required",
        }
    for protocol in listeners.secured:
        if protocol.startswith("SASL"):
            name = f"listener.name.{protocol.lower()}"
            users = f'user_{PLAIN_USER}="{PASSWORDS[PLAIN_USER]}"'
            found |= {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f"{name}.plain.sasl.jaas.config": f"{PLAIN_MODULE} {users};",
                f"{name}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE};",
                f"{name}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE};",
            }
    return found


def _add_users(broker: RunningBroker, listeners: Listeners) -> None:
    if not any(protocol.startswith("SASL") for protocol in listeners.secured):
        return
    client = AdminClient({"bootstrap.servers": broker.address})
    changes: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORDS[user].encode())
        for user, mechanism in SCRAM_USERS.items()
    ]
    for future in client.alter_user_scram_credentials(changes).values():
        future.result(timeout=60)
