"""Times of records that Spark cannot hold: before or beyond the microseconds of 64 bits, which end in the year 294247.

Kafka takes any number from a producer. Arrow batches have the nearest time that there is. Here they get what the option
`timesBeyondSpark` asks for, and are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.pipeline.read_options import FAIL, NULL
from offsetfs.storage import TopicPartition
from offsetfs.tables.arrow.record_batches import TIME_MAX_MS, TIME_MIN_MS

_log = logging.getLogger(__name__)

TIMESTAMP = "timestamp"
_LIMITS_US = TIME_MIN_MS * 1000, TIME_MAX_MS * 1000


class TimeBeyondSpark(ValueError):
    """A record has a time that Spark cannot hold, and `timesBeyondSpark` is `fail`."""


def with_times(batches: Iterable[pa.RecordBatch], name: TopicPartition, wanted: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches with times as the option wants them; log a warning with their number at the end."""
    count = 0
    for batch in batches:
        beyond = _beyond(batch)
        if beyond is not None:
            if wanted == FAIL:
                raise TimeBeyondSpark(
                    f"{name}: {pc.sum(beyond)} of {batch.num_rows} records have times that Spark cannot hold;"
                    " timesBeyondSpark=null makes them null"
                )
            count += pc.sum(beyond).as_py()
            batch = _with_nulls(batch, beyond) if wanted == NULL else batch
        yield batch
    if count:
        fate = "are null" if wanted == NULL else "are the nearest time that there is (timesBeyondSpark=null or fail)"
        _log.warning("offsetfs: %s: times of %d records that Spark cannot hold %s", name, count, fate)


def _beyond(batch: pa.RecordBatch) -> pa.Array | None:
    """Return which times are beyond the limits; None if there are none."""
    if TIMESTAMP not in batch.schema.names:
        return None
    times = batch.column(TIMESTAMP).cast(pa.int64())
    ends = pc.min_max(times).as_py()
    if ends["min"] is None or (ends["min"] > _LIMITS_US[0] and ends["max"] < _LIMITS_US[1]):
        return None
    return pc.or_(pc.less_equal(times, _LIMITS_US[0]), pc.greater_equal(times, _LIMITS_US[1]))


def _with_nulls(batch: pa.RecordBatch, beyond: pa.Array) -> pa.RecordBatch:
    place = batch.schema.names.index(TIMESTAMP)
    times = pc.if_else(beyond, pa.scalar(None, batch.schema.field(place).type), batch.column(place))
    return batch.set_column(place, batch.schema.field(place), times)
