"""The sentences that jobs make of errors of Spark and its JVM."""

from __future__ import annotations

import logging
import signal

import pytest

from offsetfs.cli.spark.session import _is_no_interrupt, _kept_handler
from offsetfs.pipeline.jobs.lake import explained
from offsetfs.pipeline.jobs.workers import sentence_of

pytestmark = pytest.mark.unit

STACK = "An error occurred while calling o55.parquet.\n: {}\n\tat org.apache.hadoop.fs.s3a.S3AFileSystem.initialize"
MISSING = {
    "java.lang.NoClassDefFoundError: software/amazon/s3/analyticsaccelerator/util/retry/RetryPolicy": (
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3"
    ),
    "java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException": (
        "software.amazon.awssdk:bundle"
    ),
    "java.lang.ClassNotFoundException: org.wildfly.openssl.OpenSSLProvider": "org.wildfly.openssl:wildfly-openssl",
    "java.lang.NoClassDefFoundError: Could not initialize class com.amazonaws.ClientConfiguration": (
        "com.amazonaws:aws-java-sdk-bundle"
    ),
    "java.lang.RuntimeException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found": (
        "org.apache.hadoop:hadoop-aws"
    ),
    "java.lang.RuntimeException: Class com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem not found": (
        "com.google.cloud.bigdataoss:gcs-connector"
    ),
}


@pytest.mark.parametrize(("cause", "jar"), MISSING.items())
def test_a_class_that_spark_lacks_is_explained_by_its_jar(cause: str, jar: str) -> None:
    error = RuntimeError(STACK.format(cause))
    name = jar.partition(":")[2]
    for sentence in (sentence_of(error), str(explained(error, "s3a://lake/orders"))):
        assert f"Spark lacks the jar {name}, which has " in sentence and "\n" not in sentence
        assert f"add {jar}:VERSION to --conf spark.jars.packages" in sentence
    assert str(explained(error, "s3a://lake/orders")).startswith("s3a://lake/orders: ")


def test_an_unknown_class_that_spark_lacks_is_named() -> None:
    error = RuntimeError(STACK.format("java.lang.NoClassDefFoundError: org/example/Thing"))
    assert sentence_of(error).endswith("org/example/Thing")
    assert explained(error, "s3a://lake/orders") is None


def test_the_stack_of_a_ctrl_c_is_not_logged() -> None:
    def logged(error: type[BaseException]) -> bool:
        raised = error("reason")
        record = logging.LogRecord("root", logging.ERROR, "", 0, "while sending", (), (error, raised, None))
        return _is_no_interrupt(record)

    assert not logged(KeyboardInterrupt)
    assert logged(ValueError)


def test_a_new_session_does_not_replace_the_handler_of_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    with _kept_handler():
        signal.signal(signal.SIGINT, lambda *_: None)  # as PySpark does
    assert signal.getsignal(signal.SIGINT) is before
