"""One Spark session for the whole run: beginning one takes longer than most tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fixtures.machine.free_ports import free_port
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import S3Faults
from fixtures.stores.s3_server import S3Server

JARS = Path(__file__).parents[2] / ".cache" / "spark-jars" / "libs"


@pytest.fixture(scope="session")
def s3_port() -> int:
    """A free port, for the proxy before the S3 server: Spark's workers get its URL before the proxy runs."""
    return free_port()


@pytest.fixture(scope="session")
def bucket(s3_port: int) -> Iterator[S3Faults]:
    """An S3 server with the bucket `kafka`, behind the proxy that injects faults; started with the first test."""
    with s3_server.running() as server, s3_faults.running(server, s3_port) as faults:
        yield faults


@pytest.fixture
def faults(bucket: S3Faults, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Faults]:
    """The proxy without rules, which S3 clients of this process and of Spark's workers use."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    bucket.forget()
    yield bucket
    bucket.inject()


@pytest.fixture(scope="session")
def spark(s3_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of this machine with two tasks at a time. What a killed run leaves in its catalog is in no checkout."""
    from offsetfs.pipeline.session import session

    jars = ",".join(str(path) for path in sorted(JARS.glob("*.jar")))
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false", "spark.jars": jars}
    conf["spark.sql.warehouse.dir"] = str(tmp_path_factory.mktemp("warehouse"))
    with mock.patch.dict(os.environ, S3Server(s3_port).environment()):  # workers inherit it from the JVM
        begun = session("local[2]", conf)
    begun.sparkContext.setLogLevel("OFF")
    yield begun
    begun.stop()
