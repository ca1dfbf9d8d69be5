"""Arguments of commands that write to object storage, or read all of an archive: its URL, the service, the timeout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.exit_codes import WRONG_CALL, Failure

if TYPE_CHECKING:
    from offsetfs.archive.object_store import ObjectStore, StoreSettings

_EXAMPLES = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX or webhdfs://NAMENODE:9870/PATH"


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add --endpoint and --timeout; the command gets `endpoint` and `timeout_s`."""
    timeout = click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
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


def check_whole(url: str, settings: StoreSettings | None = None) -> None:
    """Explain that a URL without an archive is inside of one, such as that of a partition: `Failure`."""
    from offsetfs.archive import marker

    with contextlib.suppress(OSError):
        if (found := marker.above(opened_store(url, settings))) is not None:
            reason = f"is inside of the archive {found}; give that URL, and the topics or partitions by name"
            raise Failure(f"{url}: {reason}", WRONG_CALL)
