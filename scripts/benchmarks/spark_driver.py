"""A Spark session in a process of its own, for rows that need one, or several with different executors.

A process has one session, and a session one set of executors. So each is a program, this one, that takes orders: a line
of JSON says which of the functions below is to be called, with which arguments; the answer has its seconds and its
result. Starting the session is not among the seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent
JARS = ROOT / ".cache" / "spark-jars" / "libs"
SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}

# --- the measuring process -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SparkDriver:
    """A session that is there. `words`: the file with whatever it says besides."""

    process: subprocess.Popen[str]
    words: Path

    def seconds(self, function: str, **arguments: object) -> float:
        """Return how long a function of this module takes there."""
        return float(self._answer(function, arguments)["seconds"])

    def result(self, function: str, **arguments: object) -> Any:
        """Return what a function of this module returns there, as JSON has it."""
        return self._answer(function, arguments)["result"]

    def processor_seconds(self, function: str, **arguments: object) -> float:
        """Return the processor time that a function takes there: driver, executors, and their Python workers."""
        before = _processor_seconds(self.process.pid)
        self._answer(function, arguments)
        return _processor_seconds(self.process.pid) - before

    def _answer(self, function: str, arguments: Mapping[str, object]) -> Any:
        orders, answers = _pipes(self.process)
        orders.write(json.dumps({"function": function, "arguments": arguments}, default=str) + "\n")
        orders.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"the Spark session has ended in {function}\n{self.words.read_text()[-3000:]}")
        return json.loads(answer)


@contextlib.contextmanager
def begun(
    master: str, words: Path, *, with_kafka: bool = False, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkDriver]:
    """Begin a session, until the end of the block; with the jars of Spark's Kafka source if asked for.

    `environment` is added to that of this process, for the driver and the executors.
    """
    jars = ",".join(map(str, sorted(JARS.glob("*.jar")))) if with_kafka else ""
    settings = json.dumps({**SETTINGS, **({"spark.jars": jars} if jars else {})})
    command = [sys.executable, __file__, master, settings]
    with (
        words.open("w") as said,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, **environment},
        ) as process,
    ):
        driver = SparkDriver(process, words)
        try:
            driver.result("ready")
            yield driver
        finally:
            _pipes(process)[0].close()


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process, its descendants, and those of them that have ended."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    ticks, family = 0, [pid]
    for each in family:
        ticks += stats[each][1] if each in stats else 0
        family += [child for child, (parent, _) in stats.items() if parent == each]
    return ticks / os.sysconf("SC_CLK_TCK")


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin and process.stdout
    return process.stdin, process.stdout


# --- what it can do --------------------------------------------------------------------------------------------------


def ready(spark: SparkSession) -> str:
    return str(spark.version)


def scan(spark: SparkSession, source: Mapping[str, Any]) -> list[Any]:
    """Read every record, and return for each partition how many there are, their bytes, and the largest of the rest."""
    return _by_partition(
        spark, _frame(spark, source), "sum(length(value))", "max(offset)", "max(unix_millis(timestamp))"
    )


def query(spark: SparkSession, source: Mapping[str, Any], statement: str) -> list[Any]:
    """Return the rows of a statement over the table `records`; bytes as hexadecimal text."""
    _frame(spark, source).createOrReplaceTempView("records")
    rows = spark.sql(statement).collect()
    return [[bytes(each).hex() if isinstance(each, bytes | bytearray) else each for each in row] for row in rows]


def _by_partition(spark: SparkSession, frame: DataFrame, *sums: str) -> list[Any]:
    frame.createOrReplaceTempView("records")
    columns = ", ".join(("partition", "count(1)", *sums))
    return [list(row) for row in spark.sql(f"SELECT {columns} FROM records GROUP BY 1 ORDER BY 1").collect()]


def _frame(spark: SparkSession, source: Mapping[str, Any]) -> DataFrame:
    reader = spark.read.format(source["format"]).options(**source["options"])
    return reader.load(source["path"]) if "path" in source else reader.load()


def decode_avro(spark: SparkSession, values: str, schema: str) -> None:
    """Decode the column `value` of a Parquet file by `from_avro`; its bytes are in memory after the first call."""
    from pyspark.sql.avro.functions import from_avro

    frame = spark.read.parquet(values).cache()
    frame.select(from_avro("value", schema)).write.format("noop").mode("overwrite").save()


def avro_sums(spark: SparkSession, path: str, schema: str) -> list[Any]:
    """Group the Avro values of the topic orders by a field."""
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    frame = spark.read.format("offsetfs").option("subscribe", "orders").load(path)
    frame.select(from_avro(expr("substring(value, 6)"), schema).alias("v")).createOrReplaceTempView("values_of_avro")
    rows = spark.sql("SELECT v.state, count(*), sum(v.amount) FROM values_of_avro GROUP BY 1 ORDER BY 1").collect()
    return [list(row) for row in rows]


def parquet_from(spark: SparkSession, source: Mapping[str, Any], destination: str) -> None:
    """Write what a source reads as Parquet, by Spark's own writer."""
    frame = _frame(spark, source).select("key", "value", "offset", "timestamp", "timestampType", "headers")
    frame.write.option("compression", "zstd").parquet(destination)


