"""URLs of object storage and HDFS, and the package that each scheme needs."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://")

PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "azure.storage.blob",
    "abfs": "azure.storage.blob",
    "abfss": "azure.storage.blob",
    "webhdfs": "aiohttp",
    "swebhdfs": "aiohttp",
    "hdfs": "aiohttp",
}
"""The schemes of object storage, with the package that each needs."""

EXTRAS = {"s3fs": "s3", "gcsfs": "gcs", "azure.storage.blob": "azure", "aiohttp": "hdfs"}
"""The extra of this project that installs a package."""


def scheme(text: str) -> str | None:
    """Return the scheme of a URL of object storage or HDFS; None for a path, or another URL such as `kafka://`."""
    match = _SCHEME.match(text)
    return match["scheme"] if match and match["scheme"] in PACKAGES else None


def is_remote(text: str) -> bool:
    """Whether a text is a URL of object storage."""
    return scheme(text) is not None


def normalized(url: str) -> str:
    """Return a URL without slashes at its end; `s3a://` becomes `s3://`, so that both name the same archive."""
    url = url.rstrip("/")
    return "s3://" + url.removeprefix("s3a://") if url.startswith("s3a://") else url


def join(url: str, *names: str) -> str:
    """Return the URL of an object below another URL."""
    return "/".join((url.rstrip("/"), *names))
