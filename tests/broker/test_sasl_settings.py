"""The settings of SASL: what a listener accepts, and what is refused at the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running
from fixtures.security.logins import PLAIN_MODULE

from offsetfs.kafka.broker.connections.api import Client
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.sasl.oauthbearer import TokenRules
from offsetfs.kafka.broker.sasl.sasl_settings import SaslSettings, sasl_settings
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.settings_file import load_settings
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig

pytestmark = pytest.mark.unit

LISTENERS = "listeners=SASL_PLAINTEXT://127.0.0.1:9092"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


def load(*options: str) -> ServerSettings:
    return load_settings(None, options, "/logs").server


def sasl(*options: str) -> SaslSettings:
    (listener,) = load(*options).listeners
    return sasl_settings(listener)


def test_scram_is_enabled_by_default() -> None:
    found = sasl(LISTENERS)
    assert found.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert set(found.session_ms.values()) == {0}


def test_settings_of_a_listener_and_of_a_mechanism_have_precedence() -> None:
    found = sasl(
        LISTENERS,
        "sasl.enabled.mechanisms=GSSAPI",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms=SCRAM-SHA-512, PLAIN",
        "connections.max.reauth.ms=5000",
        "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms=7000",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} user_alice="secret";',
    )
    assert found.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert found.session_ms == {"SCRAM-SHA-512": 7000, "PLAIN": 5000}
    assert found.passwords == {"alice": "secret"}
    assert "secret" not in repr(found)


def test_settings_of_tokens() -> None:
    names = {
        "jwks.endpoint.url": "file:///etc/a%20key.json",
        "expected.audience": "kafka, all",
        "expected.issuer": "https://issuer",
        "sub.claim.name": "client_id",
        "scope.claim.name": "scp",
        "clock.skew.seconds": "5",
    }
    options = [f"sasl.oauthbearer.{name}={value}" for name, value in names.items()]
    found = sasl(LISTENERS, "sasl.enabled.mechanisms=OAUTHBEARER", *options)
    assert found.keys_path == "/etc/a key.json"
    assert found.rules == TokenRules(("kafka", "all"), "https://issuer", "client_id", "scp", 5)


def test_tokens_without_signature_have_to_be_permitted() -> None:
    enabled = "sasl.enabled.mechanisms=OAUTHBEARER"
    with pytest.raises(InvalidConfig, match=r"needs the public keys.*sasl\.oauthbearer\.jwks\.endpoint\.url"):
        sasl(LISTENERS, enabled)
    handler = f"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class={UNSECURED}"
    assert sasl(LISTENERS, enabled, handler).keys_path is None


@pytest.mark.security("PLAIN and OAUTHBEARER are refused for a listener that other machines reach without TLS.")
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.0.1", "example.org"])
def test_secrets_are_not_sent_without_tls(mechanism: str, host: str) -> None:
    settings = {"OAUTHBEARER": "sasl.oauthbearer.jwks.endpoint.url=file:///keys"}.get(mechanism, "num.partitions=1")
    options = f"listeners=SASL_PLAINTEXT://{host}:9092", f"sasl.enabled.mechanisms=SCRAM-SHA-256,{mechanism}", settings
    with pytest.raises(InvalidConfig, match=f"{mechanism} sends .* SASL_SSL, or the address 127.0.0.1"):
        load(*options)


def test_scram_needs_no_tls() -> None:
    assert sasl("listeners=SASL_PLAINTEXT://0.0.0.0:9092").mechanisms


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("sasl.enabled.mechanisms=GSSAPI", "'GSSAPI' is not one of SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER"),
        ("connections.max.reauth.ms=-1", "connections.max.reauth.ms is -1, but must be a whole number"),
        ("sasl.oauthbearer.clock.skew.seconds=x", "sasl.oauthbearer.clock.skew.seconds is 'x'"),
        ("sasl.oauthbearer.jwks.endpoint.url=https://x/keys", "'https://x/keys' is not the URL of a file"),
        ("plain.sasl.jaas.config=secret", "plain.sasl.jaas.config is not in the form of JAAS"),
        (
            "plain.sasl.jaas.config=a.ScramLoginModule required user_a=secret;",
            "the login module is 'a.ScramLoginModule'",
        ),
        (
            "scram-sha-256.sasl.server.callback.handler.class=org.example.Passwords",
            "scram-sha-256.sasl.server.callback.handler.class: 'org.example.Passwords' cannot run here; remove it",
        ),
    ],
)
def test_a_wrong_setting_is_refused_without_its_secret(option: str, sentence: str) -> None:
    name = option.partition("=")[0]
    enabled = "PLAIN" if "jaas" in name else "OAUTHBEARER" if "oauth" in name else "SCRAM-SHA-256"
    keys = "sasl.oauthbearer.jwks.endpoint.url=file:///keys"
    options = [f"sasl.enabled.mechanisms={enabled}", keys, f"listener.name.sasl_plaintext.{option}"]
    with pytest.raises(InvalidConfig) as failure:
        load(LISTENERS, *options)
    assert sentence in str(failure.value)
    assert "secret" not in str(failure.value)


@pytest.mark.security("No setting with a password is shown to clients.")
async def test_passwords_in_settings_are_not_shown(directory: LogDirectory) -> None:
    jaas = f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} user_alice="secret";'
    loaded = load(LISTENERS, "sasl.enabled.mechanisms=PLAIN", jaas)
    assert "secret" not in repr(loaded)
    running = Running(directory, loaded, ListenerSettings(("127.0.0.1", 0)))
    describe = running.broker._apis[32].handle
    request = m.DescribeConfigsRequest([m.DescribeConfigsResource(4, str(FEW_PARTITIONS.node_id), None)])
    response: Any = await describe(request, 4, Client("test", "127.0.0.1", 1))
    (result,) = response.results
    values: Mapping[str, str] = {each.name: each.value for each in result.configs}
    assert values["sasl.enabled.mechanisms"] == "PLAIN"
    assert not [name for name, value in values.items() if "secret" in str(value)]
    running.listener.close()
