"""Checks of topic ids and leader epochs, and of the metadata log of the cluster against the directories."""

from __future__ import annotations

import base64
import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator

from offsetfs.answers.doctor.cluster import ClusterFacts
from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.doctor.survey import DirectorySurvey, PartitionSurvey
from offsetfs.answers.report import Diagnosis, Severity
from offsetfs.common.formatting import size
from offsetfs.storage import METADATA_TOPIC, TopicPartition, files
from offsetfs.storage.directory import LEADER_EPOCHS, PARTITION_METADATA
from offsetfs.storage.errors import counted

_NAMED_MAX = 3
_STRAY = (
    "the next start of a broker of 3.9 or later renames it to …-stray, and serves the partition without these "
    "records; earlier KRaft brokers do not start"
)


def metadata_log(examined: Examination) -> Iterator[Diagnosis]:
    """Yield what cannot be read of the metadata log."""
    for directory in examined.opened.directories if examined.opened is not None else ():
        if directory.metadata is None:
            continue
        directory.metadata.refresh()
        problem = directory.metadata.problem
        if problem is not None:
            consequence = "topics and settings behind it are unknown: the broker does not start, or has an old state"
            remedy = "restore the newest snapshot (….checkpoint) from another controller"
            yield Diagnosis(Severity.DAMAGE, "metadata-log", directory.metadata.path, str(problem), consequence, remedy)


