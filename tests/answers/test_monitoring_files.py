"""The alerts and the board of docs/use/monitoring name metrics and labels that exist, and runbooks that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_options_on_pages import options

pytestmark = pytest.mark.unit

USE = Path(__file__).parents[2] / "docs" / "use"
RULES = yaml.safe_load((USE / "monitoring" / "rules.yml").read_text())
BOARD = json.loads((USE / "monitoring" / "grafana.json").read_text())
FOREIGN = {"node_textfile_mtime_seconds": {"file"}}
"""Metrics of node_exporter, with their labels."""

ADDED = {"instance", "le"}
"""Labels that Prometheus adds, and that of the bounds of histograms."""

FUNCTIONS = {"time", "increase", "rate", "delta", "sum", "max", "by", "and", "on", "histogram_quantile"}


def known_metrics() -> dict[str, set[str]]:
    """Return the labels of each metric in the tables of the page, which other tests compare with the code."""
    rows = re.findall(r"^\| `(offsetfs_\w+)` \| \w+ \| ([^|]*)\|", (USE / "monitoring.md").read_text(), re.MULTILINE)
    found = {name: {label.strip() for label in labels.split(",") if label.strip()} for name, labels in rows}
    of_mounts = {name for name in found if not re.match(r"offsetfs_(broker|mirror|doctor|process)_", name)}
    return {name: labels | ({"mount"} if name in of_mounts else set()) for name, labels in found.items()} | FOREIGN


def expressions() -> Iterator[str]:
    for group in RULES["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_names_metrics_and_labels_that_exist(expression: str) -> None:
    known = known_metrics()
    bare = re.sub(r'"[^"]*"', '""', expression)
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\[\w+\]", "", bare))) - FUNCTIONS
    names = {word for word in words if word in known or word.removesuffix("_bucket") in known}
    assert names
    labels = ADDED.union(*(known[name.removesuffix("_bucket") if name not in known else name] for name in names))
    assert words - names <= labels


def rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_a_runbook_and_shows_labels_of_its_metric(rule: dict[str, Any]) -> None:
    headings = re.findall(r"^## (.*)", (USE / "runbooks.md").read_text(), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "runbooks.md" and anchor in anchors
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    names = {name for name in known_metrics() if re.search(rf"\b{name}(_bucket)?\b", rule["expr"])}
    assert shown <= ADDED.union(*(known_metrics()[name] for name in names))


def test_ten_situations_have_a_runbook() -> None:
    assert (USE / "runbooks.md").read_text().count("\n## ") == 10


def test_commands_of_the_runbooks_exist() -> None:
    commands = re.findall(r"`offsetfs ([^`]*)`", (USE / "runbooks.md").read_text())
    known = options()
    assert len(commands) > 20
    for words in map(str.split, commands):
        assert words[0] in known, words
        assert {word for word in words if word.startswith("--")} <= known[words[0]], words


def test_a_runbook_changes_nothing_before_a_plan_was_shown() -> None:
    """Once a runbook said that `offsetfs clean LOGDIR` shows what it would free."""
    page = (USE / "runbooks.md").read_text()
    assert "`offsetfs clean LOGDIR`" not in page and "`offsetfs clean LOGDIR --dry-run` shows" in page
    assert "`offsetfs repair LOGDIR` shows a plan" in page


def test_panels_of_the_board_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
