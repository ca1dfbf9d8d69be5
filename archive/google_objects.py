"""Objects of Google Cloud Storage: requests of its JSON API, with the connections and credentials of gcsfs.

The requests differ from those of gcsfs in these points:

* An upload is one request, and its boundary is random. gcsfs has a fixed one; an object which holds it, as a record
  may, is refused. The CRC-32C of what was stored is compared.
* A listing is one request for each 1,000 names, and nothing more.
* Retries end with the timeout, and refused credentials are not tried again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import secrets
from typing import Any

import crc32c
from gcsfs.core import GCSFileSystem, quote
from gcsfs.retry import HttpError, is_retriable, validate_response
from google.auth.exceptions import GoogleAuthError

from offsetfs.archive.store_libraries import MissingBucket
from offsetfs.common.backoff import Attempts, Backoff

logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # its errors are raised as well

_BACKOFF = Backoff(0.25, 8.0, jitter=0.25)
_DELETIONS_AT_ONCE = 16


class GoogleObjects(GCSFileSystem):  # type: ignore[misc]  # gcsfs has no types
    """The objects of Google Cloud Storage. Paths are BUCKET/NAME; arguments and results are those of gcsfs."""

    cachable = False  # another store may have other credentials

    def __init__(self, *, timeout_s: float, endpoint: str | None) -> None:
        """Find credentials. Without any, objects are read that all may read. `timeout_s`: as of the store."""
        named = {"use_listings_cache": False, "endpoint_url": endpoint}
        try:
            super().__init__(token="anon" if os.environ.get("STORAGE_EMULATOR_HOST") else "google_default", **named)
        except (GoogleAuthError, ValueError):
            super().__init__(token="anon", **named)
        self._tries_s = 0.9 * timeout_s  # the error of a service says more than that of the timeout
        self._buckets: set[str] = set()

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **named: Any) -> bytes:
        headers = {}
        if start is not None or end is not None:
            headers["Range"] = f"bytes={start or 0}-{'' if end is None else end - 1}"
        _, data = await self._of_object(path, "GET", self.url(path), headers=headers)
        return bytes(data)

    async def _pipe_file(self, path: str, data: bytes, mode: str = "overwrite", **named: Any) -> None:
        bucket, key, _ = self.split_path(path)
        condition = {"ifGenerationMatch": "0"} if mode == "create" else {}
        boundary = secrets.token_hex(16)
        body = b"".join(
            [
                f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode(),
                json.dumps({"name": key}).encode(),
                f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n".encode(),
                data,
                f"\r\n--{boundary}--\r\n".encode(),
            ]
        )
        headers = {"Content-Type": f'multipart/related; boundary="{boundary}"'}
        place = f"{self._location}/upload/storage/v1/b/{quote(bucket)}/o"
        words = {"uploadType": "multipart", **condition}
        try:
            stored = await self._call("POST", place, headers=headers, data=body, json_out=True, **words)
        except FileNotFoundError as error:
            raise MissingBucket(path) from error
        if base64.b64decode(stored.get("crc32c", "")) != crc32c.crc32c(data).to_bytes(4, "big"):
            raise OSError("the upload was damaged in transit: the checksum of the object is wrong; run again")

    async def _info(self, path: str, generation: str | None = None, **named: Any) -> dict[str, Any]:
        bucket, key, _ = self.split_path(path)
        resource = await self._of_object(path, "GET", "b/{}/o/{}", bucket, key, json_out=True)
        return dict(self._process_object(bucket, resource))

    async def _ls(self, path: str, detail: bool = True, **named: Any) -> list[dict[str, Any]]:
        items, prefixes = await self._listed(path, "/")
        bucket = self.split_path(path)[0]
        names = {f"{bucket}/{prefix.rstrip('/')}" for prefix in prefixes}  # a prefix may be in several pages
        return items + [{"name": name, "size": 0, "type": "directory"} for name in names]

    async def _find(self, path: str, detail: bool = True, **named: Any) -> dict[str, dict[str, Any]]:
        return {entry["name"]: entry for entry in (await self._listed(path, ""))[0]}

    async def _rm(self, path: list[str], **named: Any) -> None:
        for first in range(0, len(path), _DELETIONS_AT_ONCE):
            chunk = path[first : first + _DELETIONS_AT_ONCE]
            for done in await asyncio.gather(*(self._rm_file(name) for name in chunk), return_exceptions=True):
                if isinstance(done, BaseException) and not isinstance(done, FileNotFoundError):
                    raise done

    async def _listed(self, path: str, delimiter: str) -> tuple[list[dict[str, Any]], list[str]]:
        try:
            items, prefixes = await self._do_list_objects(path, delimiter=delimiter)
        except FileNotFoundError as error:
            raise MissingBucket(path) from error
        return items, prefixes

    async def _of_object(self, path: str, *words: Any, **named: Any) -> Any:
        try:
            return await self._call(*words, **named)
        except FileNotFoundError:
            # The answer for a missing bucket is the same. One that was there once is not asked for again.
            bucket = self.split_path(path)[0]
            if bucket not in self._buckets:
                try:
                    await self._call("GET", "b/{}/o", bucket, json_out=True, maxResults=1)
                except FileNotFoundError as error:
                    raise MissingBucket(path) from error
                except OSError:
                    pass  # a listing is not permitted
                self._buckets.add(bucket)
            raise

    async def _request(
        self, method: str, path: str, *args: Any, headers: Any = None, data: Any = None, **named: Any
    ) -> tuple[int, Any, Any, bytes]:
        attempts = Attempts(_BACKOFF, self._tries_s)
        while True:
            try:
                return await self._requested(method, path, args, headers, data, named)
            except Exception as error:
                refused = isinstance(error, HttpError) and str(error.code) == "401"
                if refused or not is_retriable(error):
                    raise
                pause_s = attempts.pause_s(error)
            await asyncio.sleep(pause_s)

    async def _requested(
        self, method: str, path: str, args: tuple[str, ...], headers: Any, data: Any, named: dict[str, Any]
    ) -> tuple[int, Any, Any, bytes]:
        await self._set_session()
        parameters = self._get_params({key: named[key] for key in named if not key.startswith("cache_")})
        async with self.session.request(
            method,
            self._format_path(path, args),
            params=parameters,
            headers=self._get_headers(headers),
            data=data,
        ) as answer:
            content = await answer.read()
            if answer.status == 403:
                raise PermissionError(content.decode(errors="replace"))
            validate_response(answer.status, content, path, args)
            return answer.status, answer.headers, answer.request_info, content
