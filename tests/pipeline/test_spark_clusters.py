"""The same code on executors of their own, under spark-submit, and from the command line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fixtures.machine.free_ports import free_port

import offsetfs

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
OFFSETFS = Path(sys.executable).with_name("offsetfs")
SECONDS_MAX = 150


def environment() -> dict[str, str]:
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    return {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def run(*command: object, **variables: Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    env = {**environment(), **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=SECONDS_MAX)


@contextlib.contextmanager
def begun(command: Sequence[object], sign: str) -> Iterator[None]:
    """Run a server from when it has said `sign` to the end of the block; what it says later is read and forgotten."""
    words = [str(word) for word in command]
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        lines = server.stderr
        assert lines is not None
        rest = threading.Thread(target=lines.read)
        try:
            assert any(sign in line for line in lines), f"{words} ended before it said {sign!r}"
            rest.start()
            yield
        finally:
            server.kill()
            if rest.ident is not None:
                rest.join(timeout=30)


# --- executors -------------------------------------------------------------------------------------------------------

LOSES_AN_EXECUTOR = """
import os, signal, sys
from offsetfs.pipeline.session import session

path, mark = sys.argv[1:]
spark = session("local-cluster[2,1,1024]", {"spark.executor.memory": "600m"})
spark.sparkContext.setLogLevel("OFF")

def dying(batches):
    for number, batch in enumerate(batches):
        yield batch
    if not os.path.exists(mark):
        open(mark, "w").close()
        process = os.getpid()
        while "java" not in open(f"/proc/{process}/comm").read():
            process = int(open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[1])
        os.kill(process, signal.SIGKILL)

frame = spark.range(0, 4000, 1, 4).selectExpr("cast(id % 9 AS string) key", "cast(id AS string) value")
lossy = frame.mapInArrow(dying, "key string, value string")
lossy.write.format("offsetfs").mode("append").option("topic", "orders").option("partitions", 2).save(path)
print("rows", spark.read.format("offsetfs").load(path).count())
spark.stop()
"""


@pytest.mark.promise("A crash of an executor during a write loses no record and duplicates none.")
def test_an_executor_that_dies_while_it_writes_costs_no_record_and_doubles_none(tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    done = run(sys.executable, "-c", LOSES_AN_EXECUTOR, tmp_path / "logs", mark)
    assert "rows 4000" in done.stdout, done.stderr
    assert mark.exists()
    with offsetfs.open(tmp_path / "logs") as data:
        found = [int(record.value or b"") for each in data.partitions() for record in each.read()]
    assert sorted(found) == list(range(4000))
    assert not [name for name in os.listdir(tmp_path / "logs") if name.startswith(".offsetfs-staged")]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """A master and a worker of their own; yields the master's address."""
    port = free_port()
    spark_class = Path(environment()["SPARK_HOME"]) / "bin" / "spark-class"
    deploy, address = "org.apache.spark.deploy", f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [f"{deploy}.master.Master", *where, "--port", str(port)]
    resources = ["--cores", "2", "--memory", "1g", "-d", tmp_path / "work"]
    worker = [f"{deploy}.worker.Worker", *where, *resources, address]
    with (
        begun([spark_class, *master], "I have been elected leader"),
        begun([spark_class, *worker], "Successfully registered with master"),
    ):
        yield address


def test_a_job_runs_on_a_standalone_master_and_worker(standalone: str) -> None:
    done = run(OFFSETFS, "spark", "stats", GOLDEN, "--topic", "keyed", "--json", "--master", standalone, "--conf",
               "spark.executor.memory=600m")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 400


THROUGH_CONNECT = """
import sys
from offsetfs.pipeline.jobs.stats import stats
from offsetfs.pipeline.session import session

address, path, target = sys.argv[1:]
spark = session(address)
frame = spark.read.format("offsetfs").option("subscribe", "keyed").load(path)
writer = frame.select("key", "value").write.format("offsetfs").mode("append")
writer.option("topic", "copy").option("partitions", 2).save(target)
print("rows", frame.count(), spark.read.format("offsetfs").load(target).count(), stats(spark, path, ["keyed"]).records)
spark.stop()
"""


