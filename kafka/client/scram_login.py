"""SCRAM (RFC 5802, RFC 7677), the client's side: it shows that it knows a password without sending it.

    client first    n,,n=alice,r=CLIENT
    server first    r=CLIENT‖SERVER,s=salt,i=4096
    client final    c=biws,r=CLIENT‖SERVER,p=proof
    server final    v=signature

The signature shows that the server knows the password, too. Follows Kafka's `ScramSaslClient`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets

from offsetfs.common.security.scram_keys import (
    ITERATIONS_MAX,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
    stored_key,
)

_HEADER = "n,,"
_NONCE_BYTES = 24
_ITERATIONS_MIN = 4096
_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9/+]+=*),i=(?P<iterations>[1-9][0-9]{0,9})(?:,.*)?"
)
_FINAL = re.compile(r"v=(?P<signature>[A-Za-z0-9/+]+=*)(?:,.*)?")


class ScramRefused(Exception):
    """The messages of the server are not those of a server that knows the password; the message says why."""


class ScramLogin:
    """One login: `first`, then `final` with the first answer, then `check` with the second one."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"{_HEADER}{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """Return the last message, with the proof; ScramRefused. Takes some milliseconds."""
        text = answer.decode("utf-8", "replace")
        found = _FIRST.fullmatch(text)
        if found is None:
            raise ScramRefused(f"the first message of the broker does not follow RFC 5802{_reason(text)}")
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise ScramRefused("the nonce of the broker is not an answer to that of the client")
        iterations = int(found["iterations"])
        if not _ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramRefused(
                f"the broker asks for {iterations} iterations; from {_ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted"
            )
        salted = salted_password(self._mechanism, self._password.encode(), _bytes_of(found["salt"]), iterations)
        unproven = f"c={base64.b64encode(_HEADER.encode()).decode()},r={found['nonce']}"
        signed = f"{self._bare},{text},{unproven}".encode()
        key, name = client_key(self._mechanism, salted), self._mechanism.hash_name
        signature = hmac.digest(stored_key(self._mechanism, key), signed, name)
        proof = (int.from_bytes(key) ^ int.from_bytes(signature)).to_bytes(len(key))
        self._signature = hmac.digest(server_key(self._mechanism, salted), signed, name)
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Verify the signature of the server; ScramRefused."""
        text = answer.decode("utf-8", "replace")
        found = _FINAL.fullmatch(text)
        if found is None:
            raise ScramRefused(f"the last message of the broker does not follow RFC 5802{_reason(text)}")
        if not hmac.compare_digest(_bytes_of(found["signature"]), self._signature):
            raise ScramRefused("the broker does not know the password: its signature is wrong")


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramRefused("a message of the broker is not in base 64") from None


def _reason(text: str) -> str:
    """Return the error that a server can give in place of an answer: `e=unknown-user`."""
    return f": {text[2:60]!r}" if text.startswith("e=") else ""
