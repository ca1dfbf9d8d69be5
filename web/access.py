"""Who may ask: a token in a cookie or a header, and only pages of the server itself.

    http://HOST:PORT/topics/orders?token=…    the token moves into a cookie, and the browser to the same page without it
    Authorization: Bearer …                   scripts

Host and Origin are checked, so that a page of another site cannot read logs: neither through the browser's cookie, nor
by a name of its own that it lets point at this machine (DNS rebinding).
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Collection
from urllib.parse import urlencode

from offsetfs.web.http_server import HttpAnswer, HttpError, HttpRequest

TOKEN = "token"


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(32)


class Access:
    """Checks requests. `names`: host names by which the server is reached, besides IP addresses and localhost."""

    def __init__(self, token: str, port: int, *, names: Collection[str] = (), is_tls: bool = False) -> None:
        self._token = token
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}
        self._scheme = "https" if is_tls else "http"
        self.cookie = f"offsetfs-{port}"  # browsers keep the cookies of all ports of a host together

    def check(self, request: HttpRequest) -> HttpAnswer | None:
        """Raise `HttpError` for a request that is refused; return a redirect that takes the token, else None."""
        host = request.headers.get("host", "")
        if not self._is_own(host):
            raise HttpError(421, "the address names another host: open the page by the address that offsetfs prints")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != f"{self._scheme}://{host.lower()}":
            raise HttpError(403, "a page of another site asks: open the page by the address that offsetfs prints")
        given = request.query.get(TOKEN)
        if given is not None and request.method == "GET" and not request.path.startswith("/api/"):
            if not self._is_token(given[-1]):
                raise self._refusal()
            return self._redirect(request)
        if not any(map(self._is_token, self._tokens(request))):
            raise self._refusal()
        return None

    def _refusal(self) -> HttpError:
        message = "the token is missing or wrong: open the page by the address that offsetfs prints"
        return HttpError(401, message, {"www-authenticate": "Bearer"})

    def _redirect(self, request: HttpRequest) -> HttpAnswer:
        rest = urlencode(
            [(name, value) for name, values in request.query.items() for value in values if name != TOKEN],
            errors="surrogateescape",
        )
        place = "/" + request.path.lstrip("/")  # two slashes would name another host
        secure = "; Secure" if self._scheme == "https" else ""
        cookie = f"{self.cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/{secure}"
        return HttpAnswer(
            b"", "text/plain", 303, {"location": f"{place}?{rest}" if rest else place, "set-cookie": cookie}
        )

    def _tokens(self, request: HttpRequest) -> list[str]:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        found = [bearer.strip()] if scheme.lower() == "bearer" else []
        for cookie in request.headers.get("cookie", "").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self.cookie:
                found.append(value)
        return found

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token.encode())

    def _is_own(self, host: str) -> bool:
        """Whether a Host header is an IP address, which no name can be made to stand for, or a known name."""
        name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower().rstrip(".") in self._names
        return True