def test_queries_and_jobs_go_through_spark_connect(tmp_path: Path) -> None:
    port = free_port()
    submit = Path(environment()["SPARK_HOME"]) / "bin" / "spark-submit"
    where = ["--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"]
    server = [submit, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *where]
    with begun(server, "Spark Connect server started"):
        done = run(sys.executable, "-c", THROUGH_CONNECT, f"sc://127.0.0.1:{port}", GOLDEN, tmp_path / "logs")
    assert "rows 400 400 400" in done.stdout, done.stderr


def test_a_job_runs_under_spark_submit() -> None:
    submit = Path(environment()["SPARK_HOME"]) / "bin" / "spark-submit"
    program = Path(offsetfs.__file__).with_name("__main__.py")
    done = run(submit, "--master", "local[2]", program, "spark", "verify", GOLDEN, "keyed-0", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["records"] == 93


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_command_line_reports_errors_in_one_sentence(tmp_path: Path) -> None:
    done = run(OFFSETFS, "spark", "stats", tmp_path / "nowhere")
    sentence = f"offsetfs spark stats: {tmp_path}/nowhere: there is no such directory; give a log directory"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, sentence)
    assert "Traceback" not in done.stderr


@pytest.mark.damages
def test_damage_that_a_task_meets_is_one_sentence_as_well(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with offsetfs.open(logs, "a") as data:
        data.create("orders")[0].append(b"value")
    segment = logs / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes().replace(b"value", b"VALUE"))
    done = run(OFFSETFS, "spark", "export", logs, tmp_path / "parquet", XDG_STATE_HOME=tmp_path / "state")
    log = next((tmp_path / "state" / "offsetfs").iterdir())
    assert done.returncode == 32
    sentence = rf"offsetfs spark export: {segment}, position 0, offset 0: checksum 0x\w+ where 0x\w+ is stored"
    assert re.fullmatch(rf"{sentence} \(the stack is in {log}\)\n", done.stderr)
    stacks = log.read_text()
    assert "\tat org.apache.spark." in stacks and "Traceback (most recent call last)" in stacks
    assert log.stat().st_mode & 0o777 == 0o600


def test_one_sentence_is_printed_where_spark_does_not_start(tmp_path: Path) -> None:
    done = run(OFFSETFS, "spark", "stats", GOLDEN, "--master", "nonsense", XDG_STATE_HOME=tmp_path / "state")
    sentence = "offsetfs spark stats: Spark does not start: Master must either be yarn or start with"
    assert (done.returncode, done.stderr.count("\n"), done.stderr.startswith(sentence)) == (32, 1, True), done


LOSES_ITS_JVM = """
from pyspark import SparkContext
from offsetfs.cli.spark import session as spark_session

with spark_session.open_session("local[1]", (), False) as spark:
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    spark.range(1).count()
"""


def test_a_jvm_that_ends_by_itself_is_reported_with_the_path_of_its_log(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", LOSES_ITS_JVM, XDG_STATE_HOME=tmp_path)
    log = next((tmp_path / "offsetfs").iterdir())
    sentence = f"the JVM of Spark ended; its last messages are in {log}"
    assert done.stderr.splitlines()[-1] == f"offsetfs.cli.exit_codes.Failure: {sentence}"
    assert "WARN" in log.read_text()


def test_import_and_stats_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    words = ("spark", "import", tmp_path / "in.txt", tmp_path / "logs", "lines", "--partitions", 1)
    done = run(OFFSETFS, *words, XDG_STATE_HOME=tmp_path / "state")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "partition  offsets  from  to before\n"
        "lines-0          2     0          2\n"
        "2 records imported, 0 lines rejected\n"
    )  # fmt: skip
    assert os.listdir(tmp_path / "state" / "offsetfs") == []  # a successful job writes no log
    shown = run(OFFSETFS, "spark", "stats", tmp_path / "logs")
    assert re.search(r"lines-0 +2 ", shown.stdout), shown


# --- what needs no Spark ---------------------------------------------------------------------------------------------


def test_neither_the_library_nor_the_help_loads_pyspark() -> None:
    for program in (
        "import offsetfs",
        "import offsetfs.pipeline",
        "from offsetfs.cli import run; run(['spark', '--help'])",
    ):
        loads = f"import sys\n{program}\nsys.exit(any(name in sys.modules for name in ('pyspark', 'pyarrow', 'numpy')))"
        assert run(sys.executable, "-c", loads).returncode == 0, program
