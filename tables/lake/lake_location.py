"""The place of a table: `iceberg:WAREHOUSE`, `iceberg:CATALOG` or `delta:TABLE`.

iceberg:/data/lake     a warehouse in a directory, with its catalog in /data/lake/catalog.db
iceberg:production     a catalog of .pyiceberg.yaml: REST, Glue, Hive, SQL
delta:/data/orders     the directory of a table; delta:s3://bucket/orders an object store
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.storage import TopicPartition
from offsetfs.tables.databases.layout import TableError

ICEBERG, DELTA = "iceberg", "delta"
_LOCATION = re.compile(r"(iceberg|delta):(.*)", re.DOTALL)
_IN_URLS = re.compile(r"[?#%]")


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """A format, and the place that the user gave."""

    format: str
    place: str

    @property
    def directory(self) -> str:
        """The absolute path of a local directory; empty for an object store and for a catalog with a name."""
        is_local = "://" not in self.place and (self.format == DELTA or "/" in self.place)
        return os.path.abspath(self.place) if is_local else ""


def parse_lake_location(text: str) -> LakeLocation | None:
    """Return the location; None for the URL of a database. TableError for a place that cannot be one."""
    match = _LOCATION.fullmatch(text)
    if match is None:
        return None
    location = LakeLocation(match[1], match[2])
    if not location.place:
        raise TableError(f"{text} has no place: write iceberg:/WAREHOUSE, iceberg:CATALOG or delta:/TABLE")
    if location.format == ICEBERG and "://" in location.place:
        raise TableError(
            f"{text}: a warehouse in an object store needs a catalog: describe it in ~/.pyiceberg.yaml, and write "
            "iceberg:NAME"
        )
    if location.format == ICEBERG and _IN_URLS.search(location.directory):
        raise TableError(f"{text}: the path of a warehouse has none of ? # %; choose another directory")
    return location


@dataclass(frozen=True, slots=True)
class LakeProgress:
    """The progress of a partition in a table."""

    next_offset: int
    topic: int | None
    """The first 63 bits of the topic id, as Delta's transactions have numbers; None for a topic without an id."""


Progress = Mapping[TopicPartition, LakeProgress]


class Overtaken(Exception):
    """Another run has committed the same partitions, or the table has other columns now: nothing was committed."""


def other_rows(name: str, topic: str) -> TableError:
    """Return the error for a table of raw rows, or of decoded rows of another topic."""
    rows = f"decoded rows of {topic}" if topic else "rows without decoding"
    return TableError(f"{name} has {rows}: choose another table")
