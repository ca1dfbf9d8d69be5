"""Where the page of logs listens: for `offsetfs web`, for `-o web=` of a mount, and for `offsetfs serve --web`.

The same rules hold for all three: other machines reach the page only with TLS, or with the permission of the user.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.cli.exit_codes import FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.mounts.service_manager import ServiceManager
from offsetfs.common.addresses import PAGE_PORT, Address, AddressError, address_text, is_loopback, parse_address
from offsetfs.common.extras import install_command
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import StorageError, sentence

if TYPE_CHECKING:
    from offsetfs.storage import LogDirectories
    from offsetfs.web.record_views import RecordsOf
    from offsetfs.web.server import PageServer


@dataclass(frozen=True, slots=True)
class PageWords:
    """The names of the options, for messages."""

    listen: str
    tls_cert: str
    tls_key: str
    insecure: str


OF_WEB = PageWords("--listen", "--tls-cert", "--tls-key", "--insecure")
OF_SERVE = PageWords("--web", "--web-tls-cert", "--web-tls-key", "--web-insecure")
OF_MOUNT = PageWords("web", "web-tls-cert", "web-tls-key", "web-insecure")


@dataclass(frozen=True, slots=True)
class PageDoor:
    """The options of a page."""

    words: PageWords
    listen: str | None
    """HOST:PORT; None: `PAGE_PORT` of this machine, or any free port."""
    names: Sequence[str] = ()
    """Names by which browsers reach it."""
    tls_cert: str | None = None
    tls_key: str | None = None
    is_insecure: bool = False

    def opened(self) -> PageServer:
        """Return the page, which listens from now on; `Failure`."""
        try:
            import h11  # noqa: F401
        except ModuleNotFoundError as error:
            raise Failure(f"the page needs {error.name}: {install_command('web')}", SYSTEM) from error
        from offsetfs.web.server import PageServer, opened_socket

        address, context = self._address(), self._tls()
        if context is None and not self.is_insecure and not is_loopback(address[0]):
            raise Failure(
                f"{self.words.listen} {address_text(address)}: other machines reach it, and could read the token and "
                f"the records on their way; give {self.words.tls_cert}, or add {self.words.insecure}",
                WRONG_CALL,
            )
        try:
            listening = opened_socket(address)
        except OSError as error:
            if self.listen is not None:
                reason = f"{error.strerror or error}; choose another one"
                raise Failure(f"{self.words.listen} {self.listen}: {reason}", FAILED) from error
            listening = opened_socket((address[0], 0))
        is_name = not (":" in address[0] or address[0][-1].isdigit())
        return PageServer(listening, names=[*self.names, *([address[0]] if is_name else [])], context=context)

    def _address(self) -> Address:
        try:
            return parse_address(self.listen or f"127.0.0.1:{PAGE_PORT}", PAGE_PORT)
        except AddressError as error:
            raise Failure(f"{self.words.listen}: {error}", WRONG_CALL) from error

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_cert is None:
            if self.tls_key is not None:
                raise Failure(f"{self.words.tls_key} goes with {self.words.tls_cert}", WRONG_CALL)
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        except (OSError, ssl.SSLError) as error:
            reason = printable(str(error.strerror or error))
            raise Failure(f"{self.words.tls_cert} {self.tls_cert}: {reason}", WRONG_CALL) from error
        return context


def page_line(url: str) -> str:
    """Return what is printed of a page. A service's output is in the journal, which others may read: without token."""
    if ServiceManager().is_there:
        return f"the page is at {url.partition('?')[0]}; offsetfs status prints its address with the token"
    return f"the page is at {url}"


def page_records(
    directory: LogDirectories,
    source: str,
    schemas: Sequence[str] = (),
    registry: str | None = None,
    masks: Sequence[str] = (),
) -> RecordsOf:
    """Return what makes the records of a page; `Failure` for a wrong schema, registry or mask.

    `source`: LOGDIR, which commands name that the page shows.
    """
    from offsetfs.web.record_views import RecordsOf

    try:
        return RecordsOf(directory, schemas, masks, _absolute(source), registry)
    except (ValueError, StorageError, OSError) as error:
        raise Failure(printable(sentence(error)), WRONG_CALL) from error


def _absolute(log_directory: str) -> str:
    """Return what names LOGDIR in any working directory."""
    if "://" in log_directory:
        return log_directory
    return ",".join(map(os.path.abspath, log_directory.split(",")))
