"""Files of HDFS as objects: requests of the WebHDFS REST API.

Methods, paths (/DIRECTORY/NAME) and results are those of an asynchronous file system of fsspec, as far as
`object_store` calls them.

A file of HDFS is visible while it is written, and stays so if its writer is killed. So the bytes go to a new name in
`UNFINISHED`, with the flag to sync each block to the disks, and RENAME gives the file its name when it is whole: with
the option NONE, which fails if the name is taken, to create an object; with OVERWRITE to replace one. The namenode does
either in one step. `UNFINISHED` is not listed with the other objects; `expiry` deletes what stays in it.

A namenode that does not answer, or is a standby, is followed by the next one of the name service; a datanode that does
not answer, by another datanode. The user is named in each request (`user.name`), which a cluster accepts unless it
asks for Kerberos; that is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import getpass
import io
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from fsspec.asyn import get_loop
from yarl import URL

from offsetfs.archive import hadoop_settings
from offsetfs.archive.store_libraries import StoreError, close_with
from offsetfs.common.backoff import Attempts, Backoff

UNFINISHED = ".offsetfs-unfinished"
"""The directory below the URL with the files that are being written."""

_API = "/webhdfs/v1"
_BACKOFF = Backoff(0.1, 8.0, jitter=0.25)
_ASKED_FOR_ANOTHER_MAX = 10
_AT_ONCE = 16
_FLAGS = "CREATE,SYNC_BLOCK"
_SAID_MAX = 300  # characters of an error

_PASSING = ("StandbyException", "RetriableException", "ObserverRetryOnActiveException", "ConnectException")
_TAKEN = ("FileAlreadyExistsException",)
_DENIED = ("AccessControlException", "AuthorizationException", "SecurityException")
_SAFE_MODE = ("SafeModeException",)


class _Passing(Exception):
    """A fault that another try, another namenode or another datanode may not have."""


class _NoDatanode(Exception):
    """The namenode knows no datanode but those that the request excludes."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    location: str | None
    content: bytes


