"""The objects below one URL of object storage: s3fs for S3, `google_objects`, `azure_objects`, `webhdfs_objects`.

Every call is bounded by the timeout of the store, the retries of the library included, and raises OSError with the URL
as its file name: ENOENT for a missing object, bucket or container, EACCES for missing or refused credentials, EIO for
everything else. `create` is the only call that two writers compete in: it never replaces an object.

Thread-safe; several calls may be in flight. Not inherited by a forked child, which opens a store of its own.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import importlib
import os
import selectors
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from offsetfs.archive import urls
from offsetfs.archive.store_libraries import MissingBucket, ShortObject, StoreError, as_os_error, is_wrong_checksum
from offsetfs.common.backoff import Backoff
from offsetfs.common.extras import install_command

TIMEOUT_S = 30.0
"""The default for the longest time that one call takes, retries included."""

_LISTED_AT_ONCE = 1000  # keys, by the rule of S3

_REFUSED_FOR_A_MOMENT = ("InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "OperationAborted")
_DELETIONS_MAX = 4
_DELETION_BACKOFF = Backoff(0.2, 0.8)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a store. Credentials come from the library of the scheme: environment, files, roles."""

    timeout_s: float = TIMEOUT_S
    """The longest time of one call, more than 0."""
    endpoint: str | None = None
    """The URL of the service, where it is not that of the provider; for S3 the environment's AWS_ENDPOINT_URL else."""
    storage_class: str | None = None
    """The storage class of new objects in S3, such as STANDARD_IA."""
    encryption: str | None = None
    """The encryption of new objects in S3: AES256 or aws:kms."""
    kms_key: str | None = None
    """The key for aws:kms; None for the default key of the account."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A listed object. `key` is relative to the URL of the store; `modified_ms` is None if the store does not say."""

    key: str
    size: int
    modified_ms: int | None = field(default=None, compare=False)


