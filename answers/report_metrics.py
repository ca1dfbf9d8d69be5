"""The findings of a report in the text format of Prometheus, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from offsetfs.answers.report import Report

FINDINGS_METRIC = "offsetfs_doctor_findings"
RUN_METRIC = "offsetfs_doctor_run_time_seconds"


def report_metrics(report: Report, made_s: float) -> bytes:
    """Return the numbers of findings by severity and kind. `made_s`: when the report was made, seconds since 1970.

    A kind that was not found has no sample, so that an alert on it ends.
    """
    return generate_latest(_CollectedFindings(report, made_s))


class _CollectedFindings:
    """A registry of one report."""

    def __init__(self, report: Report, made_s: float) -> None:
        self._report = report
        self._made_s = made_s

    def collect(self) -> Iterator[Metric]:
        directory = self._report.subject.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        counts = Counter((finding.severity.value, finding.kind) for finding in self._report.findings)
        findings = GaugeMetricFamily(
            FINDINGS_METRIC, "Findings of offsetfs doctor.", labels=["log_directory", "severity", "kind"]
        )
        for (severity, kind), number in sorted(counts.items()):
            findings.add_metric([directory, severity, kind], number)
        run = GaugeMetricFamily(RUN_METRIC, "When offsetfs doctor ran, since 1970.", labels=["log_directory"])
        run.add_metric([directory], self._made_s)
        yield from (findings, run)