class WebHdfsObjects:
    """The files below one directory of HDFS."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Find the namenodes and the user; makes no request.

        OSError as of `hadoop_settings.namenodes`; EACCES if neither HADOOP_USER_NAME nor the system names a user.
        """
        self.loop = get_loop()
        self._namenodes = hadoop_settings.namenodes(url)
        self._user = os.environ.get("HADOOP_USER_NAME") or _login_name()
        self.unfinished = UNFINISHED
        self._unfinished = f"{self._strip_protocol(url)}/{UNFINISHED}"
        self._timeout_s = timeout_s
        self._active = 0
        """The number of the namenode that has answered last."""
        self._sessions: list[aiohttp.ClientSession] = []  # made in the event loop
        close_with(self, self.loop, _closing(self._sessions))

    def _strip_protocol(self, url: str) -> str:
        path = url.split("://", 1)[1].partition("/")[2]
        return f"/{path}" if path else ""

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        first = start or 0
        if end is not None and end <= first:
            return b""
        asked = {"offset": str(first)} | ({} if end is None else {"length": str(end - first)})
        tries, failed = self._tries(), _Datanodes()
        while True:
            location = ""
            try:
                answer = await self._ask_for_datanode("GET", "OPEN", path, tries, failed, **asked)
                if answer.location is None:
                    return answer.content  # HttpFS
                location = answer.location
                return (await self._send("GET", location, waits_s=self._silence_s)).content
            except _Passing as error:
                await failed.note(location)
                await asyncio.sleep(tries.pause_s(error))
            except _NoDatanode as error:
                failed.forget()
                await asyncio.sleep(tries.pause_s(error))

    async def _info(self, path: str) -> dict[str, Any]:
        status = await self._status(path, self._tries())
        if status is None:
            raise FileNotFoundError(path)
        return _entry(path, status)

    async def _status(self, path: str, tries: Attempts) -> dict[str, Any] | None:
        """Return the status of a file at the namenode; None if there is no file."""
        try:
            answer = await self._ask("GET", "GETFILESTATUS", path, tries)
        except FileNotFoundError:
            return None
        status: dict[str, Any] = _document(answer)["FileStatus"]
        return status if status["type"] == "FILE" else None

    async def _ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        return [_entry(*child) for child in await self._children(path, self._tries())]

    async def _find(self, path: str, detail: bool = True) -> dict[str, dict[str, Any]]:
        tries, entries, directories = self._tries(), dict[str, dict[str, Any]](), [path]
        while directories:
            chunk, directories = directories[:_AT_ONCE], directories[_AT_ONCE:]
            for children in await asyncio.gather(*(self._children(directory, tries) for directory in chunk)):
                for name, status in children:
                    if status["type"] == "FILE":
                        entries[name] = _entry(name, status)
                    else:
                        directories.append(name)
        return entries

    async def _children(self, path: str, tries: Attempts) -> list[tuple[str, dict[str, Any]]]:
        """Return the paths below a directory, with what the namenode has of them; none if it is missing."""
        children: list[tuple[str, dict[str, Any]]] = []
        after: dict[str, str] = {}
        while True:
            try:
                answer = await self._ask("GET", "LISTSTATUS_BATCH", path, tries, **after)
            except FileNotFoundError:
                return children
            listing = _document(answer)["DirectoryListing"]
            statuses = listing["partialListing"]["FileStatuses"]["FileStatus"]
            # A file that is listed itself has no suffix.
            paths = [(f"{path}/{status['pathSuffix']}", status) for status in statuses if status["pathSuffix"]]
            children += [path for path in paths if path[0] != self._unfinished]
            if not listing["remainingEntries"] or not statuses:
                return children
            last = statuses[-1]["pathSuffix"]
            if after.get("startafter") == last:
                raise StoreError(errno.EIO, "the listing has no further pages; use WebHDFS of Hadoop 3")
            after = {"startafter": last, "startAfter": last}  # as the namenode and as HttpFS name it

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        tries = self._tries()
        temporary = await self._uploaded(data, tries)
        try:
            await self._rename(temporary, path, "NONE" if mode == "create" else "OVERWRITE", tries)
        except Exception:
            await self._discard(temporary)
            raise

    async def _uploaded(self, data: bytes, tries: Attempts) -> str:
        """Write a file with a new name, and return its path; it is whole and closed."""
        failed = _Datanodes()
        while True:
            # A name is used once: an upload without an answer may still continue.
            temporary = f"{self._unfinished}/{secrets.token_hex(16)}"
            asked = {"overwrite": "false", "createflag": _FLAGS}
            location = ""
            try:
                answer = await self._ask_for_datanode("PUT", "CREATE", temporary, tries, failed, **asked)
                location = answer.location or ""
                await self._send("PUT", location, data, waits_s=self._timeout_s)
                status = await self._status(temporary, tries)
                if status is not None and status["length"] == len(data):
                    return temporary
                raise _Passing("the length of a file is not that of the written bytes")
            except (_Passing, FileExistsError) as error:
                await failed.note(location)
                await self._discard(temporary)
                await asyncio.sleep(tries.pause_s(error))
            except _NoDatanode as error:
                failed.forget()
                await asyncio.sleep(tries.pause_s(error))
            except Exception:
                await self._discard(temporary)
                raise

    async def _rename(self, temporary: str, path: str, option: str, tries: Attempts) -> None:
        """Give a temporary file its name. FileExistsError if the name is taken and `option` is NONE."""
        is_directory_made = False
        while True:
            try:
                await self._ask("PUT", "RENAME", temporary, tries, destination=path, renameoptions=option)
                return
            except FileNotFoundError:
                # Either the directory is missing, or an earlier try was executed and its answer lost.
                if await self._status(temporary, tries) is None and await self._status(path, tries) is not None:
                    return
                if is_directory_made:
                    raise
            await self._ask("PUT", "MKDIRS", path.rsplit("/", 1)[0], tries)
            is_directory_made = True

    async def _discard(self, temporary: str) -> None:
        """Delete a temporary file if that is possible at once; `expiry` deletes what stays."""
        with contextlib.suppress(Exception):
            await self._ask("DELETE", "DELETE", temporary, Attempts(_BACKOFF, 0))

    async def _rm(self, paths: list[str]) -> None:
        tries = self._tries()
        for first in range(0, len(paths), _AT_ONCE):
            chunk = paths[first : first + _AT_ONCE]
            deletions = (self._ask("DELETE", "DELETE", path, tries) for path in chunk)
            for done in await asyncio.gather(*deletions, return_exceptions=True):
                if isinstance(done, BaseException) and not isinstance(done, FileNotFoundError):
                    raise done

    # --- requests ----------------------------------------------------------------------------------------------------

    def _tries(self) -> Attempts:
        return Attempts(_BACKOFF, 0.9 * self._timeout_s)  # the error of a service says more than that of the timeout

    @property
    def _silence_s(self) -> float:
        """The seconds without an answer after which another server is asked."""
        return self._timeout_s / 3

    async def _ask(self, method: str, operation: str, path: str, tries: Attempts, **asked: str) -> _Answer:
        """Ask the active namenode; the others, one after the other, if it does not answer or is not active."""
        query = urlencode({"op": operation, "user.name": self._user, **asked}, quote_via=quote)
        place = f"{_API}{quote(path) or '/'}?{query}"
        failed = 0
        while True:
            number = self._active
            try:
                return await self._send(method, self._namenodes[number] + place, waits_s=self._silence_s)
            except _Passing as error:
                if self._active == number:
                    self._active = (number + 1) % len(self._namenodes)
                failed += 1
                if failed % len(self._namenodes):  # the next namenode may answer at once
                    tries.check(error)
                else:
                    await asyncio.sleep(tries.pause_s(error))

    async def _ask_for_datanode(
        self, method: str, operation: str, path: str, tries: Attempts, failed: _Datanodes, **asked: str
    ) -> _Answer:
        """Ask the namenode for a datanode that has not failed; `_NoDatanode` if it names no other one.

        It excludes a datanode by its IP address (NamenodeWebHdfsMethods.chooseDatanode): one of those that an address
        has, at random, without a port; otherwise by the port of its data transfer, which a client does not learn. So it
        is asked again, which costs little.
        """
        location = ""
        for _ in range(_ASKED_FOR_ANOTHER_MAX):
            answer = await self._ask(method, operation, path, tries, **asked, **failed.excluded())
            location = answer.location or ""
            if location not in failed:
                return answer
        raise _NoDatanode(f"HDFS has no datanode for it but such as do not answer: {urlsplit(location).netloc}")

    async def _send(self, method: str, url: str, data: bytes | None = None, *, waits_s: float) -> _Answer:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=min(10.0, self._silence_s), sock_read=waits_s)
        named: dict[str, Any] = {"headers": {"Accept-Encoding": "identity"}}
        if data is not None:
            named["data"] = io.BytesIO(data)
            named["headers"]["Content-Type"] = "application/octet-stream"
        where = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        try:
            async with self._session().request(
                method, URL(url, encoded=True), allow_redirects=False, timeout=limits, **named
            ) as response:
                answer = _Answer(response.status, response.headers.get("Location"), await response.read())
                asks_for_kerberos = "negotiate" in response.headers.get("WWW-Authenticate", "").lower()
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            reason = f"no TLS connection to {where}: {error}; SSL_CERT_FILE names the certificates that are trusted"
            raise StoreError(errno.EIO, reason) from error
        except TimeoutError as error:
            raise _Passing(f"no answer from {where} within {waits_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno or 0
            reason = os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
            raise _Passing(f"no connection to {where}: {reason}") from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise _Passing(f"{where} ended the connection before its answer was complete") from error
        if answer.status in (200, 201):
            return answer
        if answer.status == 307 and answer.location is not None:
            return answer
        raise _error(answer, where, self._user, asks_for_kerberos=asks_for_kerberos)

    def _session(self) -> aiohttp.ClientSession:
        if not self._sessions:
            # The cookie of a login would be sent to other namenodes as well.
            self._sessions.append(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False))
        return self._sessions[0]


