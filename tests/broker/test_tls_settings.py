"""TLS settings and their files: what is accepted, and the sentence for each wrong one."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

import pytest
from fixtures.security import certificates

from offsetfs.common.addresses import AddressError
from offsetfs.common.security.settings import SecurityProtocol
from offsetfs.common.security.x509 import parse_certificate
from offsetfs.kafka.broker.listener_settings import ListenerSettings, check_authentication
from offsetfs.kafka.broker.settings_file import load_settings
from offsetfs.kafka.broker.tls.tls_context import load_context
from offsetfs.kafka.broker.tls.tls_settings import TlsSettings, tls_settings
from offsetfs.storage.errors import InvalidConfig

pytestmark = pytest.mark.unit


@pytest.fixture
def keystore(tmp_path: Path) -> Path:
    return certificates.server().both(tmp_path / "server.pem")


def loaded(path: Path, lines: str, directory: Path) -> ListenerSettings:
    path.write_text(lines)
    return load_settings(os.fspath(path), [], os.fspath(directory)).server.listeners[0]


def settings(**values: object) -> TlsSettings:
    return tls_settings({f"ssl.{name.replace('_', '.')}": str(value) for name, value in values.items()})


def served_certificate(context: ssl.SSLContext) -> str:
    """Return the certificate, as PEM, that a client gets in a handshake in memory."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True) or b"")


# --- what is accepted


def test_a_listener_has_the_tls_settings_of_its_name(keystore: Path, tmp_path: Path) -> None:
    lines = f"""\
listeners=OUT://127.0.0.1:9093
listener.security.protocol.map=OUT:SSL
ssl.keystore.location={keystore}
ssl.client.auth=none
listener.name.out.ssl.client.auth=required
listener.name.out.ssl.truststore.location={certificates.authority().chain}
"""
    found = loaded(tmp_path / "server.properties", lines, tmp_path)
    assert found.protocol is SecurityProtocol.SSL
    assert found.tls is not None
    assert found.tls.client_auth == "required"
    assert found.has_authentication


def test_certificates_and_keys_may_be_in_the_settings() -> None:
    """Kafka: ssl.keystore.certificate.chain and ssl.keystore.key."""
    own, trusted = certificates.server(), certificates.authority().chain.read_text()
    key = own.key.read_text()
    context = load_context(
        settings(keystore_certificate_chain=own.text, keystore_key=key, truststore_certificates=trusted)
    )
    assert len(context.get_ca_certs()) == 1


def test_an_encrypted_key_is_read_with_its_password(tmp_path: Path) -> None:
    found = certificates.authority().issue("/CN=server", password="secret")
    keystore = found.both(tmp_path / "a.pem")
    assert "ENCRYPTED" in keystore.read_text()
    context = load_context(settings(keystore_location=keystore, key_password="secret"))
    assert served_certificate(context) in found.text.replace("\r", "")


def test_versions_and_suites_are_those_of_the_settings(keystore: Path) -> None:
    context = load_context(settings(keystore_location=keystore, enabled_protocols="TLSv1.3"))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    context = load_context(settings(keystore_location=keystore, cipher_suites=suite))
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    names = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert names == ["ECDHE-ECDSA-AES256-GCM-SHA384"]


@pytest.mark.security("A TLS listener accepts TLS 1.2 and 1.3 only.")
def test_old_versions_are_not_the_default(keystore: Path) -> None:
    context = load_context(settings(keystore_location=keystore))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


# --- what is wrong


