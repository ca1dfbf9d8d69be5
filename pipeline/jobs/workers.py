"""Spreading work over Spark: a descriptor for each task, an answer from each, and nothing else through the JVM."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from offsetfs.pipeline.task_process import settle
from offsetfs.storage import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = dict[str, Any]
_Descriptor = TypeVar("_Descriptor")


_LOOKS = 32
"""How many tasks look: enough for each executor of a small cluster to get some."""


class JobFailed(Exception):
    """A job cannot be done; the message is one sentence."""


def spread(
    spark: SparkSession, work: Callable[[_Descriptor], Answer], descriptors: Sequence[_Descriptor]
) -> list[Answer]:
    """Return what `work` answers to each descriptor, in their order. A task each; JSON values come back.

    `work` is a function of a module, so that it is found by its name where the tasks run. What it raises ends the job.
    """
    if not descriptors:
        return []

    def tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = json.dumps(work(descriptors[number]))
                settle()
                yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), pa.array([answer])], ["id", "answer"])

    count = len(descriptors)
    rows = spark.range(0, count, 1, count).mapInArrow(tasks, "id long, answer string").collect()
    return [json.loads(row.answer) for row in sorted(rows, key=lambda row: row.id)]


def check_sight(spark: SparkSession, path: str, *, is_to_write: bool = False) -> None:
    """Raise `JobFailed` unless every executor sees this directory under its path.

    One that will be written to gets a file for the executors to look for, which goes again. Of one that is only read
    the names are compared, but not those of a moment. Nothing is asked where all tasks run on this machine.
    """
    if spark_is_local(spark):
        return
    name = f".offsetfs-nonce-{uuid.uuid4().hex}"
    nonce = os.path.join(path, name)
    if is_to_write:
        files.replace_file(nonce, name.encode(), sync_name=False)
    try:
        looked_for = nonce if is_to_write else path
        found = spread(spark, _sight, [looked_for] * _LOOKS)
        wanted = _sight(looked_for)["sees"]
    finally:
        if is_to_write:
            files.remove_file(nonce)
    blind = sorted({answer["host"] for answer in found if answer["sees"] != wanted})
    if blind:
        raise JobFailed(f"{path} is another one on {', '.join(blind)}: all executors need the same files there")


def spark_is_local(spark: SparkSession) -> bool:
    """Whether tasks run in processes of this machine's driver."""
    master = str(spark.conf.get("spark.master", ""))
    return master.startswith("local") and not master.startswith("local-cluster")


def _sight(path: str) -> Answer:
    """Return what there is under a path here: the names of a directory that stay, or whether it is there at all."""
    host = os.uname().nodename
    if not files.is_directory(path):
        return {"host": host, "sees": files.exists(path)}
    return {"host": host, "sees": sorted(name for name in files.directory_names(path) if not name.startswith("."))}


_RAISED = re.compile(r"^(?:[\w$.]+\.)?(\w+): (.+)$")
_OF_THE_JVM = re.compile(r"^: (?:[a-z]\w*\.)+\w+: (.+)$")
_OURS = re.compile(r"^offsetfs\.[\w.]+: (.+)$")


def sentence_of(error: BaseException) -> str:
    """Return what a failed job is to say: our own sentence where there is one amid the stacks of Python and the JVM."""
    lines = str(error).splitlines()
    ours = [found.group(1) for line in lines if (found := _OURS.match(line.strip()))]
    if ours:
        return ours[-1]
    raised = [
        line.strip() for line in lines if (found := _RAISED.match(line.strip())) and found.group(1).endswith("Error")
    ]
    if raised:
        return raised[-1]
    of_the_jvm = [found.group(1) for line in lines if (found := _OF_THE_JVM.match(line))]
    return next(iter([*of_the_jvm, *lines]), type(error).__name__)
