"""SCRAM (RFC 5802, RFC 7677), the server's side: a client shows that it knows a password without sending it.

    client first    n,,n=alice,r=CLIENT
    server first    r=CLIENT‖SERVER,s=salt,i=4096
    client final    c=biws,r=CLIENT‖SERVER,p=proof
    server final    v=signature

An unknown user fails where a wrong password does: at the proof. Kafka's `ScramSaslServer` refuses it at the first
message, with the same error. The answer to it has salt and iterations as those of other users have them. Logins by
delegation token (the extension `tokenauth`) are refused; other extensions have no effect, as in Kafka. The nonce must
end with that of the first answer, as in Kafka (CVE-2024-56128). There is no channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from offsetfs.common.security.scram_keys import ITERATIONS_MIN, ScramMechanism
from offsetfs.kafka.broker.sasl.exchange import LoginFailed, check_authorization_id
from offsetfs.kafka.broker.sasl.scram_credentials import UnknownUsers
from offsetfs.storage.security import ScramCredential

FindCredential = Callable[[ScramMechanism, str], ScramCredential | None]
"""Returns the credential of a user; None if there is none."""

_NONCE_BYTES = 24
_NAME = r"(?:[^\0=,]|=2C|=3D)+"
_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[^\0,]+)*)"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>(?:m=[^\0,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+){_EXTENSIONS})",
    re.DOTALL,
)
_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<channel>[A-Za-z0-9/+]+=*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+){_EXTENSIONS})"
    r",p=(?P<proof>[A-Za-z0-9/+]+=*)",
    re.DOTALL,
)
_EMPTY_HEADER = "n,,"


class ScramExchange:
    """One login by SCRAM."""

    expires_at_ms: int | None = None

    def __init__(self, mechanism: ScramMechanism, find: FindCredential, unknown_users: UnknownUsers) -> None:
        self.user = ""
        self.is_complete = False
        self._mechanism = mechanism
        self._find = find
        self._unknown_users = unknown_users
        self._credential: ScramCredential | None = None
        self._refused = ""
        self._headers: tuple[str, ...] = ()
        self._nonce = self._first = ""

    def respond(self, message: bytes) -> bytes:
        """Return the first or the last message of the server; LoginFailed."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise LoginFailed("the message is not UTF-8") from None
        if self._credential is None:
            return self._begin(text)
        credential, self._credential = self._credential, None  # for one proof
        return self._end(text, credential)

    def _begin(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None or self._nonce:
            raise LoginFailed("the first message of the client does not follow RFC 5802")
        self.user = _unescaped(found["name"])
        if re.search(r",tokenauth=true(?:,|\Z)", found["extensions"]):
            raise LoginFailed("delegation tokens (tokenauth) are not supported")
        check_authorization_id(_unescaped(found["authorization"] or ""), self.user)
        unknown = self._unknown_users.credential(self._mechanism, self.user)  # also of a known user, for the same time
        stored = self._find(self._mechanism, self.user)
        self._refused = _refused(stored)
        self._credential = unknown if stored is None or self._refused else stored
        self._headers = found["header"], _EMPTY_HEADER  # Kafka's client binds the empty one in any case
        self._nonce = found["nonce"] + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._first = f"{found['bare']},{answer}"
        return answer.encode()

    def _end(self, text: str, credential: ScramCredential) -> bytes:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise LoginFailed("the last message of the client does not follow RFC 5802")
        if not found["nonce"].endswith(self._nonce):  # librdkafka before 2.8 has its own nonce before it once more
            raise LoginFailed("the nonce is not that of the first message")
        if found["channel"] not in [base64.b64encode(each.encode()).decode() for each in self._headers]:
            raise LoginFailed("channel binding is not supported")
        signed = f"{self._first},{found['unproven']}".encode()
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except binascii.Error:
            raise LoginFailed("the proof is not in base 64") from None
        name = self._mechanism.hash_name
        signature = hmac.digest(credential.stored_key, signed, name)
        client_key = (int.from_bytes(proof) ^ int.from_bytes(signature)).to_bytes(max(len(proof), len(signature)))
        is_right = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        answer = b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, name))
        if len(proof) != len(signature) or not is_right or self._refused:
            raise LoginFailed(self._refused or "wrong password")
        self.is_complete = True
        return answer


def _refused(stored: ScramCredential | None) -> str:
    """Return why no password is accepted for a credential; "" for one of a user who may log in."""
    if stored is None:
        return "unknown user"
    is_weak = stored.iterations < ITERATIONS_MIN
    return f"the stored password has {stored.iterations} iterations; at least {ITERATIONS_MIN}" if is_weak else ""


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