def assert_refused(sentence: str, **values: object) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load_context(settings(**values))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_listener_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as caught:
        loaded(tmp_path / "server.properties", "listeners=SSL://127.0.0.1:9093\n", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/server.properties:1: listener SSL: there is no certificate: set")


def test_a_file_that_is_not_there_or_no_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    assert_refused(f"ssl.keystore.location: {path}: No such file or directory", keystore_location=path)
    assert_refused(f"ssl.keystore.location: {tmp_path} is not a regular file", keystore_location=tmp_path)


def test_a_file_without_a_certificate_or_without_a_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    assert_refused("has no certificate (BEGIN CERTIFICATE)", keystore_location=tmp_path / "empty.pem")
    own = certificates.server()
    assert_refused("has no private key (BEGIN PRIVATE KEY)", keystore_location=own.chain)
    (tmp_path / "bad.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert_refused("cannot be read: not a certificate", keystore_location=tmp_path / "bad.pem")


def test_certificates_that_are_not_valid_now_are_named() -> None:
    expired = certificates.authority().issue("/CN=old", end="20210101000000Z")
    refused = {"keystore_location": expired.chain, "key_location": expired.key}
    assert_refused("the certificate of 'CN=old' expired on 2021-01-01 00:00:00+00:00; renew it", **refused)
    early = certificates.authority().issue("/CN=new", begin="20980101000000Z")
    assert_refused("is valid from 2098", keystore_location=early.chain, key_location=early.key)


def test_a_key_that_is_not_that_of_the_certificate_is_named() -> None:
    chain, key = certificates.server().chain, certificates.client().key
    sentence = (
        f"the key in ssl.key.location: {key} is not that of the first certificate in ssl.keystore.location: {chain}"
    )
    assert_refused(sentence, keystore_location=chain, key_location=key)


def test_an_encrypted_key_without_its_password_is_named(tmp_path: Path) -> None:
    path = certificates.authority().issue("/CN=server", password="secret").both(tmp_path / "a.pem")
    assert_refused("has an encrypted key; set ssl.key.password", keystore_location=path)
    assert_refused("ssl.key.password is not the password of the key", keystore_location=path, key_password="other")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "is a JKS file, and only PEM is supported; convert it: keytool -importkeystore"),
        (b"\x30\x82\0\0", "is a PKCS12 file, and only PEM is supported; convert it: openssl pkcs12 -in "),
    ],
)
def test_stores_of_java_are_named_with_the_command_that_converts_them(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "store").write_bytes(content)
    assert_refused(sentence, keystore_location=tmp_path / "store")
    assert_refused("ssl.keystore.type is 'JKS', and only PEM", keystore_location="/a", keystore_type="JKS")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"client_auth": "maybe"}, "ssl.client.auth is 'maybe', but must be one of none, requested, required"),
        ({"client_auth": "required"}, "ssl.client.auth is required: add ssl.truststore.location"),
        ({"enabled_protocols": "TLSv1.1"}, "'TLSv1.1' is not supported; TLSv1.2 and TLSv1.3 are"),
        ({"cipher_suites": "RC4"}, "'RC4' is not a cipher suite of OpenSSL"),
        ({"cipher_suites": "TLS_AES_128_GCM_SHA256"}, "cannot be chosen one by one"),
        ({"principal_mapping_rules": "x"}, "ssl.principal.mapping.rules: 'x' is not a rule"),
        ({"truststore_location": "{}"}, "has no certificate (BEGIN CERTIFICATE); add the CA of the clients"),
        ({"truststore_certificates": "x", "truststore_location": "y"}, "exclude each other"),
    ],
)
def test_a_wrong_value_has_a_sentence(keystore: Path, tmp_path: Path, values: dict[str, str], sentence: str) -> None:
    (tmp_path / "none.pem").write_text("")
    given = {name: value.format(tmp_path / "none.pem") for name, value in values.items()}
    assert_refused(sentence, keystore_location=keystore, **given)


@pytest.mark.parametrize("client_auth", ["none", "requested"])
def test_tls_without_required_certificates_is_no_authentication(keystore: Path, client_auth: str) -> None:
    trusted = certificates.authority().chain
    tls = settings(keystore_location=keystore, truststore_location=trusted, client_auth=client_auth)
    open_to_all = ListenerSettings(("192.0.2.1", 9093), "SSL", SecurityProtocol.SSL, tls=tls)
    with pytest.raises(AddressError, match=r"it has no authentication; listen on .*, or add --allow-anonymous"):
        check_authentication([open_to_all], "--allow-anonymous")


# --- names in certificates


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("/O=Kafka/OU=billing/CN=alice", "CN=alice,OU=billing,O=Kafka"),
        ("/DC=org/DC=example/CN=a", "CN=a,DC=example,DC=org"),
        ("/CN=Doe\\, Jane; <x>", "CN=Doe\\, Jane\\; \\<x\\>"),
        ("/CN=Jürgen", "CN=Jürgen"),
        ("/UID=7/CN=#a", "CN=\\#a,UID=7"),
        ("/CN=a/emailAddress=x@y", "1.2.840.113549.1.9.1=#1603784079,CN=a"),
    ],
)
def test_a_subject_is_written_as_in_java(subject: str, expected: str) -> None:
    """`X500Principal.getName()`, the name of Kafka's principal."""
    data = ssl.PEM_cert_to_DER_cert(certificates.authority().issue(subject).text)
    assert parse_certificate(data).subject == expected
