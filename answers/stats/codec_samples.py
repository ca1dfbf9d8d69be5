"""Ratios of compression, and what other codecs would need, from a sample of batches that are read and inflated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from offsetfs.answers.stats.header_facts import SampledBatch
from offsetfs.storage import Batch, Log, LogDirectories, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import CODECS, HEADER_SIZE, MAGIC, Compression, codec_name, recompressed

SAMPLES_MAX = 16
"""The batches of one codec that are read in one topic."""

INFLATED_BYTES_MAX = 4 << 20
"""The bytes of a topic's batches, inflated, that are compressed again, unless the first batch is larger."""


@dataclass(slots=True)
class CodecSample:
    """The sampled batches of one topic and codec."""

    batches: int = 0
    bytes: int = 0
    """Bytes in the log."""
    inflated_bytes: int = 0
    """Bytes if they were not compressed."""
    by_codec: dict[str, int] = field(default_factory=dict)
    """Bytes with other codecs at Kafka's default levels, if they were compressed again; messages of v0 and v1 are not.
    """
    recompressed_batches: int = 0
    recompressed_bytes: int = 0
    """Those of the batches that were compressed again, as they are in the log."""

    @property
    def ratio(self) -> float | None:
        return self.inflated_bytes / self.bytes if self.bytes else None


def sample_codecs(
    directory: LogDirectories,
    samples: Iterable[tuple[TopicPartition, SampledBatch]],
    *,
    recompresses: bool,
    on_damage: Callable[[TopicPartition, Exception], object],
) -> dict[str, CodecSample]:
    """Return the samples of one topic, by codec. Batches that cannot be read are reported and left out."""
    found: dict[str, CodecSample] = {}
    inflated = 0
    for codec in sorted({place.codec for _, place in samples}):
        mine = sorted(((place, partition) for partition, place in samples if place.codec == codec))[:SAMPLES_MAX]
        sample = CodecSample()
        for place, partition in mine:
            try:
                batch = _read(directory, partition, place.offset)
                if batch is None or batch.header.codec != codec:
                    continue
                inflated += len(batch.payload())
                _add(sample, batch, recompresses=recompresses and inflated < INFLATED_BYTES_MAX)
            except (StorageError, OSError) as error:
                on_damage(partition, error)
        if sample.batches:
            found[codec_name(codec)] = sample
    return found


def _read(directory: LogDirectories, partition: TopicPartition, offset: int) -> Batch | None:
    """Return the batch with an offset; None if retention or compaction removed it meanwhile."""
    with directory.directory_of(partition).borrowed(partition) as log:
        return _batch_at(log, offset)


def _batch_at(log: Log, offset: int) -> Batch | None:
    return log.batch_at(offset) if offset >= log.log_start_offset else None


def _add(sample: CodecSample, batch: Batch, *, recompresses: bool) -> None:
    size, overhead = batch.header.size, HEADER_SIZE if batch.header.magic == MAGIC else 0
    sample.batches += 1
    sample.bytes += size
    sample.inflated_bytes += len(batch.payload()) + overhead
    if not recompresses or batch.header.magic != MAGIC:
        return
    sample.recompressed_batches += 1
    sample.recompressed_bytes += size
    for codec in CODECS:
        needed = size if codec == batch.header.codec_name else len(recompressed(batch, Compression(codec)))
        sample.by_codec[codec] = sample.by_codec.get(codec, 0) + needed


def bytes_saved(sample: CodecSample, total_bytes: int) -> Sequence[int]:
    """Return what each of `CODECS` would save of `total_bytes`, estimated from the sample; negative: it needs more."""
    if not sample.recompressed_bytes:
        return ()
    factor = total_bytes / sample.recompressed_bytes
    return [round((sample.recompressed_bytes - sample.by_codec[codec]) * factor) for codec in CODECS]
