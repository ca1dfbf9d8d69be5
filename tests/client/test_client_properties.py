"""`client.properties`: what is read, and the sentence for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.security import certificates

from offsetfs.common.security.settings import SecurityProtocol
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.storage.errors import InvalidConfig

pytestmark = pytest.mark.unit

SECRET = "hunter2-hunter2"
SCRAM = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{SECRET}";'
PLAIN = SCRAM.replace("scram.Scram", "plain.Plain")
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'clientId="me" clientSecret="{SECRET}" scope="kafka";'
)
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
TOKENS = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url=https://issuer/token\n"


def read(folder: Path, text: str) -> ClientProperties:
    path = folder / "client.properties"
    path.write_text(text)
    return ClientProperties.read(str(path))


def test_the_defaults_are_those_of_kafka(tmp_path: Path) -> None:
    assert read(tmp_path, "") == ClientProperties()
    found = ClientProperties()
    assert (found.request_timeout_ms, found.metadata_max_age_ms, found.reconnect_backoff_max_ms) == (
        30000,
        300000,
        1000,
    )


def test_settings_of_each_kind(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "client.id = mirror\nclient.rack=west\nrequest.timeout.ms=5\nretry.backoff.ms=1\ngroup.id=g\n"
        f"{SASL}sasl.jaas.config={SCRAM}\n",
    )
    assert (found.client_id, found.client_rack, found.request_timeout_ms, found.retry_backoff_ms) == (
        "mirror",
        "west",
        5,
        1,
    )
    assert found.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    assert found.sasl is not None and (found.sasl.user, found.sasl.password) == ("alice", SECRET)
    assert found.warnings == ("group.id has no effect",)


def test_client_credentials(tmp_path: Path) -> None:
    found = read(tmp_path, f"{TOKENS}{ENDPOINT}sasl.jaas.config={OAUTH}\n").sasl
    assert found is not None and found.tokens is not None
    assert (found.tokens.client_id, found.tokens.client_secret, found.tokens.scope) == ("me", SECRET, "kafka")
    assert SECRET not in repr(found)


def test_security_settings_without_a_security_protocol_are_reported(tmp_path: Path) -> None:
    found = read(tmp_path, f"sasl.jaas.config={SCRAM}\n")
    assert found.warnings == ("sasl.jaas.config has no effect with security.protocol=PLAINTEXT",)


def test_secrets_are_not_in_representations(tmp_path: Path) -> None:
    key = certificates.authority().issue("/CN=locked", password=SECRET)
    text = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN}\nssl.key.password={SECRET}\n"
    found = read(tmp_path, f"{text}ssl.keystore.location={key.both(tmp_path / 'own.pem')}\n")
    assert found.tls is not None and found.tls.key_password == SECRET
    assert SECRET not in repr(found) and "alice" in repr(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("security.protocol=TLS", "security.protocol"),
        ("request.timeout.ms=soon", "request.timeout.ms"),
        ("config.providers=file", "config.providers is not supported; write the values themselves"),
        ("security.protocol=SASL_SSL", "sasl.mechanism is not set; PLAIN, SCRAM-SHA-256"),
        (SASL, "sasl.jaas.config is not set; write org.apache"),
        (f"{SASL}sasl.jaas.config={PLAIN}", "and sasl.mechanism is SCRAM-SHA-256; write org.apache.kafka"),
        (f"{SASL}sasl.jaas.config={SCRAM.replace('username', 'user')}", "has no username"),
        (f"{SASL}sasl.jaas.config={SCRAM.replace(';', ' tokenauth=true;')}", "delegation tokens"),
        (f"{SASL}sasl.jaas.config={SCRAM[:-1]}", "is not in the form of JAAS"),
        (f"{SASL}sasl.jaas.config={SCRAM}\nsasl.client.callback.handler.class=a.B", "which cannot run here"),
        (f"{TOKENS}sasl.jaas.config={OAUTH}", "sasl.oauthbearer.token.endpoint.url is not set"),
        (f"{TOKENS}{ENDPOINT.replace('https', 'http')}sasl.jaas.config={OAUTH}", "must begin with https://"),
        (f"{TOKENS}{ENDPOINT}sasl.jaas.config={OAUTH.replace('clientId', 'id')}", "has no clientId"),
        ("security.protocol=SSL\nssl.truststore.type=JKS\nssl.truststore.location=/t.jks", "keytool -importkeystore"),
        ("security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/k.p12", "openssl pkcs12 -in /k.p12"),
        ("security.protocol=SSL\nssl.truststore.location=/no/such", "No such file or directory"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=none", "or empty: then no name is checked"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read(tmp_path, text)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/client.properties: ")
    assert SECRET not in str(caught.value)


def test_a_truststore_of_java(tmp_path: Path) -> None:
    (tmp_path / "trust.jks").write_bytes(b"\xfe\xed\xfe\xed" + bytes(60))
    with pytest.raises(InvalidConfig, match=r"is a JKS file, and only PEM is supported; convert it: keytool"):
        read(tmp_path, f"security.protocol=SSL\nssl.truststore.location={tmp_path}/trust.jks")
