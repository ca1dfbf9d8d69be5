"""Arguments of commands that write to object storage, or read all of an archive: its URL, the service, the timeout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.arguments.numbers import SECONDS_MS, duration_type
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.storage import TopicPartition

if TYPE_CHECKING:
    from offsetfs.archive.object_store import ObjectStore, StoreSettings

_EXAMPLES = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX or webhdfs://NAMENODE:9870/PATH"


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add --endpoint and --timeout; the command gets `endpoint` and `timeout_s`."""
    timeout = click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=duration_type(SECONDS_MS, 0.001),
        default=30.0,
        show_default=True,
        help="The longest time of one request to object storage, retries included.",
    )
    endpoint = click.option(
        "--endpoint", metavar="URL", help="The service of object storage, if it is not the provider's."
    )
    return endpoint(timeout(function))


def opened_store(url: str, settings: StoreSettings | None = None) -> ObjectStore:
    """Return the objects of a URL; `Failure` for anything else. OSError if the package for its scheme is missing."""
    from offsetfs.archive.object_store import ObjectStore

    if not is_archive(url):
        raise Failure(f"{url}: is not a URL of object storage; write {_EXAMPLES}", WRONG_CALL)
    return ObjectStore(url, settings)


def partitions_in(store: ObjectStore) -> list[TopicPartition]:
    """Return the partitions of an archive, by the names in its listing; OSError. Empty if there is no archive."""
    return [partition for name in store.children() if (partition := TopicPartition.parse_or_none(name)) is not None]


def check_whole(url: str, settings: StoreSettings | None = None) -> None:
    """Explain that a URL without an archive is inside of one, such as that of a partition: `Failure`."""
    from offsetfs.archive import marker

    with contextlib.suppress(OSError):
        if (archive_url := marker.above(opened_store(url, settings))) is not None:
            reason = f"is inside of the archive {archive_url}; give that URL, and the topics or partitions by name"
            raise Failure(f"{url}: {reason}", WRONG_CALL)
