"""A report says the same as text, as JSON and as HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from offsetfs.answers.report import Bar, Diagnosis, Fact, Histogram, Measure, Report, Severity, Table, TableColumn
from offsetfs.answers.report_html import report_html
from offsetfs.answers.report_text import report_text

pytestmark = pytest.mark.unit

SCHEMA = Path(__file__).parents[2] / "docs" / "use" / "report.schema.json"
HOSTILE = "<script>alert(1)</script>\x1b[2J\n"

REPORT = Report(
    verb="stats",
    subject=f"/data {HOSTILE}",
    facts=(
        Fact("records", "records", 1234567, Measure.COUNT),
        Fact("log_bytes", "bytes", 64_200_000, Measure.BYTES),
        Fact("keys", "distinct keys", None, Measure.COUNT),
        Fact("newest", "newest record", 1_795_266_300_123, Measure.TIME),
        Fact("null_share", "null values", 0.25, Measure.SHARE),
    ),
    tables=(
        Table(
            "partitions",
            "Partitions",
            (TableColumn("partition", "PARTITION"), TableColumn("records", "RECORDS", Measure.COUNT)),
            [(f"orders-{number}{HOSTILE}", number) for number in range(20)],
        ),
    ),
    histograms=(
        Histogram("sizes", "Sizes of values", Measure.BYTES, (Bar(7, 0, 1000), Bar(0, 1000, 2000), Bar(1, 2000, None))),
    ),
    findings=(
        Diagnosis(Severity.NOTICE, "left-over", "orders-1", "a file", "nothing", "offsetfs repair"),
        Diagnosis(Severity.DAMAGE, "no-topic-id", f"orders-0{HOSTILE}", "no file", "the broker does not start"),
    ),
    unseen=("orders-9: is gone",),
    notes=("distinct keys ± 2 %",),
)


def test_a_report_as_json_follows_its_schema() -> None:
    answer = json.loads(json.dumps(REPORT.as_json()))
    jsonschema.validate(answer, json.loads(SCHEMA.read_text()))
    assert answer["facts"]["keys"] is None  # not known is not zero
    assert [finding["severity"] for finding in answer["findings"]] == ["damage", "notice"]
    assert len(answer["tables"]["partitions"]) == 20


def test_a_report_as_text_fits_a_screen_and_has_all_rows_with_all() -> None:
    short = list(report_text(REPORT))
    assert "… 5 more; --all shows all" in short
    assert "distinct keys  ?" in short
    assert "records        1,234,567" in short
    assert "not looked at: orders-9: is gone" in short
    everything = list(report_text(REPORT, shows_all=True))
    assert len(everything) == len(short) + 5 - 1
    assert short[0].startswith("damage: orders-0")


def test_no_text_of_a_report_reaches_the_terminal_or_the_page_as_it_is() -> None:
    assert all(line.isprintable() for line in report_text(REPORT, shows_all=True))
    page = "".join(report_html(REPORT, 0))
    assert "<script" not in page and "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_the_page_of_a_report_fetches_nothing() -> None:
    class Addresses(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[tuple[str, str | None]] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found += [(name, value) for name, value in attrs if name in ("src", "href", "srcset", "action")]

    reader = Addresses()
    reader.feed("".join(report_html(REPORT, 0)))
    assert reader.found == []


def test_a_report_with_notices_alone_is_clean() -> None:
    assert not REPORT.is_clean
    assert Report("doctor", "/data", findings=REPORT.findings[:1]).is_clean