def topic_ids(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions whose topic id is missing, unreadable, or not that of their topic."""
    cluster = examined.cluster
    expected = _expected_ids(examined, cluster)
    for found in examined.partitions():
        if found.partition.topic == METADATA_TOPIC:
            continue
        wanted = expected.get(found.partition.topic)
        if found.topic_id_problem:
            yield _no_topic_id(found, wanted, found.topic_id_problem)
        elif found.topic_id is None:
            if _needs_topic_id(found, wanted):
                yield _no_topic_id(found, wanted, "the file is missing")
        elif wanted is not None and found.topic_id != wanted:
            yield _other_topic_id(found, wanted, in_cluster=cluster is not None)


def _expected_ids(examined: Examination, cluster: ClusterFacts | None) -> dict[str, bytes]:
    """Return the id of each topic: of the metadata log, else the one that most of its partitions have."""
    if cluster is not None:
        return cluster.topic_ids
    votes: dict[str, Counter[bytes]] = defaultdict(Counter)
    for found in examined.partitions():
        if found.topic_id is not None:
            votes[found.partition.topic][found.topic_id] += 1
    return {topic: ids.most_common(1)[0][0] for topic, ids in votes.items()}


def _needs_topic_id(found: PartitionSurvey, wanted: bytes | None) -> bool:
    if found.directory.is_live and not found.bytes:  # a broker writes the file with the first records
        return False
    return wanted is not None or _is_kraft(found)


def _is_kraft(found: PartitionSurvey) -> bool:
    """Whether the directory is of a KRaft broker. One with ZooKeeper may be older than topic ids."""
    return found.directory.properties.get("version") == "1"


def _no_topic_id(found: PartitionSurvey, wanted: bytes | None, reason: str) -> Diagnosis:
    path = os.path.join(found.path, PARTITION_METADATA)
    if wanted is None:
        remedy = (
            "take the topic id from another broker, and write the file: kafka-topics.sh --bootstrap-server HOST:9092 "
            f"--describe --topic {found.partition.topic}"
        )
    else:
        content = f"version: 0\\ntopic_id: {id_text(wanted)}"
        remedy = f"with the broker stopped: printf '{content}' > {shlex.quote(path)}"
    return Diagnosis(Severity.DAMAGE, "no-topic-id", str(found.partition), f"{path}: {reason}", _STRAY, remedy)


def _other_topic_id(found: PartitionSurvey, wanted: bytes, *, in_cluster: bool) -> Diagnosis:
    assert found.topic_id is not None
    source = "the metadata log" if in_cluster else "other partitions of the topic"
    evidence = f"has topic id {id_text(found.topic_id)}, {source} {id_text(wanted)}; {size(found.bytes)}"
    remedy = "keep a copy of the directory if the records are needed; the topic was deleted and created again"
    return Diagnosis(Severity.DAMAGE, "topic-id", str(found.partition), evidence, _STRAY, remedy)


def id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def strays(examined: Examination) -> Iterator[Diagnosis]:
    """Yield partitions of topics that the cluster does not have, or that it keeps on other brokers."""
    cluster = examined.cluster
    if cluster is None:
        return
    for found in examined.partitions():
        if found.partition.topic == METADATA_TOPIC or not files.is_directory(found.path):
            continue
        reason = _why_stray(found, cluster, found.directory.node)
        if reason:
            consequence = "the next start of the broker renames it to …-stray; its records are served no more"
            remedy = f"if they are needed, copy {shlex.quote(found.path)} elsewhere before the broker starts"
            evidence = f"{reason}; {size(found.bytes)} here"
            severity = Severity.NOTICE if found.directory.is_live else Severity.WARNING
            yield Diagnosis(severity, "stray", str(found.partition), evidence, consequence, remedy)


def _why_stray(found: PartitionSurvey, cluster: ClusterFacts, node: int | None) -> str:
    partition = found.partition
    if partition.topic not in cluster.topic_ids:
        return "the metadata log has no such topic: it was deleted while the broker was down, or is of another cluster"
    replicas = cluster.replicas.get(partition)
    if replicas is None:
        return "the metadata log has the topic, and no such partition"
    if node is not None and node not in replicas:
        return f"the metadata log has its replicas on the brokers {', '.join(map(str, replicas))}, and this is {node}"
    return ""


def missing_partitions(examined: Examination) -> Iterator[Diagnosis]:
    """Yield topics of which the cluster keeps partitions here, and the directories have none."""
    cluster = examined.cluster
    if cluster is None:
        return
    here = {found.partition for found in examined.partitions()}
    nodes = {directory.node for directory in examined.surveys}
    ids = {_directory_id(directory) for directory in examined.surveys}
    absent: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition, replicas in cluster.replicas.items():
        if partition not in here and _is_here(replicas, cluster.directory_ids[partition], nodes, ids):
            absent[partition.topic].append(partition)
    for topic, partitions in sorted(absent.items()):
        if examined.is_live and any(
            files.is_directory(os.path.join(directory.path, str(partition)))
            for partition in partitions
            for directory in examined.surveys
        ):
            continue  # the broker is creating them
        named = ", ".join(map(str, sorted(partitions)[:_NAMED_MAX])) + ", …" * (len(partitions) > _NAMED_MAX)
        evidence = f"the metadata log has {counted(len(partitions), 'partition')} in this directory: {named}"
        consequence = "the broker creates them empty; their records come from other replicas, if there are any"
        remedy = "if a disk was moved or is not mounted, stop the broker before it starts without it"
        yield Diagnosis(Severity.WARNING, "missing-partition", topic, evidence, consequence, remedy)


def _directory_id(directory: DirectorySurvey) -> bytes | None:
    text = directory.properties.get("directory.id", "")
    try:
        return base64.urlsafe_b64decode(text + "==") if text else None
    except ValueError:
        return None


def _is_here(
    replicas: tuple[int, ...], directory_ids: tuple[bytes, ...], nodes: set[int | None], ids: set[bytes | None]
) -> bool:
    """Whether a replica belongs into one of the directories; before Kafka 3.7 that is not recorded."""
    pairs = zip(replicas, directory_ids, strict=False)
    return any(node in nodes and directory_id in ids for node, directory_id in pairs)


def leader_epochs(examined: Examination) -> Iterator[Diagnosis]:
    """Yield leader epochs that go back: within a file, and below those of the metadata log."""
    for found in examined.partitions():
        path = os.path.join(found.path, LEADER_EPOCHS)
        if found.epochs_problem:
            consequence = "followers truncate at wrong offsets; the broker builds the file anew from the batches"
            remedy = f"with the broker stopped: rm {shlex.quote(path)}"
            yield Diagnosis(Severity.DAMAGE, "leader-epochs", path, found.epochs_problem, consequence, remedy)
        elif found.epochs and examined.cluster is not None:
            yield from _epoch_back(found, examined.cluster, path)


def _epoch_back(found: PartitionSurvey, cluster: ClusterFacts, path: str) -> Iterator[Diagnosis]:
    latest, known = found.epochs[-1][0], cluster.leader_epochs.get(found.partition)
    is_same_topic = found.topic_id == cluster.topic_ids.get(found.partition.topic)
    if known is not None and is_same_topic and latest > known and not found.directory.is_live:
        evidence = f"{path} has epoch {latest}, and the metadata log is at {known}"
        consequence = "the metadata log is older than the records: followers refuse or truncate newer records"
        remedy = "do not start this controller; use the metadata log of another controller"
        yield Diagnosis(Severity.DAMAGE, "leader-epoch-back", str(found.partition), evidence, consequence, remedy)
