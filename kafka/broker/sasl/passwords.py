"""Logins with a password, the server's side: PLAIN (RFC 4616), and SCRAM (RFC 5802, RFC 7677).

PLAIN sends the password. The users are those of a JAAS configuration, where Kafka has them, and those with a credential
of SCRAM, with which the password is compared. Follows PlainSaslServer and PlainServerCallbackHandler.

    message         [authorization id] NUL user NUL password

With SCRAM a client proves that it knows the password, and does not send it.

    client first    n,,n=alice,r=CLIENT
    server first    r=CLIENT‖SERVER,s=salt,i=4096
    client final    c=biws,r=CLIENT‖SERVER,p=proof
    server final    v=signature

An unknown user fails where a wrong password does: at the proof. Kafka's `ScramSaslServer` refuses an unknown user at
the first message, with the same error. The answer to it has salt and iterations as those of other users have them.
Logins by delegation token (the extension `tokenauth`) are refused; other extensions have no effect, as in Kafka. The
nonce must end with that of the first answer, as in Kafka (CVE-2024-56128). There is no channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence

from offsetfs.common.security.scram_keys import ITERATIONS_MIN, ScramMechanism, salted_password
from offsetfs.kafka.broker.sasl.exchange import LoginFailed, check_authorization_id
from offsetfs.kafka.broker.sasl.scram_credentials import SALT_BYTES, UnknownUsers, is_password
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
        first = _FIRST.fullmatch(text)
        if first is None or self._nonce:
            raise LoginFailed("the first message of the client does not follow RFC 5802")
        self.user = _unescaped(first["name"])
        if re.search(r",tokenauth=true(?:,|\Z)", first["extensions"]):
            raise LoginFailed("delegation tokens (tokenauth) are not supported")
        check_authorization_id(_unescaped(first["authorization"] or ""), self.user)
        unknown = self._unknown_users.credential(self._mechanism, self.user)  # also of a known user, for the same time
        stored = self._find(self._mechanism, self.user)
        self._refused = _refused(stored)
        self._credential = unknown if stored is None or self._refused else stored
        self._headers = first["header"], _EMPTY_HEADER  # Kafka's client binds the empty one in any case
        self._nonce = first["nonce"] + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._first = f"{first['bare']},{answer}"
        return answer.encode()

    def _end(self, text: str, credential: ScramCredential) -> bytes:
        final = _FINAL.fullmatch(text)
        if final is None:
            raise LoginFailed("the last message of the client does not follow RFC 5802")
        if not final["nonce"].endswith(self._nonce):  # librdkafka before 2.8 has its own nonce before it once more
            raise LoginFailed("the nonce is not that of the first message")
        if final["channel"] not in [base64.b64encode(header.encode()).decode() for header in self._headers]:
            raise LoginFailed("channel binding is not supported")
        signed = f"{self._first},{final['unproven']}".encode()
        try:
            proof = base64.b64decode(final["proof"], validate=True)
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


_WRONG = "Authentication failed: Invalid username or password"
"""Kafka's text."""

_MECHANISMS: Sequence[ScramMechanism] = (ScramMechanism.SHA_512, ScramMechanism.SHA_256)


class PlainExchange:
    """One login by PLAIN."""

    expires_at_ms: int | None = None

    def __init__(self, passwords: Mapping[str, str], find: FindCredential, unknown_users: UnknownUsers) -> None:
        """`passwords`: of the users of the JAAS configuration, which have precedence over those of `find`."""
        self.user = ""
        self.is_complete = False
        self._passwords = passwords
        self._find = find
        self._unknown_users = unknown_users

    def respond(self, message: bytes) -> bytes:
        """Check the only message of the client; LoginFailed. May take some milliseconds: for a thread."""
        parts = message.split(b"\0")
        if self.is_complete or len(parts) != 3:
            raise LoginFailed("the message does not have the three parts of RFC 4616")
        try:
            authorization_id, user, _ = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise LoginFailed("the message is not UTF-8") from None
        self.user = user
        if not user or not parts[2]:
            raise LoginFailed("no password" if user else "no user")
        reason = self._reason(user, parts[2])
        if reason is not None:
            raise LoginFailed(reason, _WRONG)
        check_authorization_id(authorization_id, user)
        self.is_complete = True
        return b""

    def _reason(self, user: str, password: bytes) -> str | None:
        """Return why the password is not that of the user; None if it is."""
        if user in self._passwords:
            if hmac.compare_digest(self._passwords[user].encode(), password):
                return None
            known = None
        else:
            known = next(
                ((mechanism, stored) for mechanism in _MECHANISMS if (stored := self._find(mechanism, user))), None
            )
        work = dict(self._unknown_users.work())
        if known is not None:
            if is_password(known[0], password, known[1]):
                return None
            work[known[0]] = work[known[0]] - known[1].iterations
        for mechanism, iterations in work.items():  # a wrong login takes the same time for every user
            if iterations > 0:
                salted_password(mechanism, password, bytes(SALT_BYTES), iterations)
        return "wrong password" if known is not None or user in self._passwords else "unknown user"
