"""Stored passwords of SCRAM: salt, iterations, and two keys (`common.security.scram_keys`).

The keys do not allow a login by themselves, but passwords can be tried with them. PBKDF2 is only computed where a
password is set or where PLAIN sends one. Follows ScramMechanism, ScramFormatter and UserScramCredentialRecord.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from offsetfs.common.security.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
    stored_key,
)
from offsetfs.storage.security import Credentials, ScramCredential

SALT_BYTES = 32
NAME_BYTES_MAX = 1 << 10
"""The longest user name, in UTF-8. Kafka has no limit. A name is a part of ACLs, of logs and of the security file."""


_KAFKA_SALT = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""The characters of a salt of Kafka's tools (`ScramFormatter.secureRandomString`)."""


def credential_of(
    mechanism: ScramMechanism, password: bytes, iterations: int, salt: bytes | None = None
) -> ScramCredential:
    """Return what is to be stored of a password. Takes some milliseconds."""
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    return credential_of_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what is to be stored of a salted password, as AlterUserScramCredentials has it."""
    keys = stored_key(mechanism, client_key(mechanism, salted)), server_key(mechanism, salted)
    return ScramCredential(salt, *keys, iterations)


def is_password(mechanism: ScramMechanism, password: bytes, credential: ScramCredential) -> bool:
    """Return whether a password is the stored one, in a time that does not depend on the difference."""
    given = credential_of(mechanism, password, credential.iterations, credential.salt)
    return hmac.compare_digest(given.stored_key, credential.stored_key)


class _Shape(NamedTuple):
    """The parts of a credential that a client sees before it shows a proof."""

    iterations: int
    salt_bytes: int
    is_text: bool
    """Whether the salt is of the characters that Kafka's tools take."""


_DEFAULT = _Shape(ITERATIONS_MIN, SALT_BYTES, is_text=False)


class UnknownUsers:
    """Credentials of users that do not exist, so that a login of one takes the same course as that of another.

    The same user gets the same salt and iterations each time, as a user that exists: they derive from a secret that is
    stored. Iterations and sizes of salts occur as often as among the users that exist. No password fits.
    """

    def __init__(self, secret: bytes, stored: Callable[[], Credentials]) -> None:
        """`stored`: returns the credentials of all users, a new mapping after each change."""
        self._secret = secret
        self._stored = stored
        self._of = stored()
        self._shapes = _shapes(self._of)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return salt and keys for the name of an unknown user."""
        seed = hmac.digest(self._secret, f"{mechanism.sasl_name} {user}".encode("utf-8", "surrogatepass"), "sha512")
        shapes = self._current()[mechanism]
        shape = shapes[int.from_bytes(seed[:8]) % len(shapes)]
        salt = hashlib.shake_256(seed).digest(shape.salt_bytes)
        if shape.is_text:
            salt = bytes(_KAFKA_SALT[byte % len(_KAFKA_SALT)] for byte in salt)
        keys = secrets.token_bytes(mechanism.key_bytes), secrets.token_bytes(mechanism.key_bytes)
        return ScramCredential(salt, *keys, shape.iterations)

    def work(self) -> Mapping[ScramMechanism, int]:
        """Return the most iterations that a password of PLAIN may take to be checked, by mechanism."""
        return {mechanism: shapes[-1].iterations for mechanism, shapes in self._current().items()}

    def _current(self) -> Mapping[ScramMechanism, Sequence[_Shape]]:
        stored = self._stored()
        if stored is not self._of:
            self._of, self._shapes = stored, _shapes(stored)
        return self._shapes


def _shapes(stored: Credentials) -> Mapping[ScramMechanism, Sequence[_Shape]]:
    """Return the shapes of the credentials of each mechanism, as often as they occur, most iterations last."""
    by_mechanism: dict[ScramMechanism, list[_Shape]] = {mechanism: [] for mechanism in ScramMechanism}
    by_number = {mechanism.value: shapes for mechanism, shapes in by_mechanism.items()}
    for (_, mechanism), credential in stored.items():
        if mechanism in by_number and ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX:
            is_text = not credential.salt.translate(None, _KAFKA_SALT)
            by_number[mechanism].append(_Shape(credential.iterations, len(credential.salt), is_text))
    return {mechanism: sorted(shapes) or [_DEFAULT] for mechanism, shapes in by_mechanism.items()}
