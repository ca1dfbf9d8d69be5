"""Repeats requests whose errors pass, such as those of leaders that change and coordinators that load."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from offsetfs.kafka.client.errors import ClientError, RequestTimedOut
from offsetfs.kafka.client.properties import ClientProperties

Answer = TypeVar("Answer")


async def repeated(request: Callable[[], Awaitable[Answer]], properties: ClientProperties) -> Answer:
    """Return the answer; a retriable ClientError is tried again for `default.api.timeout.ms` in all, and raised then.

    `request` finds leader, controller or coordinator again each time. Requests in it may be repeated themselves: the
    limit of the outermost one holds.
    """
    failure: ClientError | None = None
    with trio.move_on_after(properties.default_api_timeout_ms / 1000):
        while True:
            try:
                return await request()
            except ClientError as error:
                if not error.is_retriable:
                    raise
                failure = error
            await trio.sleep(properties.retry_backoff_ms / 1000)
    raise failure or RequestTimedOut(
        f"no answer within {properties.default_api_timeout_ms} ms (default.api.timeout.ms)"
    )
