"""`offsetfs repair`: do what opening for writing would do to a log directory, and show it first."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, SYSTEM, Failure
from offsetfs.cli.served import UNMOUNT, in_use
from offsetfs.storage.errors import LogDirectoryLocked, NotALogDirectory

if TYPE_CHECKING:
    from offsetfs.storage.verify.repair import RepairOutcome, RepairPlan
    from offsetfs.storage.verify.repair_plan import PartitionPlan

LEFT = 1
"""Something is to be done, or stays damaged. The same number as a wrong call: neither is 0."""


@click.command("repair", short_help="Finish what a crash interrupted; rebuild indexes.")
@click.argument("log_directory", metavar="LOGDIR")
@click.option("--dry-run/--yes", "dry_run", default=True, help="Show what would be done (the default), or do it.")
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
def command(log_directory: str, dry_run: bool, as_json: bool) -> int:
    """Repair a log directory that no process writes to.

    Without --yes nothing is changed: it shows what would be done. With --yes compactions that were interrupted are
    finished, every log is verified beyond its recovery point and cut where it is not sound (what is cut is kept beside
    it, as a .cut- file), wrong indexes are rebuilt, and the directory is closed cleanly. Damage before the recovery
    point was once on disk: it is shown with what remains readable, and stays as it is.

    Topic settings that cannot be read are set aside: .offsetfs-topics.json becomes .offsetfs-topics.json.damaged, and
    the topics whose settings are lost have the defaults. Set them again with offsetfs config, or correct the file and
    rename it back, before a mount or offsetfs clean removes records by the default retention.

    \b
    offsetfs repair /var/lib/kafka/data
    offsetfs repair /var/lib/kafka/data --yes

    Exit codes: 0 nothing to do or all done, 1 something to do or damage that stays, 2 could not look, 32 in use.
    """
    from offsetfs.cli.progress import bytes_progress, recovery_progress
    from offsetfs.storage.verify.repair import carry_out, plan

    preflight.check_not_mounted(log_directory)
    try:
        with bytes_progress("Checking") as on_progress:
            planned = plan(log_directory, on_progress=on_progress)
        _show(planned, as_json)
        if dry_run:
            _say(as_json, "nothing changed", _what_next(planned), changed=False)
            return DONE if planned.is_empty and planned.is_sound else LEFT
        with recovery_progress() as on_recovery:
            outcome = carry_out(planned, on_progress=on_recovery)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT) from error
    except NotALogDirectory as error:
        raise Failure(str(error), SYSTEM) from error
    _show_outcome(planned, outcome, as_json)
    return DONE if planned.is_sound and not outcome.failed else LEFT


def _what_next(planned: RepairPlan) -> str:
    return "nothing to do" if planned.is_empty else "add --yes to do it"


def _say(as_json: bool, *sentences: str, changed: bool) -> None:
    if as_json:
        click.echo(json.dumps({"kind": "summary", "changed": changed, "meaning": "; ".join(sentences)}))
    else:
        click.echo("; ".join(sentences))


def _show(planned: RepairPlan, as_json: bool) -> None:
    if not planned.is_clean:
        _line(as_json, "unclean", planned.path, "not cleanly closed: every partition will be recovered")
    if planned.settings_path is not None:
        meaning = "cannot be read: would be set aside; the topics whose settings are lost would have the defaults"
        _line(as_json, "settings", planned.settings_path, meaning)
    for partition in planned.partitions.values():
        _show_partition(partition, as_json)
    for finding in planned.kept:
        click.echo(json.dumps({"stays": True, **finding.fields()}) if as_json else f"stays: {finding}")


def _show_partition(partition: PartitionPlan, as_json: bool) -> None:
    for step in partition.steps:
        click.echo(json.dumps(asdict(step)) if as_json else str(step))
    for finding in partition.kept:
        click.echo(json.dumps({"stays": True, **finding.fields()}) if as_json else f"stays: {finding}")
    if any(finding.kind == "unreadable-batch" for finding in partition.kept):
        from offsetfs.storage.verify.repair_plan import readable_ranges

        ranges = ", ".join(f"{first} to {last}" for first, last in readable_ranges(partition.path))
        _line(as_json, "readable", partition.path, f"what remains readable: offsets {ranges or 'none'}")


def _line(as_json: bool, kind: str, path: str, meaning: str) -> None:
    click.echo(json.dumps({"kind": kind, "path": path, "meaning": meaning}) if as_json else f"{path}: {meaning}")


def _show_outcome(planned: RepairPlan, outcome: RepairOutcome, as_json: bool) -> None:
    for damage in outcome.damage:
        place = f"position {damage.position}, offset {damage.offset}"
        if as_json:
            click.echo(json.dumps({"kind": "done", **asdict(damage)}))
        else:
            click.echo(f"done: {damage.path}, {place}: {damage.reason}")
    if outcome.settings_copy is not None:
        meaning = "the damaged settings of topics; set them again (`offsetfs config`) before a mount or `clean`"
        _line(as_json, "settings", outcome.settings_copy, meaning)
    for partition, reason in outcome.failed.items():
        _line(as_json, "failed", str(partition), f"could not be recovered: {reason}")
    if planned.is_empty:
        _say(as_json, "nothing to do", changed=False)
        return
    closed = "the directory stays unclean" if outcome.failed else "the directory is cleanly closed"
    _say(as_json, "done", closed, "check again with `offsetfs verify`", changed=True)
