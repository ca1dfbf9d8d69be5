"""`offsetfs repair`: show what opening a log directory for writing would repair, or do it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, SYSTEM
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.storage.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from offsetfs.storage.errors import LogDirectoryLocked, NotALogDirectory

if TYPE_CHECKING:
    from offsetfs.storage import TopicPartition
    from offsetfs.storage.verify import PartitionPlan, RepairOutcome, RepairPlan

UNREPAIRED = 1
"""The exit code if there is something to repair, or damage that cannot be repaired. It equals `WRONG_CALL`."""


_REFUSED = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactional ids"}
"""The requests that a broker refuses while it cannot read the partition that has their records."""

_REMEDY = (
    "its {} are refused until it can be read: restore the segment from a backup, or go back to the records before the "
    "damage with `offsetfs truncate LOGDIR {} {}`"
)


@click.command("repair", short_help="Finish what a crash interrupted; rebuild indexes.")
@click.argument("log_directory", metavar="LOGDIR")
@click.option("--dry-run/--yes", "dry_run", default=True, help="Show what would be done (the default), or do it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(log_directory: str, dry_run: bool, as_json: bool) -> int:
    """Repair a log directory that no process writes to.

    Without --yes, nothing is changed, and the command shows what would be done. With --yes, interrupted compactions are
    finished; every log is checked beyond its recovery point and cut at the first invalid batch (the removed bytes are
    kept beside it, in a .cut- file); wrong indexes are rebuilt; and the directory is closed cleanly. Damage below the
    recovery point is reported with the offsets that remain readable, and is not changed.

    If the topic settings cannot be read, .offsetfs-topics.json is renamed to .offsetfs-topics.json.damaged, and the
    topics whose settings are lost use the defaults. Set them again with offsetfs config, or correct the file and rename
    it back, before a mount or offsetfs clean removes records by the default retention.

    \b
    offsetfs repair /var/lib/kafka/data
    offsetfs repair /var/lib/kafka/data --yes

    Exit codes: 0 nothing to do, or done; 1 something to do, or damage that remains; 2 the directory could not be read;
    32 in use.
    """
    from offsetfs.cli.terminal.progress import bytes_progress, recovery_progress
    from offsetfs.storage.verify import carry_out_repair, plan_repair

    preflight.check_single(log_directory)
    preflight.check_not_mounted(log_directory)
    try:
        with bytes_progress("Checking") as on_progress:
            planned = plan_repair(log_directory, on_progress=on_progress)
        _show(planned, as_json)
        if dry_run:
            _print(as_json, "nothing changed", _what_next(planned), changed=False)
            return DONE if planned.is_empty and planned.is_sound else UNREPAIRED
        with recovery_progress() as on_recovery:
            outcome = carry_out_repair(planned, on_progress=on_recovery)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT_FIRST) from error
    except NotALogDirectory as error:
        raise preflight.not_a_log_directory(error, SYSTEM) from error
    _show_outcome(planned, outcome, as_json)
    return DONE if planned.is_sound and not outcome.failed else UNREPAIRED


def _what_next(planned: RepairPlan) -> str:
    return "nothing to do" if planned.is_empty else "add --yes to do it"


def _print(as_json: bool, *sentences: str, changed: bool) -> None:
    if as_json:
        click.echo(json.dumps({"kind": "summary", "changed": changed, "meaning": "; ".join(sentences)}))
    else:
        click.echo("; ".join(sentences))


def _show(planned: RepairPlan, as_json: bool) -> None:
    if not planned.is_clean:
        _line(as_json, "unclean", planned.path, "not cleanly closed: every partition will be recovered")
    if planned.settings_path is not None:
        meaning = "cannot be read: would be renamed; the topics whose settings are lost would use the defaults"
        _line(as_json, "settings", planned.settings_path, meaning)
    for name, partition in planned.partitions.items():
        _show_partition(name, partition, as_json)
    for finding in planned.kept:
        click.echo(json.dumps({"stays": True, **asdict(finding)}) if as_json else f"stays: {finding}")


def _show_partition(name: TopicPartition, partition: PartitionPlan, as_json: bool) -> None:
    for step in partition.steps:
        click.echo(json.dumps(asdict(step)) if as_json else str(step))
    for finding in partition.kept:
        click.echo(json.dumps({"stays": True, **asdict(finding)}) if as_json else f"stays: {finding}")
    unreadable = [finding.offset or 0 for finding in partition.kept if finding.kind == "unreadable-batch"]
    if unreadable:
        from offsetfs.storage.verify import readable_ranges

        ranges = ", ".join(f"{first} to {last}" for first, last in readable_ranges(partition.path))
        _line(as_json, "readable", partition.path, f"what remains readable: offsets {ranges or 'none'}")
    if unreadable and name.topic in _REFUSED:
        _line(as_json, "waits", partition.path, _REMEDY.format(_REFUSED[name.topic], name, min(unreadable)))


def _line(as_json: bool, kind: str, path: str, meaning: str) -> None:
    click.echo(json.dumps({"kind": kind, "path": path, "meaning": meaning}) if as_json else f"{path}: {meaning}")


def _show_outcome(planned: RepairPlan, outcome: RepairOutcome, as_json: bool) -> None:
    for damage in outcome.damage:
        location = f"position {damage.position}, offset {damage.offset}"
        if as_json:
            click.echo(json.dumps({"kind": "done", **asdict(damage)}))
        else:
            click.echo(f"done: {damage.path}, {location}: {damage.reason}")
    for path in outcome.split:
        meaning = "was split into segments that can index all their offsets"
        _line(as_json, "done", path, meaning) if as_json else click.echo(f"done: {path}: {meaning}")
    if outcome.settings_copy is not None:
        meaning = "the damaged settings of topics; set them again (`offsetfs config`) before a mount or `clean`"
        _line(as_json, "settings", outcome.settings_copy, meaning)
    for partition, reason in outcome.failed.items():
        _line(as_json, "failed", str(partition), f"could not be recovered: {reason}")
    if planned.is_empty:
        _print(as_json, "nothing to do", changed=False)
        return
    closed = "the directory stays unclean" if outcome.failed else "the directory is cleanly closed"
    _print(as_json, "done", closed, "check again with `offsetfs verify`", changed=True)
