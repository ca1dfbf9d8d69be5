"""The listeners of `mount -o listen=`: what is refused before anything is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.mounts.mounted_broker import mounted_broker
from offsetfs.fs.options import MountOptions
from offsetfs.kafka.broker.security_names import is_security_setting
from offsetfs.storage.checkpoint import SECURITY_FILE

pytestmark = pytest.mark.unit


def options(*texts: str) -> MountOptions:
    return MountOptions.parse(texts, is_security_setting=is_security_setting)


@pytest.mark.security(
    "A listener that other machines reach authenticates its clients, unless `--allow-anonymous` is given."
)
def test_an_address_that_others_reach_needs_a_permission(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught, mounted_broker(options("listen=0.0.0.0:0"), os.fspath(tmp_path)):
        pass
    assert "listen=0.0.0.0: each client that reaches it could read and write" in caught.value.message
    assert "add the option allow-anonymous" in caught.value.message
    assert caught.value.code == WRONG_CALL


def test_a_listener_has_a_name_and_a_security_protocol(tmp_path: Path) -> None:
    protocols = "listener.security.protocol.map=LAN:PLAINTEXT"
    with mounted_broker(options("listen=lan://127.0.0.1:0", protocols), os.fspath(tmp_path)) as broker:
        (endpoint,) = broker.endpoints
    assert endpoint.name == "LAN"
    with (
        pytest.raises(Failure, match=r"OWN has no security protocol; add it to listener\.security\.protocol\.map"),
        mounted_broker(options("listen=own://127.0.0.1:0"), os.fspath(tmp_path)),
    ):
        pass


def test_security_settings_are_not_shown_among_the_options() -> None:
    found = options("listen=:0", "ssl.client.auth=requested")
    assert found.security_settings == {"ssl.client.auth": "requested"}
    assert "ssl.client.auth" not in found.texts()


def test_keys_that_cannot_be_read_are_refused_before_the_mount(tmp_path: Path) -> None:
    """The mount was reported as done, and ended."""
    words = ["listen=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=OAUTHBEARER"]
    keys = "sasl.oauthbearer.jwks.endpoint.url=file:///nowhere/jwks.json"
    with (
        pytest.raises(Failure, match=r"/nowhere/jwks\.json: No such file") as caught,
        mounted_broker(options(*words, keys), os.fspath(tmp_path)),
    ):
        pass
    assert caught.value.code == WRONG_CALL


def test_users_that_cannot_be_read_are_refused_before_the_mount(tmp_path: Path) -> None:
    (tmp_path / SECURITY_FILE).write_bytes(b"damaged")
    with (
        pytest.raises(Failure, match=r"offsetfs-security\.checkpoint"),
        mounted_broker(options("listen=127.0.0.1:0"), os.fspath(tmp_path)),
    ):
        pass
