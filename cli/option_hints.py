"""The remedies for options of other tools and commands, by the option that a command does not have."""

from __future__ import annotations

_TOPIC = {"--topic": "write the topic after LOGDIR", "--partition": "write TOPIC-PARTITION after LOGDIR"}
_FIRST, _LAST = "--first N prints the oldest N", "--last N prints the newest N"
_FROM, _TO = "--from takes an offset or a time", "--to takes an offset or a time"
_TEXT = "--text finds a text in values, --regex a pattern"
_CSV = "offsetfs sql LOGDIR 'SELECT …' --format csv writes CSV"
_RESETS = "--reset-to takes earliest, latest, an offset or a time"

_HINTS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("cat", "delete", "delete-records", "dump", "follow", "ls", "truncate", "verify"), _TOPIC),
    "append": {**_TOPIC, "--create": "write -o create", "--key": "append.ndjson takes keys"},
    "config": {
        "--topic": _TOPIC["--topic"],
        "--add-config": "write NAME=VALUE",
        "--delete-config": "write NAME=",
    },
    "create": {"--topic": _TOPIC["--topic"], "--config": "-o NAME=VALUE sets a topic setting"},
    "diff": {"--topic": "write the topic after A and B", "--partition": "write TOPIC-PARTITION after A and B"},
    "doctor": {
        "--topic": "it looks at all topics; offsetfs stats LOGDIR TOPIC looks at one",
        "--fix": "offsetfs repair LOGDIR shows what it would mend",
    },
    "find": {
        **_TOPIC,
        **dict.fromkeys(("-n", "--limit", "--max", "--head"), _FIRST),
        **dict.fromkeys(("--tail", "--latest", "--newest"), _LAST),
        **dict.fromkeys(("--since", "--after", "--start"), _FROM),
        **dict.fromkeys(("--until", "--before", "--end"), _TO),
        **dict.fromkeys(("--grep", "--contains", "--value", "--pattern", "-e"), _TEXT),
        **dict.fromkeys(("--csv", "--format", "--output", "-o"), _CSV),
        "--json": "records are lines of JSON without it",
        "--not": "--where takes NOT, such as \"NOT contains(value_text, 'x')\"",
        "--offset": "write --from N --to N+1; offsetfs cat LOGDIR TOPIC-PARTITION/N prints the value, too",
        "-k": "write --key",
    },
    "groups": {
        **dict.fromkeys(("--group", "--describe"), "write the group after LOGDIR"),
        **dict.fromkeys(("--to-earliest", "--to-latest", "--to-offset", "--to-datetime", "--reset-offsets"), _RESETS),
        **dict.fromkeys(("--list", "--all-groups"), "without GROUP all groups are listed"),
        "--dry-run": "nothing is changed without --yes",
        "--execute": "--yes commits the offsets",
        "--history": "it is part of the report of a group: write GROUP after LOGDIR",
        "--lag": "it is shown without an option",
        "--topic": "--reset-to takes topics after GROUP",
    },
    "mount": {"--web": "write -o web=HOST:PORT"},
    "mirror": {"--retention.ms": "write -o retention.ms=7d"},
    "schemas": {
        "--id": "write the id after LOGDIR",
        "--list": "without a subject all are listed",
        "--subject": "write the subject after LOGDIR",
    },
    "sql": {"--csv": "write --format csv", "--json": "write --format json"},
    "stats": {
        **_TOPIC,
        **dict.fromkeys(("--sort", "--top"), "the largest are first; --all shows every row"),
        "--keys": "--values counts keys, too",
    },
}


def option_hint(verb: str, option: str) -> str | None:
    """Return the remedy for an option that a verb does not have; None if none is known."""
    return _HINTS.get(verb, {}).get(option)
