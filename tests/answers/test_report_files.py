"""The files that --html and --metrics write: whole, or as they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from fixtures.logs.broker_directories import BrokerDirectory
from prometheus_client.parser import text_string_to_metric_families

from offsetfs.answers.report import Diagnosis, Report, Severity
from offsetfs.answers.report_metrics import report_metrics
from offsetfs.cli import run

pytestmark = pytest.mark.unit


def test_the_doctor_writes_its_findings_for_prometheus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = BrokerDirectory(tmp_path)
    (broker.topic("orders") / "partition.metadata").unlink()
    file = tmp_path / "doctor.prom"
    assert run(["doctor", os.fspath(broker.path), "--metrics", os.fspath(file)]) == 1
    assert "no-topic-id" in capsys.readouterr().out  # the text as well
    found = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }
    directory = os.fspath(broker.path)
    labels = {"log_directory": directory, "severity": "damage", "kind": "no-topic-id"}
    assert found["offsetfs_doctor_findings"] == (labels, 1)
    assert found["offsetfs_doctor_run_time_seconds"][0] == {"log_directory": directory}


def test_findings_of_one_kind_share_a_sample() -> None:
    finding = Diagnosis(Severity.NOTICE, "left-over", "a-0", "a file", "nothing")
    text = report_metrics(Report("doctor", "/log\udce9", findings=(finding, finding)), 7.5).decode()
    assert 'kind="left-over",log_directory="/log\\\\xe9",severity="notice"} 2.0' in text
    assert "offsetfs_doctor_run_time_seconds" in text and "} 7.5" in text


@pytest.mark.parametrize("option", ["--html", "--metrics"])
def test_a_file_that_cannot_be_written_is_one_line(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = BrokerDirectory(tmp_path)
    broker.topic("orders")
    assert run(["doctor", os.fspath(broker.path), option, os.fspath(tmp_path / "none" / "file")]) == 1
    output = capsys.readouterr()
    assert output.err.count("\n") == 1 and "No such file or directory" in output.err
    assert "Traceback" not in output.err


def test_html_to_standard_output_is_the_page_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = BrokerDirectory(tmp_path)
    broker.topic("orders")
    assert run(["doctor", os.fspath(broker.path), "--html", "-"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")


def test_a_device_is_written_and_stays_a_device(tmp_path: Path) -> None:
    broker = BrokerDirectory(tmp_path)
    broker.topic("orders")
    assert run(["doctor", os.fspath(broker.path), "--html", "/dev/null", "--metrics", "/dev/null"]) == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_full_device_is_a_system_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = BrokerDirectory(tmp_path)
    broker.topic("orders")
    assert run(["doctor", os.fspath(broker.path), "--html", "/dev/full"]) == 2
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--html", "--metrics"])
def test_a_report_replaces_no_file_of_a_log(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = BrokerDirectory(tmp_path)
    segment = next(broker.topic("orders").glob("*.log"))
    content = segment.read_bytes()
    link = tmp_path / "report"
    link.symlink_to(segment)
    monkeypatch.chdir(broker.path)
    for file in segment, link, Path("report.html"), segment.with_name("report"), segment.parent / "a" / "b":
        assert run(["doctor", ".", option, os.fspath(file)]) == 1
        assert "holds logs, which would be changed; give a file elsewhere" in capsys.readouterr().err, file
    assert segment.read_bytes() == content and not Path("report.html").exists()
