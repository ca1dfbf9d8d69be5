"""PLAIN (RFC 4616): a client sends its user and its password.

    message    [authorization id] NUL user NUL password

The users are those of a JAAS configuration, where Kafka has them, and those with a credential of SCRAM, of which the
password is checked against what is stored. Follows PlainSaslServer and PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence

from offsetfs.common.security.scram_keys import ScramMechanism, salted_password
from offsetfs.kafka.broker.sasl.exchange import LoginFailed, check_authorization_id
from offsetfs.kafka.broker.sasl.scram import FindCredential
from offsetfs.kafka.broker.sasl.scram_credentials import SALT_BYTES, UnknownUsers, is_password

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
            authorization_id, user, _ = (each.decode() for each in parts)
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
            found = None
        else:
            found = next(((each, stored) for each in _MECHANISMS if (stored := self._find(each, user))), None)
        work = dict(self._unknown_users.work())
        if found is not None:
            if is_password(found[0], password, found[1]):
                return None
            work[found[0]] = work[found[0]] - found[1].iterations
        for mechanism, iterations in work.items():  # a wrong login takes the same time for every user
            if iterations > 0:
                salted_password(mechanism, password, bytes(SALT_BYTES), iterations)
        return "wrong password" if found is not None or user in self._passwords else "unknown user"
