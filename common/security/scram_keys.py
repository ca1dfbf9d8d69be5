"""The keys of SCRAM (RFC 5802, RFC 7677), which both ends derive from a password.

SaltedPassword = PBKDF2(password, salt, iterations)
ClientKey      = HMAC(SaltedPassword, "Client Key")
StoredKey      = H(ClientKey)                               checks that a client knows the password
ServerKey      = HMAC(SaltedPassword, "Server Key")         shows the client that the server knows it, too
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum

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

BY_NAME = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the key that the others are derived from. Takes some milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """Return what a server stores of the key of a client."""
    return hashlib.new(mechanism.hash_name, key).digest()


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)
