"""DescribeLogDirs (KIP-113, KIP-827): the sizes of partitions by log directory, and the space of their file systems."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from offsetfs.common.threads import in_thread
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.messages import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from offsetfs.storage import LogDirectory

_log = logging.getLogger(__name__)


class LogDirs:
    """Answers DescribeLogDirs requests."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    async def describe_log_dirs(self, request: DescribeLogDirsRequest, version: int) -> DescribeLogDirsResponse:
        """Return the partitions that were asked for, all for null, with their sizes. Opens no log."""
        wanted = None if request.topics is None else {each.topic: set(each.partitions) for each in request.topics}
        results = [
            await in_thread(partial(_described, each, wanted), abandon_on_cancel=True)
            for each in self._directory.directories
        ]
        return DescribeLogDirsResponse(results=results)


def _described(directory: LogDirectory, wanted: Mapping[str, set[int]] | None) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    try:
        total, usable = directory.space()
        for each in directory.partitions():
            if wanted is not None and each.partition not in wanted.get(each.topic, ()):
                continue
            try:
                size = directory.size_of(each)
            except FileNotFoundError:  # deleted meanwhile
                continue
            topic = topics.setdefault(each.topic, DescribeLogDirsTopic(each.topic))
            topic.partitions.append(DescribeLogDirsPartition(each.partition, size))
    except OSError as error:
        _log.error("%s: the partitions could not be listed: %s", directory.path, error)
        return DescribeLogDirsResult(log_dir=directory.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return DescribeLogDirsResult(0, directory.path, list(topics.values()), total, usable)
