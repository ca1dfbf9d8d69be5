"""Distributes work over Spark: a descriptor for each task, and its result. No other data passes through the JVM."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from offsetfs.archive import urls
from offsetfs.pipeline.staging import NONCE_PREFIX
from offsetfs.pipeline.task_process import settle
from offsetfs.storage import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = dict[str, Any]
_Descriptor = TypeVar("_Descriptor")


_LOOKS = 32
"""The number of tasks that look: enough for each executor of a small cluster to get some."""


class JobFailed(Exception):
    """A job cannot be done; the message is one sentence."""


def spread(
    spark: SparkSession, work: Callable[[_Descriptor], Answer], descriptors: Sequence[_Descriptor]
) -> list[Answer]:
    """Return the results of `work` for each descriptor, in order. One task each; results are JSON values.

    `work` is a function of a module, so that the tasks can import it by name. An exception of it ends the job.
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


def check_visible(spark: SparkSession, path: str, *, is_to_write: bool = False) -> None:
    """Raise `JobFailed` unless every executor sees this directory under its path.

    If the directory will be written to, a temporary file is created for the executors to find. If it is only read, its
    names are compared, except short-lived ones. Without effect if all tasks run on this machine, and for the URL of an
    archive, which is the same everywhere.
    """
    if spark_is_local(spark) or urls.is_remote(path):
        return
    name = f"{NONCE_PREFIX}{uuid.uuid4().hex}"
    nonce = os.path.join(path, name)
    if is_to_write:
        files.replace_file(nonce, name.encode(), sync_name=False)
    try:
        looked_for = nonce if is_to_write else path
        answers = spread(spark, _visible_names, [looked_for] * _LOOKS)
        wanted = _visible_names(looked_for)["sees"]
    finally:
        if is_to_write:
            files.remove_file(nonce)
    blind = sorted({answer["host"] for answer in answers if answer["sees"] != wanted})
    if blind:
        raise JobFailed(f"{path} has other files on {', '.join(blind)}: all executors need the same files there")


def spark_is_local(spark: SparkSession) -> bool:
    """Whether tasks run in processes of this machine's driver."""
    master = str(spark.conf.get("spark.master", ""))
    return master.startswith("local") and not master.startswith("local-cluster")


def _visible_names(path: str) -> Answer:
    """Return what exists under a path here: the lasting names of a directory, or whether there is anything."""
    host = os.uname().nodename
    if not files.is_directory(path):
        return {"host": host, "sees": files.exists(path)}
    return {"host": host, "sees": sorted(name for name in files.directory_names(path) if not name.startswith("."))}


_RAISED = re.compile(r"^(?:[\w$.]+\.)?(\w+): (.+)$")
_OF_THE_JVM = re.compile(r"^: (?:[a-z]\w*\.)+\w+: (.+)$")
_OURS = re.compile(r"^offsetfs\.[\w.]+: (.+)$")
_MISSING_CLASS = re.compile(
    r"(?:NoClassDefFoundError|ClassNotFoundException): (?:Could not initialize class )?([A-Za-z][\w$]*(?:[./][\w$]+)+)"
    r"|Class ([\w.$]+) not found"
)
_JARS = {
    "org.apache.hadoop.fs.s3a.": "org.apache.hadoop:hadoop-aws",
    "org.apache.hadoop.fs.azure": "org.apache.hadoop:hadoop-azure",
    "com.google.cloud.hadoop.": "com.google.cloud.bigdataoss:gcs-connector",
    "software.amazon.s3.analyticsaccelerator.": "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3",
    "software.amazon.encryption.s3.": "software.amazon.encryption.s3:amazon-s3-encryption-client-java",
    "software.amazon.awssdk.": "software.amazon.awssdk:bundle",
    "com.amazonaws.": "com.amazonaws:aws-java-sdk-bundle",
    "org.wildfly.openssl.": "org.wildfly.openssl:wildfly-openssl",
    "com.microsoft.azure.": "com.microsoft.azure:azure-storage",
}
"""The jars, as Maven names them, that have the classes which begin so: file systems of Hadoop, and what they load."""


def missing_jar(text: str) -> str | None:
    """Return the sentence for an error of the JVM that names a class of a jar that Spark does not have; else None."""
    for match in _MISSING_CLASS.finditer(text):
        name = (match[1] or match[2]).replace("/", ".")
        jar = next((jar for prefix, jar in _JARS.items() if name.startswith(prefix)), None)
        if jar is not None:
            return (
                f"Spark lacks the jar {jar.partition(':')[2]}, which has {name}: add {jar}:VERSION to "
                "--conf spark.jars.packages, or the file to --conf spark.jars"
            )
    return None


def sentence_of(error: BaseException) -> str:
    """Return the message of a failed job: our own sentence if there is one among the stacks of Python and the JVM."""
    lines = str(error).splitlines()
    ours = [match.group(1) for line in lines if (match := _OURS.match(line.strip()))]
    if ours:
        return ours[-1]
    jar = missing_jar(str(error))
    if jar is not None:
        return jar
    raised = [
        line.strip() for line in lines if (match := _RAISED.match(line.strip())) and match.group(1).endswith("Error")
    ]
    if raised:
        return raised[-1]
    of_the_jvm = [match.group(1) for line in lines if (match := _OF_THE_JVM.match(line))]
    return next(iter([*of_the_jvm, *lines]), type(error).__name__)