class _Datanodes:
    """Those that have failed in a call; the namenode is asked for others."""

    def __init__(self) -> None:
        self._failed, self._addresses = set[str](), set[str]()

    def __contains__(self, location: str) -> bool:
        return urlsplit(location).netloc in self._failed

    async def note(self, location: str) -> None:
        host = urlsplit(location).hostname
        if host is None:
            return
        self._failed.add(urlsplit(location).netloc)
        with contextlib.suppress(OSError):
            resolved = await asyncio.get_running_loop().getaddrinfo(host, None)
            self._addresses |= {str(entry[4][0]) for entry in resolved}

    def forget(self) -> None:
        self._failed.clear()
        self._addresses.clear()

    def excluded(self) -> dict[str, str]:
        return {"excludedatanodes": ",".join(sorted(self._addresses))} if self._addresses else {}


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # such as in a container that runs with any user id
        raise StoreError(errno.EACCES, "this process has no user name; set HADOOP_USER_NAME") from error


def _error(answer: _Answer, where: str, user: str, *, asks_for_kerberos: bool) -> Exception:
    """Return the error for an answer that is not a success."""
    name, said = _remote_error(answer.content)
    if answer.status == 401 and asks_for_kerberos:
        reason = f"{where} asks for Kerberos, which offsetfs does not have; use an archive in s3://, gs:// or abfs://"
        return StoreError(errno.EACCES, reason)
    if name in _TAKEN:
        return FileExistsError(said)
    if name == "FileNotFoundException":
        return FileNotFoundError(said)
    if name in _PASSING or answer.status >= 500:
        return _Passing(f"{where}: {name or answer.status}: {said}")
    if name in _DENIED or answer.status == 401:
        reason = f"access denied: {said or answer.status}; HADOOP_USER_NAME names another user than {user}"
        return StoreError(errno.EACCES, reason)
    if name in _SAFE_MODE:
        reason = (
            "the namenode is in safe mode, which refuses writes; run again when `hdfs dfsadmin -safemode get` says OFF"
        )
        return StoreError(errno.EIO, reason)
    if not name:
        reason = (
            f"{where} is not a WebHDFS service (status {answer.status}); give the port of dfs.namenode.http-address"
        )
        return StoreError(errno.EIO, reason)
    if said.startswith("Failed to find datanode"):
        return _NoDatanode(f"HDFS has no datanode for it: {said}")
    if "out of the range" in said:
        return StoreError(errno.EIO, "the object is shorter than the range that was asked for")
    return StoreError(errno.EIO, f"HDFS refuses it: {name}: {said}")


def _remote_error(content: bytes) -> tuple[str, str]:
    """Return the name of a Java exception and the first line of its message; empty texts if it is something else."""
    try:
        remote_error = json.loads(content)["RemoteException"]
        said = str(remote_error.get("message") or "").strip()
        return str(remote_error["exception"]), said.splitlines()[0][:_SAID_MAX] if said else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""


def _document(answer: _Answer) -> dict[str, Any]:
    try:
        document = json.loads(answer.content)
        if isinstance(document, dict) and ("FileStatus" in document or "DirectoryListing" in document):
            return document
    except ValueError:
        pass
    raise StoreError(errno.EIO, "the answer is none of WebHDFS; the port is that of dfs.namenode.http-address")


def _entry(path: str, status: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": path,
        "size": int(status["length"]),
        "last_modified": datetime.fromtimestamp(status["modificationTime"] / 1000, UTC),
    }


def _closing(sessions: list[aiohttp.ClientSession]) -> Callable[[], Any]:
    async def close() -> None:
        for session in sessions:
            await session.close()

    return close


__all__ = ["UNFINISHED", "WebHdfsObjects"]
