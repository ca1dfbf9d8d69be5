"""Records in a table of a real PostgreSQL, through Spark's JDBC writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.databases import postgres

from offsetfs.cli import run

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
DRIVER = {"driver": "org.postgresql.Driver"}


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Postgres]:
    with postgres.running() as begun:
        yield begun


def rows(frame: Any) -> list[Any]:
    return sorted(map(tuple, frame.collect()), key=lambda row: row[:3])


def test_what_is_written_into_a_database_is_read_back_row_for_row(spark: Any, database: postgres.Postgres) -> None:
    frame = spark.read.format("offsetfs").load(str(GOLDEN))
    plain = frame.select("topic", "partition", "offset", "key", "value", "timestamp", "timestampType")
    plain.write.jdbc(database.url, "records", properties=DRIVER)
    back = spark.read.jdbc(database.url, "records", properties=DRIVER)
    assert rows(back) == rows(plain)
    assert dict(back.dtypes)["key"] == "binary"
    assert int(database.ask("SELECT count(*) FROM records")) == plain.count() > 1000


def test_the_job_makes_a_table_and_adds_to_one_only_when_asked(spark: Any, database: postgres.Postgres) -> None:
    from offsetfs.pipeline.jobs.export_table import export_table
    from offsetfs.pipeline.jobs.workers import JobFailed

    arguments = (spark, str(GOLDEN), database.url, "jobs", ["keyed", "appendtime"])
    written = export_table(*arguments).records
    wanted = (
        spark.read.format("offsetfs").options(subscribe="keyed,appendtime", includeHeaders="true").load(str(GOLDEN))
    )
    wanted = wanted.selectExpr("topic", "partition", "offset", "timestamp", "timestampType", "key", "value",
                               "to_json(headers) AS headers")  # fmt: skip
    assert rows(spark.read.jdbc(database.url, "jobs", properties=DRIVER)) == rows(wanted)
    assert written == wanted.count() > 0
    with pytest.raises(JobFailed, match="table jobs is there already"):
        export_table(*arguments)
    assert export_table(*arguments, is_to_append=True).records == written
    assert int(database.ask("SELECT count(*) FROM jobs")) == 2 * written


def test_the_command_states_what_it_did_or_why_not(
    spark: Any, database: postgres.Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    def reported(destination: str, *words: str) -> tuple[int, str, str]:
        code = run(["spark", "export", str(GOLDEN), destination, "--topic", "keyed", *words])
        return code, *capsys.readouterr()

    assert reported(database.url, "--table", "reported") == (0, "400 records into reported\n", "")
    sentence = "offsetfs spark export: table reported is there already; --append (is_to_append) adds to it\n"
    assert reported(database.url, "--table", "reported") == (32, "", sentence)
    code, _, sentence = reported("jdbc:missing://there", "--table", "reported")
    assert (code, sentence.startswith("offsetfs spark export: Spark has no driver for jdbc:missing")) == (32, True)
    code, _, sentence = reported(database.url)
    assert (code, sentence.startswith("offsetfs spark export: --table belongs to")) == (1, True)