def parquet_by_export(spark: SparkSession, log_directory: str, topic: str, destination: str) -> None:
    from offsetfs.pipeline.jobs.export import export

    export(spark, log_directory, destination, [topic], compression="zstd")


def parquet_sums(spark: SparkSession, directory: str) -> list[Any]:
    """Return what two sets of Parquet files must agree on."""
    frame = spark.read.parquet(directory)
    sums = "count(1)", "sum(offset)", "sum(crc32(value))", "sum(unix_millis(timestamp))", "sum(timestampType)"
    return list(frame.selectExpr(*sums).collect()[0])


def import_lines(spark: SparkSession, lines: str, log_directory: str, topic: str, partitions: int) -> None:
    from offsetfs.pipeline.jobs.import_files import import_files

    import_files(spark, lines, log_directory, topic, format="ndjson", partitions=partitions)


def lines_to_kafka(spark: SparkSession, lines: str, address: str, topic: str) -> None:
    """Write the same lines by Spark's reader of JSON and its Kafka sink."""
    frame = spark.read.schema("key string, value string").json(lines)
    frame.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", topic).save()


def partition_sums(spark: SparkSession, log_directory: str, topic: str) -> list[Any]:
    """Return for each partition what two logs with the same keyed records must agree on."""
    frame = spark.read.format("offsetfs").option("subscribe", topic).load(log_directory)
    return _by_partition(spark, frame, "sum(crc32(key))", "sum(crc32(value))")


def verify(spark: SparkSession, log_directory: str) -> dict[str, Any]:
    from offsetfs.pipeline.jobs.verify import verify as verify_directory

    found = verify_directory(spark, log_directory)
    return {"damage": found.damage, **asdict(found.tally)}


# --- the program -----------------------------------------------------------------------------------------------------

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    ready,
    scan,
    query,
    decode_avro,
    avro_sums,
    parquet_from,
    parquet_by_export,
    parquet_sums,
    import_lines,
    lines_to_kafka,
    partition_sums,
    verify,
)


def main() -> None:
    master, settings = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the JVM prints is no answer
    import pyspark

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    from offsetfs.pipeline.session import session

    spark = session(master, json.loads(settings))
    known = {function.__name__: function for function in FUNCTIONS}
    try:
        for line in sys.stdin:
            order = json.loads(line)
            start = time.perf_counter()
            result = known[order["function"]](spark, **order["arguments"])
            seconds = time.perf_counter() - start
            answers.write(json.dumps({"seconds": seconds, "result": result}) + "\n")
            answers.flush()
    finally:
        left = Path(os.environ["SPARK_HOME"], "work", spark.sparkContext.applicationId)
        spark.stop()
        shutil.rmtree(left, ignore_errors=True)  # what executors of a local cluster leave in the package


if __name__ == "__main__":
    main()
