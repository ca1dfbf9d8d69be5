"""What is stored of a password for SCRAM: salt, iterations, and two keys (`runtime.security.scram_keys`).

The keys do not allow a login by themselves, but passwords can be tried with them. PBKDF2 is only computed where a
password is set or where PLAIN sends one. Follows ScramMechanism, ScramFormatter and UserScramCredentialRecord.
"""

from __future__ import annotations

import hmac
import secrets

from offsetfs.runtime.security.scram_keys import (
    ITERATIONS_MIN,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
    stored_key,
)
from offsetfs.storage.security import ScramCredential

SALT_BYTES = 32
NAME_BYTES_MAX = 1 << 10
"""Of the name of a user, in UTF-8. Kafka has no limit. A name is a part of ACLs, of logs and of the security file."""


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
    found = credential_of(mechanism, password, credential.iterations, credential.salt)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


class UnknownUsers:
    """Credentials of users that do not exist, so that a login of one takes the same course as that of another.

    The same user gets the same salt each time, as one that exists, until the process ends. No password fits.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return salt and keys for the name of an unknown user."""
        seed = hmac.digest(self._secret, f"{mechanism.sasl_name} {user}".encode("utf-8", "surrogatepass"), "sha256")
        keys = secrets.token_bytes(mechanism.key_bytes), secrets.token_bytes(mechanism.key_bytes)
        return ScramCredential(seed[:SALT_BYTES], *keys, ITERATIONS_MIN)
