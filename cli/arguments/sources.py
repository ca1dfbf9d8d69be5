"""Opens LOGDIR for reading: a log directory, several, those of a server.properties, an archive, or a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import attached
from offsetfs.cli.arguments.cluster_options import ClusterQuestion, check_cluster_options, is_cluster
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.exit_codes import FAILED, Failure
from offsetfs.storage import LogDirectories, LogDirectory
from offsetfs.storage.coordinators import OFFSETS_TOPIC
from offsetfs.storage.directory import DirectoryAccess
from offsetfs.storage.errors import StorageError, sentence

_ALL = ClusterQuestion()


@contextlib.contextmanager
def opened_with_commits(
    text: str, group: str | None, config: str | None, *, records_before: int = 0
) -> Iterator[LogDirectories]:
    """Open LOGDIR for the commits of all groups, or of one, as `opened_source`.

    Of a cluster, the commits are copied, and the records from them on, with `records_before` the commits of `group`.
    """
    question = _ALL
    if is_cluster(text):
        from offsetfs.answers.groups import first_offsets
        from offsetfs.kafka.mirror.survey import Beginning

        commits = ClusterQuestion([OFFSETS_TOPIC])  # if it is not there, this user may not be allowed to describe it
        with opened_source(text, question=commits, config=config) as opened:
            places = first_offsets(opened, group)
        begins = {
            partition: Beginning(time, max(offset - records_before, 0)) for partition, (offset, time) in places.items()
        }
        question = ClusterQuestion(others=[OFFSETS_TOPIC], begins=begins, may_lack=True)
    with opened_source(text, question=question, config=config) as directory:
        yield directory


@contextlib.contextmanager
def opened_source(
    text: str, *, question: ClusterQuestion = _ALL, config: str | None = None, shows_log_end: bool = False
) -> Iterator[LogDirectories]:
    """Open what LOGDIR means, read-only, as one tree; `Failure` if it cannot be opened. No lock, nothing is written.

    Of a cluster, `question` is copied into a cache first, with the client.properties of `config` or of --config.

    `shows_log_end`: whether logs end at their last batch, above the high watermark.
    """
    check_cluster_options()
    topics = None
    if is_cluster(text):
        from offsetfs.cli.arguments.cluster_copies import copied

        copy = copied(text, question, config)
        paths, topics = [copy.path], copy.topics
    else:
        paths = [attached(path) for path in log_directories(text)]
    checked = preflight.check_directories(paths, read_only=True, may_be_empty=True)
    access = DirectoryAccess(shows_log_end=shows_log_end, topics=topics)
    try:
        directory = LogDirectories.open(
            checked.paths, lambda path: LogDirectory.open(path, read_only=True, access=access), checked.left_out
        )
    except StorageError as error:
        raise Failure(sentence(error), FAILED) from error
    with contextlib.closing(directory):
        yield directory
