"""Prints a report of `offsetfs.answers`: as text, with --json, or into the file of --html."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.terminal.output_files import write_pieces

if TYPE_CHECKING:
    from offsetfs.answers.report import Report

FINDINGS = 1
"""The exit code for findings and differences. It equals `WRONG_CALL`; only a wrong call prints a message on stderr."""


@dataclass(frozen=True, slots=True)
class ReportForm:
    """How a report is shown: the options of `report_options`."""

    as_json: bool
    html: str | None
    shows_all: bool

    def show(self, report: Report) -> int:
        """Print a report. Return the exit code: 1 with findings that are more than notices. `Failure` for the file."""
        if self.html is not None:
            self._write_html(report)
        if self.as_json:
            click.echo(json.dumps(report.as_json(), indent=1))
        elif self.html is None:
            from offsetfs.answers.report_text import report_text

            for line in report_text(report, shows_all=self.shows_all):
                click.echo(line)
        return DONE if report.is_clean else FINDINGS

    def _write_html(self, report: Report) -> None:
        from offsetfs.answers.report_html import report_html

        assert self.html is not None
        page = report_html(report, time.time_ns() // 1_000_000)
        if self.html == "-":
            if self.as_json:
                raise Failure("--html - and --json both write to standard output; give a file", WRONG_CALL)
            for piece in page:
                click.echo(piece, nl=False)
            return
        write_pieces(self.html, (piece.encode() for piece in page))


def write_metrics(report: Report, path: str) -> None:
    """Write the findings of a report for the textfile collector of Prometheus; "-" is standard output. `Failure`."""
    from offsetfs.answers.report_metrics import report_metrics

    text = report_metrics(report, time.time())
    if path == "-":
        click.echo(text, nl=False)
    else:
        write_pieces(path, [text])


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json, --html and --all to a command; it takes `as_json`, `html` and `shows_all`."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text."),
        click.option("--html", metavar="FILE", type=click.Path(), help="Write one HTML file with pictures."),
        click.option("--all", "shows_all", is_flag=True, help="Show every row, not one screen."),
    )
    for option in reversed(options):
        command = option(command)
    return command
