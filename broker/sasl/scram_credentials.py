"""What is stored of a password for SCRAM (RFC 5802, RFC 7677): salt, iterations, and two keys derived from it.

    SaltedPassword = PBKDF2(password, salt, iterations)
    StoredKey      = H(HMAC(SaltedPassword, "Client Key"))      checks that a client knows the password
    ServerKey      = HMAC(SaltedPassword, "Server Key")         shows the client that the server knows it, too

The keys do not allow a login by themselves, but passwords can be tried with them. PBKDF2 is only computed where a
password is set or where PLAIN sends one. Follows ScramMechanism, ScramFormatter and UserScramCredentialRecord.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import Enum

from offsetfs.storage.security import ScramCredential

SALT_BYTES = 32
NAME_BYTES_MAX = 1 << 10
"""Of the name of a user, in UTF-8. Kafka has no limit. A name is a part of ACLs, of logs and of the security file."""
ITERATIONS_MAX = 16384
"""Kafka's limit. It bounds the time of a client, and of a login by PLAIN."""


class ScramMechanism(Enum):
    """The mechanisms, with Kafka's codes (`ScramMechanism.type`)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """`SCRAM-SHA-256`."""
        return f"SCRAM-SHA-{256 if self is ScramMechanism.SHA_256 else 512}"

    @property
    def hash_name(self) -> str:
        """The name that hashlib knows."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size


ITERATIONS_MIN = 4096
"""The least number of iterations, and the one by default, of Kafka's tools as well: the answer to an unknown user has
it, so that it looks like that of others."""

BY_NAME = {each.sasl_name: each for each in ScramMechanism}


def credential_of(
    mechanism: ScramMechanism, password: bytes, iterations: int, salt: bytes | None = None
) -> ScramCredential:
    """Return what is to be stored of a password. Takes some milliseconds."""
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what is to be stored of a salted password, as AlterUserScramCredentials has it."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.hash_name), iterations)


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
