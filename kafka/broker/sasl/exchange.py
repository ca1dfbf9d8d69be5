"""The server's side of a login: answers messages of the client until it is authenticated.

A mechanism is a class with the methods of `Exchange`. Nothing here reads a file or a socket. What a client learns of a
failed login is what Kafka says; the reason in the log says more, but never contains a secret.
"""

from __future__ import annotations

from typing import Protocol


class LoginFailed(Exception):
    """The end of an exchange. The text is the reason for the log; `message` is for the client.

    Without `message`, the client gets Kafka's text for wrong credentials, which is the same for each reason.
    """

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(reason)
        self.message = message


class Exchange(Protocol):
    """One login by one mechanism."""

    user: str
    """Whom the client has named; "" as long as it has not."""
    is_complete: bool
    """Whether the client is `user`."""
    expires_at_ms: int | None
    """The time at which the credential of the client expires, such as a token, in milliseconds since 1970."""

    def respond(self, message: bytes) -> bytes:
        """Return the answer to a message of the client; LoginFailed."""
        ...


OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"
"""Kafka's text, of PLAIN and SCRAM."""


def check_authorization_id(authorization_id: str, user: str) -> None:
    """LoginFailed for a client that requests to act for another user."""
    if authorization_id and authorization_id != user:
        raise LoginFailed("the authorization id is not the user", OTHER_AUTHORIZATION_ID)
