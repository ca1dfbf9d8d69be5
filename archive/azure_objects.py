"""Objects of Azure Blob Storage, with Microsoft's client library.

Methods, paths (CONTAINER/NAME) and results are those of an asynchronous file system of fsspec, as far as
`object_store` calls them. adlfs is not used: after a fork, a child that has inherited one of its file systems hangs
when it ends; a listing reads neighbors too; and every answer with the status 409 passes for an object that exists.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import ClientAuthenticationError, ResourceNotFoundError
from azure.storage.blob import BlobProperties
from azure.storage.blob.aio import BlobServiceClient, ExponentialRetry
from fsspec.asyn import get_loop

from offsetfs.archive.store_libraries import RefusedCredentials, close_with

logging.getLogger("azure").setLevel(logging.CRITICAL)  # its errors are raised as well

_HOSTS = (".dfs.core.windows.net", ".blob.core.windows.net")
_AT_ONCE_BYTES_MAX = 128 << 20  # of one request; the parts of an archive have up to 64 MiB
_DELETIONS_AT_ONCE = 16


class MissingAccount(Exception):
    """Neither the URL nor the environment names a storage account."""


class AzureObjects:
    """The blobs of one storage account."""

    def __init__(self, url: str, *, timeout_s: float, endpoint: str | None) -> None:
        """Find the account and credentials; makes no request. `MissingAccount`, ValueError for a wrong one."""
        self.loop = get_loop()
        self._client = _client(url, timeout_s, endpoint)
        close_with(self, self.loop, self._client.close)

    def _strip_protocol(self, url: str) -> str:
        parts = urlsplit(url)
        return ((parts.username or parts.netloc) + parts.path).rstrip("/")

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        container, name = path.split("/", 1)
        length = None if end is None else end - (start or 0)
        offset = 0 if length is not None and start is None else start
        download = await self._client.get_blob_client(container, name).download_blob(offset=offset, length=length)
        return await download.readall()

    async def _pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        container, name = path.split("/", 1)
        # Without `overwrite` it is sent with If-None-Match: *
        await self._client.get_blob_client(container, name).upload_blob(data, overwrite=mode != "create")

    async def _info(self, path: str) -> dict[str, Any]:
        container, name = path.split("/", 1)
        return _entry(container, await self._client.get_blob_client(container, name).get_blob_properties())

    async def _ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        container, _, name = path.partition("/")
        client = self._client.get_container_client(container)
        blobs = client.walk_blobs(name_starts_with=f"{name}/" if name else None)
        # An account with directories lists one also as an object of its own.
        entries = [blob async for blob in blobs if not _is_folder_marker(blob)]
        return list({entry.name.rstrip("/"): _entry(container, entry) for entry in entries}.values())

    async def _find(self, path: str, detail: bool = True) -> dict[str, dict[str, Any]]:
        container, _, name = path.partition("/")
        client = self._client.get_container_client(container)
        blobs = client.list_blobs(name_starts_with=f"{name}/" if name else None, include=["metadata"])
        entries = [
            _entry(container, blob) async for blob in blobs if not (_is_directory(blob) or _is_folder_marker(blob))
        ]
        return {entry["name"]: entry for entry in entries}

    async def _rm(self, paths: list[str]) -> None:
        for first in range(0, len(paths), _DELETIONS_AT_ONCE):
            chunk = [path.split("/", 1) for path in paths[first : first + _DELETIONS_AT_ONCE]]
            deletions = (self._client.get_blob_client(*place).delete_blob() for place in chunk)
            for done in await asyncio.gather(*deletions, return_exceptions=True):
                if isinstance(done, BaseException) and not isinstance(done, ResourceNotFoundError):
                    raise done


class _Credential:
    """The credentials of Microsoft's own tools. What is refused is not tried again by the client of the store."""

    def __init__(self) -> None:
        from azure.identity.aio import DefaultAzureCredential

        self._default = DefaultAzureCredential()

    async def get_token(self, *scopes: str, **named: Any) -> Any:
        try:
            return await self._default.get_token(*scopes, **named)
        except ClientAuthenticationError as error:
            code = re.search(r"\bAADSTS[0-9]+", str(error))
            raise RefusedCredentials(code[0] if code else "") from error

    async def close(self) -> None:
        await self._default.close()


def _entry(container: str, blob: Any) -> dict[str, Any]:
    return {
        "name": f"{container}/{blob.name.rstrip('/')}",
        "size": blob.get("size"),
        "last_modified": blob.get("last_modified"),
    }


def _is_directory(blob: Any) -> bool:
    return any(name.lower() == "hdi_isfolder" for name in blob.metadata or {})


def _is_folder_marker(blob: Any) -> bool:
    return isinstance(blob, BlobProperties) and blob.name.endswith("/")


def _client(url: str, timeout_s: float, endpoint: str | None) -> BlobServiceClient:
    named: dict[str, Any] = {
        "retry_policy": ExponentialRetry(initial_backoff=0, increment_base=2, retry_total=5, random_jitter_range=1),
        "connection_timeout": min(10.0, timeout_s),
        "read_timeout": timeout_s,
        "max_single_put_size": _AT_ONCE_BYTES_MAX,
        "max_single_get_size": _AT_ONCE_BYTES_MAX,
    }
    host = urlsplit(url).hostname if "@" in url else None
    account = _of_environment("ACCOUNT_NAME") if host is None else host.split(".")[0]
    connection = _of_environment("CONNECTION_STRING")
    if connection is not None and host is None and endpoint is None:
        return BlobServiceClient.from_connection_string(connection, **named)
    if endpoint is None:
        if account is None:
            raise MissingAccount
        suffix = next((known for known in _HOSTS if (host or "").endswith(known)), None)
        endpoint = f"https://{account}{_HOSTS[1]}" if host is None or suffix else f"https://{host}"
    key, token = _of_environment("ACCOUNT_KEY"), _of_environment("SAS_TOKEN")
    credential: Any = token
    if key is not None:
        credential = {"account_name": account, "account_key": key}
    elif token is None:
        credential = _Credential()
    return BlobServiceClient(endpoint, credential=credential, **named)


def _of_environment(name: str) -> str | None:
    return os.environ.get(f"AZURE_STORAGE_{name}") or None
