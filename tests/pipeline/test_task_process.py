"""The process of tasks: what they have loaded is not walked through again after each of them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs.pipeline.jobs.workers import spread
from offsetfs.pipeline.task_process import _WithoutBrokenPipes

pytestmark = pytest.mark.spark

ENDED = """Traceback (most recent call last):
  File "/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
  File "/pyspark/daemon.py", line 95, in worker
{error}: [Errno 32] Broken pipe
"""


def test_what_a_task_has_loaded_is_left_out_of_later_collections(spark: Any) -> None:
    def frozen(number: int) -> dict[str, int]:
        import gc

        return {"objects": gc.get_freeze_count()}

    spread(spark, frozen, range(2))
    assert max(answer["objects"] for answer in spread(spark, frozen, range(4))) > 10_000


def test_only_the_stack_of_a_connection_that_spark_has_closed_is_left_out() -> None:
    reported = io.StringIO()
    stream = _WithoutBrokenPipes(reported)
    for line in ENDED.format(error="BrokenPipeError").splitlines(keepends=True):
        stream.write(line)
    assert reported.getvalue() == ""
    for text in (ENDED.format(error="ValueError"), ENDED.format(error="BrokenPipeError").replace("daemon.py", "x.py")):
        for line in text.splitlines(keepends=True):
            stream.write(line)
        assert reported.getvalue().endswith(text)
    stream.write("a line\n")
    assert reported.getvalue().endswith("a line\n")


SCRIPT = """
import sys
from pyspark.sql import SparkSession
from offsetfs.pipeline import register
conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
register(spark)
frame = spark.read.format("offsetfs").load(sys.argv[1])
print("read", len(frame.limit(3).collect()), frame.count())
"""


def test_a_limit_ends_silently_after_register_from_a_python_off_the_path(
    tmp_path: Path,
) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("orders")[0].append_lines(b"x" * 100 + b"\n" + b"y" * 200_000 + b"\n" * 50_000)
    (tmp_path / "read.py").write_text(SCRIPT)
    outside = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    path = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if ".venv" not in each)
    command = [sys.executable, str(tmp_path / "read.py"), str(tmp_path)]
    done = subprocess.run(
        command, env={**outside, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.split()[:2] == [b"read", b"3"]
    assert b"BrokenPipeError" not in done.stderr
