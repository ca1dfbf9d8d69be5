"""Repeats requests whose errors pass, such as those of leaders that change and coordinators that load."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from offsetfs.client.errors import ClientError
from offsetfs.client.properties import ClientProperties

Answer = TypeVar("Answer")


async def repeated(request: Callable[[], Awaitable[Answer]], properties: ClientProperties) -> Answer:
    """Return the answer; a retriable ClientError is tried again for up to `request.timeout.ms`, and raised then."""
    end_s = trio.current_time() + properties.request_timeout_ms / 1000
    while True:
        try:
            return await request()
        except ClientError as error:
            if not error.is_retriable or trio.current_time() >= end_s:
                raise
        await trio.sleep(properties.retry_backoff_ms / 1000)