class ObjectStore:
    """The objects below `url`; keys are relative to it, with slashes."""

    def __init__(self, url: str, settings: StoreSettings | None = None) -> None:
        """Load the library of the scheme and find credentials; makes no request to the store.

        OSError EINVAL for a URL without bucket or with an invalid name; ENOPKG, EACCES; ENOTSUP for settings that the
        store does not have, and for an hdfs:// URL whose HTTP address is not known.
        """
        self.url = urls.normalized(url)
        self.settings = settings or StoreSettings()
        scheme = urls.scheme(self.url)
        if scheme is None or not self.url.split("://", 1)[1]:
            raise OSError(errno.EINVAL, "no URL of object storage; give one such as s3://BUCKET/PREFIX", url)
        _check(scheme, self.url, self.settings)
        self._file_system = _file_system(scheme, self.url, self.settings)
        _loops.add(self._file_system.loop)
        self._root = self._file_system._strip_protocol(self.url)
        self._is_s3 = urls.PACKAGES.get(scheme) == "s3fs"
        self._pid = os.getpid()
        self.unfinished: str | None = getattr(self._file_system, "unfinished", None)
        """The prefix of what killed writers leave, which `objects` lists only by this name; None if nothing stays."""

    @property
    def is_of_this_process(self) -> bool:
        """Whether the store was opened by this process, and not by one that forked it."""
        return self._pid == os.getpid()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes [start, stop) of an object, to its end without `stop`; one request.

        OSError EIO if the answer has another length than asked for.
        """
        try:
            data: bytes = self._call("cat_file", key, start=start or None, end=stop)
        except OSError as error:
            if not is_wrong_checksum(error):
                raise
            data = self._call("cat_file", key, start=start or None, end=stop)  # a bit may have changed on the way
        if stop is not None and len(data) != stop - start:
            reason = f"the answer to bytes {start}-{stop - 1} has {len(data)} bytes instead of {stop - start}"
            raise OSError(errno.EIO, reason, self._url(key))
        return data

    def read_if_present(self, key: str, bytes_max: int) -> bytes | None:
        """Return an object whole; None if there is none with the key; one request.

        At most `bytes_max` + 1 bytes are asked for. OSError EFBIG, without a cause, if the object is larger.
        """
        try:
            data: bytes = self._call("cat_file", key, start=None, end=bytes_max + 1)
        except MissingBucket:
            raise
        except FileNotFoundError:
            return None
        except ShortObject:
            return b""
        if len(data) > bytes_max:
            raise OSError(errno.EFBIG, f"has more than {bytes_max} bytes", self._url(key))
        return data

    def exists(self, key: str) -> bool:
        """Whether an object has the key; one request."""
        return self.size(key) is not None

    def read_whole(self, key: str, size: int, sha256: str) -> bytes:
        """Return an object that never changes, compared with its SHA-256; read once more if it does not match.

        OSError EIO if it does not match again.
        """
        for _ in range(2):
            data = self.read(key)
            if len(data) == size and hashlib.sha256(data).hexdigest() == sha256:
                return data
        reason = f"the object is damaged: its {len(data)} bytes do not match its SHA-256 in the manifest ({size} bytes)"
        raise OSError(errno.EIO, reason, self._url(key))

    def size(self, key: str) -> int | None:
        """Return the bytes of an object; None if it does not exist; one request."""
        try:
            return int(self._call("info", key)["size"])
        except MissingBucket:
            raise
        except FileNotFoundError:
            return None

    def modified_ms(self, key: str) -> int | None:
        """Return the time of modification of an object, in ms since 1970; None if the store has none; one request.

        OSError ENOENT for a missing object.
        """
        return _modified_ms(self._call("info", key))

    def children(self, prefix: str = "") -> Iterator[str]:
        """Yield the names one level below a prefix, objects and prefixes, sorted; a request for each 1,000 names.

        Without folder markers, as `objects`.
        """
        for entry in self._listed("ls", prefix):
            yield entry["name"].rstrip("/").rsplit("/", 1)[-1]

    def objects(self, prefix: str) -> list[ObjectInfo]:
        """Return all objects below a prefix, sorted by key; a request for each 1,000 of them.

        Folder markers are left out: objects whose keys end with `/`, which the consoles of providers create.
        """
        entries = self._listed("find", prefix)
        offset = len(self._root) + 1
        return [ObjectInfo(entry["name"][offset:], int(entry["size"]), _modified_ms(entry)) for entry in entries]

    def _listed(self, method: str, prefix: str) -> list[dict[str, Any]]:
        try:
            listing = self._call(method, prefix, detail=True)
        except MissingBucket:
            raise
        except FileNotFoundError:
            return []
        entries = list(listing.values()) if isinstance(listing, dict) else listing
        own = self._path(prefix)
        wanted = (entry for entry in entries if entry["name"] != own and not _is_folder_marker(entry))
        return sorted(wanted, key=lambda entry: entry["name"])

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes) -> None:
        """Write an object, in the place of one with the same key. It is durable, and visible to all, on return."""
        self._call("pipe_file", key, data, **self._for_new_objects())

    def create(self, key: str, data: bytes) -> bool:
        """Write an object if there is none with its key. False, and nothing is changed, if there is one.

        Of several concurrent calls for one key, one returns True.
        """
        try:
            self._call("pipe_file", key, data, mode="create", **self._for_new_objects())
        except FileExistsError:
            return False
        return True

    def delete(self, keys: list[str]) -> None:
        """Delete objects; all are gone on return. A key without an object is no error.

        OSError if the store refuses one; others may be deleted then.
        """
        for first in range(0, len(keys), _LISTED_AT_ONCE):
            paths = [self._path(key) for key in keys[first : first + _LISTED_AT_ONCE]]
            try:
                if self._is_s3:
                    self._call_with(_delete_from_s3, "rm", self.url, self._file_system, paths)
                else:
                    self._run("_rm", "rm", self.url, paths)
            except MissingBucket:
                raise
            except FileNotFoundError:
                continue

    def _for_new_objects(self) -> dict[str, str]:
        settings = self.settings
        named = {
            "StorageClass": settings.storage_class,
            "ServerSideEncryption": settings.encryption,
            "SSEKMSKeyId": settings.kms_key,
        }
        return {name: text for name, text in named.items() if text is not None}

    # --- calls -------------------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/")

    def _url(self, key: str) -> str:
        return urls.join(self.url, key) if key else self.url

    def _call(self, method: str, key: str, *arguments: Any, **named: Any) -> Any:
        return self._run(f"_{method}", method, self._url(key), self._path(key), *arguments, **named)

    def _run(self, asynchronous: str, synchronous: str, url: str, *arguments: Any, **named: Any) -> Any:
        return self._call_with(getattr(self._file_system, asynchronous), synchronous, url, *arguments, **named)

    def _call_with(
        self, call: Callable[..., Awaitable[Any]], synchronous: str, url: str, *arguments: Any, **named: Any
    ) -> Any:
        from fsspec.asyn import sync

        try:
            return sync(self._file_system.loop, call, *arguments, timeout=self.settings.timeout_s, **named)
        except Exception as error:
            if isinstance(error, RefusedDeletion):
                url = f"{url.split('://', 1)[0]}://{self._root.split('/', 1)[0]}/{error.key}"
            raise as_os_error(error, url, synchronous, self.settings.timeout_s) from error


_loops: set[Any] = set()
"""The event loops of the stores of this process; there is one."""


def _release_loops() -> None:
    """Separate a forked child from the connections of its parent.

    Both have the same epoll. A connection that the child discards would be removed from it, and the parent would wait
    for the answer until its timeout.
    """
    for loop in _loops:
        loop._selector = selectors.SelectSelector()
        loop.set_exception_handler(lambda *_: None)  # reports connections that are not closed
    _loops.clear()


os.register_at_fork(after_in_child=_release_loops)

_MODIFIED = ("LastModified", "last_modified", "mtime")
"""The names of the modification time in the listings of S3, Azure and gcsfs. All of them are of type datetime."""


def _modified_ms(entry: dict[str, Any]) -> int | None:
    modified = next((entry[name] for name in _MODIFIED if entry.get(name) is not None), None)
    return int(modified.timestamp() * 1000) if isinstance(modified, datetime) else None


def _is_folder_marker(entry: dict[str, Any]) -> bool:
    return entry["name"].endswith("/") and entry.get("type") != "directory"


def _check(scheme: str, url: str, settings: StoreSettings) -> None:
    names = url.split("://", 1)[1].split("/")
    # fsspec takes *, ? and [ in the path of an object to delete for a pattern; # and ? begin versions.
    if any(name in ("", ".", "..") or set(name) & set("*?[]#\\") for name in names):
        reason = "an archive cannot have this URL: its names must not be empty, . or .., or have one of *?[]#\\"
        raise OSError(errno.EINVAL, reason, url)
    if not scheme.startswith("s3") and (settings.storage_class or settings.encryption or settings.kms_key):
        place = "directory" if scheme.endswith("hdfs") else "bucket"
        reason = f"storage class and encryption of new objects are those of the {place} for {scheme}://; leave them out"
        raise OSError(errno.ENOTSUP, reason, url)
    if scheme.endswith("hdfs") and settings.endpoint is not None:
        raise OSError(errno.ENOTSUP, f"an endpoint is not for {scheme}://: the URL names the namenode", url)


def _file_system(scheme: str, url: str, settings: StoreSettings) -> Any:
    package = urls.PACKAGES[scheme]
    try:
        fsspec = importlib.import_module("fsspec")
        importlib.import_module(package)
    except ImportError:
        reason = f"{scheme}:// needs the package {package.replace('.', '-')}: {install_command(urls.EXTRAS[package])}"
        raise OSError(errno.ENOPKG, reason, url) from None
    if package == "azure.storage.blob":
        return _azure(url, settings)
    if package == "aiohttp":
        from offsetfs.archive.webhdfs_objects import WebHdfsObjects

        try:
            return WebHdfsObjects(url, timeout_s=settings.timeout_s)
        except StoreError as error:
            raise OSError(error.errno, error.strerror, url) from error
    if package == "gcsfs":
        from offsetfs.archive.google_objects import GoogleObjects

        return GoogleObjects(timeout_s=settings.timeout_s, endpoint=settings.endpoint)
    options: dict[str, Any] = {
        "use_listings_cache": False,
        "max_concurrency": 1,  # else a HEAD precedes each GET of a whole object
        "config_kwargs": {
            "connect_timeout": min(10.0, settings.timeout_s),
            "read_timeout": settings.timeout_s,
            "retries": {"mode": "standard", "max_attempts": 5},
        },
    }
    if settings.endpoint is not None:
        options["endpoint_url"] = settings.endpoint
    return fsspec.filesystem(scheme, **options)


def _azure(url: str, settings: StoreSettings) -> Any:
    from offsetfs.archive.azure_objects import AzureObjects, MissingAccount

    try:
        return AzureObjects(url, timeout_s=settings.timeout_s, endpoint=settings.endpoint)
    except MissingAccount:
        reason = "no storage account is named; set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT_NAME"
        raise OSError(errno.EACCES, reason, url) from None
    except ValueError as error:
        raise OSError(errno.EACCES, f"the settings of the storage account are wrong: {error}", url) from error


class RefusedDeletion(Exception):
    """S3 did not delete a key; `code` is its reason, `key` is below the bucket."""

    operation_name = "DeleteObject"

    def __init__(self, code: str, key: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.key = key


async def _delete_from_s3(file_system: Any, paths: Sequence[str]) -> None:
    """Delete objects of one bucket, at most 1,000. `paths`: BUCKET/KEY. A key without an object is no error.

    S3 answers a DeleteObjects request with the status 200 also if it refused some keys, and names them in the body.
    s3fs leaves them out of its result, without an error.

    Keys that S3 refuses for a moment are sent again. `RefusedDeletion` for the first of those that stay; the others are
    deleted.
    """
    bucket = file_system.split_path(paths[0])[0]
    keys = [str(file_system.split_path(path)[1]) for path in paths]
    for tried in range(1, _DELETIONS_MAX + 1):
        request = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = await file_system._call_s3("delete_objects", Bucket=bucket, Delete=request)
        refused = [error for error in answer.get("Errors", []) if error.get("Code") != "NoSuchKey"]
        if not refused:
            return
        lasting = [error for error in refused if error.get("Code") not in _REFUSED_FOR_A_MOMENT]
        if lasting or tried == _DELETIONS_MAX:
            first = (lasting or refused)[0]
            raise RefusedDeletion(*(str(first.get(name) or "") for name in ("Code", "Key", "Message")))
        keys = [str(error["Key"]) for error in refused]
        await asyncio.sleep(_DELETION_BACKOFF.pause_s(tried))
