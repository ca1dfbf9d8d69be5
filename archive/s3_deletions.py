"""Deletions of objects in S3: one request for many keys, and the answer of each key.

S3 answers a DeleteObjects request with the status 200 also if it refused some keys, and names them in the body. s3fs
leaves them out of its result, without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from offsetfs.common.backoff import Backoff

_PASSING = ("InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "OperationAborted")
_TRIES_MAX = 4
_BACKOFF = Backoff(0.2, 0.8)


class RefusedDeletion(Exception):
    """S3 did not delete a key; `code` is its reason, `key` is below the bucket."""

    operation_name = "DeleteObject"

    def __init__(self, code: str, key: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.key = key


async def delete(file_system: Any, paths: Sequence[str]) -> None:
    """Delete objects of one bucket, at most 1,000. `paths`: BUCKET/KEY. A key without an object is no error.

    Keys that S3 refuses for a moment are sent again. `RefusedDeletion` for the first of those that stay; the others are
    deleted.
    """
    bucket = file_system.split_path(paths[0])[0]
    keys = [str(file_system.split_path(path)[1]) for path in paths]
    for tried in range(1, _TRIES_MAX + 1):
        request = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = await file_system._call_s3("delete_objects", Bucket=bucket, Delete=request)
        refused = [each for each in answer.get("Errors", []) if each.get("Code") != "NoSuchKey"]
        if not refused:
            return
        lasting = [each for each in refused if each.get("Code") not in _PASSING]
        if lasting or tried == _TRIES_MAX:
            first = (lasting or refused)[0]
            raise RefusedDeletion(*(str(first.get(name) or "") for name in ("Code", "Key", "Message")))
        keys = [str(each["Key"]) for each in refused]
        await asyncio.sleep(_BACKOFF.pause_s(tried))
