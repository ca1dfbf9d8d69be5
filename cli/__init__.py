"""The `offsetfs` command. `commands/` has one module per verb, which is imported only when that verb runs.

`main` is the entry point. An error is one message on stderr and an exit code (`exit_codes`); an internal error prints
its traceback as well.

    commands/    one module per verb                 arguments/   log directories, partitions, settings
    spark/       the jobs of `offsetfs spark`        mounts/      daemons, their registry, stale mounts
    installed/   files of `install-helper`           terminal/    messages, progress, questions
    completion/  the shells' TAB                     preflight    checks before a mount or a write
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import importlib
import os
import re
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from offsetfs.cli import exit_codes
from offsetfs.cli.exit_codes import Failure
from offsetfs.common.formatting import printable
from offsetfs.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = {
    "mount": "Mount a log directory.",
    "umount": "Unmount it, and wait until everything is on disk.",
    "ls": "List the tree, without a mount.",
    "cat": "Print files of the tree, without a mount.",
    "follow": "Print new records as they arrive, without a mount.",
    "find": "Find records by key, text, pattern or header.",
    "sql": "Query topics with SQL.",
    "stats": "Show what topics hold: records, sizes, codecs, times.",
    "web": "Look at logs in a browser.",
    "schemas": "List schemas, and print one, without a registry.",
    "append": "Append standard input, without a mount.",
    "serve": "Serve a log directory over the Kafka protocol.",
    "mirror": "Keep topics of a running cluster in a log directory.",
    "table": "Copy topics into a table of a database or a lakehouse, and back.",
    "create": "Create partitions of a topic.",
    "config": "Show and change the settings of topics, also while mounted.",
    "users": "List, add and remove users with a password.",
    "acls": "List, add and remove ACLs.",
    "clean": "Run retention and compaction once.",
    "delete-records": "Delete the records below an offset.",
    "rename": "Rename a topic, while nothing has it open.",
    "truncate": "Remove the records from an offset to the end.",
    "delete": "Remove topics or partitions.",
    "convert": "Rewrite old message formats as v2.",
    "archive": "Keep a log directory in object storage or HDFS.",
    "restore": "Copy topics into a running cluster, or out of an archive.",
    "hand-over": "Copy partitions into the directory of a stopped broker.",
    "verify": "Check logs, indexes and checkpoints; change nothing.",
    "doctor": "Find what is wrong, and whether a broker starts.",
    "diff": "Compare two log directories or archives.",
    "groups": "Show how far consumer groups are behind.",
    "repair": "Finish what a crash interrupted; shows it first.",
    "dump": "Print segments, indexes and snapshots, as Kafka's tool does.",
    "spark": "Import, export, count and verify with Apache Spark.",
    "status": "Show what is mounted, and the partitions of a log directory.",
    "top": "Show the throughput of a mount, live.",
    "install-helper": "Install files for mount(8), systemd, man and the shells.",
}
"""The verbs, with their line in `offsetfs --help`. They are listed here because --help must not import them all."""

_SYNONYMS = {
    "append": ("produce", "put", "write", "publish", "send", "echo"),
    "archive": ("backup", "upload"),
    "cat": ("get", "read", "show", "head", "print", "less"),
    "config": ("configs", "set", "alter", "settings"),
    "create": ("mkdir", "new", "add", "touch"),
    "delete": ("rm", "rmdir", "remove", "drop"),
    "doctor": ("diagnose", "health", "checkup", "preflight"),
    "follow": ("tail", "consume", "watch", "subscribe", "listen"),
    "ls": ("list", "dir", "tree", "topic", "topics", "partition", "partitions"),
    "groups": ("group", "lag", "consumers"),
    "rename": ("mv", "move"),
    "restore": ("download", "replay", "load", "import"),
    "schemas": ("schema", "registry", "subjects", "avro", "protobuf"),
    "serve": ("server", "broker", "start", "run"),
    "find": ("grep", "search", "locate", "lookup", "where", "rg"),
    "sql": ("query", "select", "duckdb"),
    "status": ("info", "describe", "stat", "df", "du", "ps"),
    "stats": ("statistics", "summary", "profile", "histogram"),
    "umount": ("unmount", "stop", "eject"),
    "verify": ("check", "fsck", "validate"),
    "web": ("ui", "browse", "console", "dashboard", "gui"),
}
"""Names that other tools have for a verb."""
_VERB_OF_SYNONYM = {synonym: verb for verb, synonyms in _SYNONYMS.items() for synonym in synonyms}

_GROUPS = ("spark", "table")
"""The verbs that have verbs of their own."""


class _ReaderGone(Exception):
    """The reader of a pipe closed it, as head(1) does. click would end the process with 1, which means a wrong call."""


class _Verbs(click.Group):
    """A group that takes each command from the module of the same name: its object `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        gc.disable()  # what imports make stays, and each collection would look at all of it
        command = importlib.import_module(f"offsetfs.cli.commands.{cmd_name.replace('-', '_')}").command
        gc.freeze()
        gc.enable()
        assert isinstance(command, click.Command)
        if ctx.resilient_parsing:  # completion in a shell
            from offsetfs.cli.completion.completers import prepare

            prepare(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in _VERB_OF_SYNONYM and not ctx.resilient_parsing:
            raise click.UsageError(f"no such command {name!r}; did you mean {_VERB_OF_SYNONYM[name]}?", ctx)
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, VERBS, n=1, cutoff=0.7)
            if near:
                raise click.UsageError(f"no such command {name!r}; did you mean {near[0]}?", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=line) for verb, line in VERBS.items() if verb.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="offsetfs %(version)s")
def root_command() -> None:
    """Kafka log directories: as a file system, over the Kafka protocol, with SQL; mirrored from clusters, archived in
    object storage. Commands that only read work beside a running broker.

    \b
    offsetfs mount /var/lib/kafka/data /mnt/kafka -o ro
    ls /mnt/kafka
    offsetfs umount /mnt/kafka
    offsetfs cat /var/lib/kafka/data orders-0/42
    offsetfs serve ~/logs

    Exit codes of all commands: 0 done, 1 wrong call or permissions, 2 system error, 4 internal error, 8 interrupted, 32
    refused or failed, 141 the reader of a pipe closed it. The help of a command states what differs.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (`sys.argv` if left out) and end the process with its exit code."""
    _open_standard_files()
    if "_OFFSETFS_COMPLETE" in os.environ:  # completion in a shell
        from offsetfs.cli.completion.scripts import register

        register()
    code = _flushed(run(sys.argv[1:] if arguments is None else arguments))
    _end_threads()
    os._exit(code)  # Python would take its modules apart, which takes a sixth of the time of most commands


def _end_threads() -> None:
    """Do what Python does at its end before it takes its modules apart: wait for threads, run what atexit knows."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()


def _flushed(code: int) -> int:
    """Write what standard output has buffered; return the exit code, that of a failure if it was `DONE`."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        if isinstance(error, BrokenPipeError):
            return code or exit_codes.OUTPUT_CLOSED
        if code != exit_codes.SYSTEM:  # otherwise it is said already
            click.echo(f"offsetfs: standard output: {error.strerror}", err=True)
        return code or exit_codes.of_os_error(error)
    return code


def _open_standard_files() -> None:
    """Open /dev/null in place of standard input, output or error that the caller closed.

    Otherwise a file of the log would get this descriptor number, and messages of libraries would be written into it.
    Python sets `sys.stdout` to None in this case, and a command that writes to it would end with a traceback.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))


def run(arguments: Sequence[str], program: click.Command = root_command, name: str = "offsetfs") -> int:
    """Run a command line of `program` and return its exit code. Errors are printed on stderr, prefixed with `name`."""
    if program is root_command:
        arguments = _without_help_verb(arguments)
    verb = _verb(arguments) if program is root_command else ""

    def failed(sentence: str, code: int, ctx: click.Context | None = None) -> int:
        command_name = ctx.command_path if ctx is not None else name + verb
        click.echo(f"{command_name}: {printable(sentence)}", err=True)
        return code

    try:
        code = program.main(list(arguments), prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return exit_codes.WRONG_CALL
    except click.UsageError as error:
        return failed(_sentence(error), exit_codes.WRONG_CALL, error.ctx)
    except Failure as error:
        return failed(error.message, error.code)
    except (click.Abort, KeyboardInterrupt):
        return failed("interrupted", exit_codes.INTERRUPTED)
    except _ReaderGone:
        return exit_codes.OUTPUT_CLOSED
    except OSError as error:
        return failed(_os_sentence(error), exit_codes.of_os_error(error))
    except MemoryError:  # pyarrow's is derived from it; names nothing that could be freed
        return failed(_OUT_OF_MEMORY, exit_codes.SYSTEM)
    except Exception as error:
        import traceback

        traceback.print_exc()
        return failed(f"internal error: {error!r}", exit_codes.INTERNAL)
    return code if isinstance(code, int) else exit_codes.DONE


_OUT_OF_MEMORY = "out of memory: raise the limit of this process (ulimit -v, a container's memory), or ask for less"


def _without_help_verb(arguments: Sequence[str]) -> Sequence[str]:
    """Return `version` as `--version`, and `help VERB` as `VERB --help`, as git has them."""
    match [*arguments]:
        case ["version"]:
            return ["--version"]
        case ["help", *verbs]:
            return [*verbs, "--help"]
    return arguments


def _verb(arguments: Sequence[str]) -> str:
    """Return the verb of a command line for messages, such as " mount" or " table sync"; "" without a verb."""
    named = [argument for argument in arguments if not argument.startswith("-")]
    if not named or named[0] not in VERBS:
        return ""
    return f" {named[0]} {named[1]}" if named[0] in _GROUPS and len(named) > 1 else f" {named[0]}"


def _sentence(error: click.UsageError) -> str:
    """Return a message of click in the style of offsetfs: lower case, no full stop, with a reference to --help."""
    message = error.format_message().rstrip(".")
    for pattern, replacement in _CLICK_MESSAGES:
        message = pattern.sub(replacement, message)
    path = error.ctx.command_path if error.ctx is not None else "offsetfs"
    if isinstance(error, click.NoSuchOption):
        from offsetfs.cli.option_hints import option_hint

        hint = option_hint(path.removeprefix("offsetfs "), error.option_name)
        if hint is not None:
            message = f"{message.partition(';')[0]}; {hint}"
    return f"{message[:1].lower()}{message[1:]} (see {path} --help)"


_CLICK_MESSAGES = (
    (re.compile(r"is not a valid integer( range)?$"), "is not a whole number"),
    (re.compile(r"is not a valid float( range)?$"), "is not a number"),
    (re.compile(r"is not in the range ([\d.]+)<=x<=([\d.]+)$"), r"must be from \1 to \2"),
    (re.compile(r"is not in the range x>=([\d.]+)$"), r"must be \1 or greater"),
    (re.compile(r"\.? \(?Did you mean (?:one of: )?(.*?)\??\)?$"), r"; did you mean \1?"),
)
"""Messages of click about wrong values, and their replacements."""


def _os_sentence(error: OSError) -> str:
    text = error.strerror or str(error)
    if error.errno == errno.EROFS:
        text += "; offsetfs mount -o ro, ls, cat and verify only read"
    if error.errno == errno.EACCES and error.filename:
        text += _owner_remedy(error.filename)
    return f"{error.filename}: {text}" if error.filename else text


def _owner_remedy(path: str) -> str:
    """Return to whom a file or its directory belongs; "" if that is this user."""
    from offsetfs.cli.mounts.serving_daemon import owner_remedy

    for place in (path, os.path.dirname(path) or os.curdir):
        try:
            owner = os.stat(place).st_uid
        except OSError:
            continue
        return "" if owner == os.geteuid() else f"; {owner_remedy(owner)}"
    return ""
