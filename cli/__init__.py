"""The `offsetfs` command: one file a verb, loaded when it is asked for.

`main` is the entry point. Errors are one sentence on stderr and an exit code (`exit_codes`); a mistake of ours shows
its traceback as well.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from offsetfs import __version__
from offsetfs.cli import exit_codes
from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.printable import printable

VERBS = {
    "mount": "Mount a log directory.",
    "umount": "Unmount it, and wait until everything is on disk.",
    "create": "Create partitions of a topic.",
    "config": "Show and change the settings of topics, also while mounted.",
    "clean": "Remove and compact what is due, as a mount does by itself.",
    "delete-records": "Let partitions begin at a later offset.",
    "truncate": "Cut the end off a partition.",
    "delete": "Remove topics or partitions.",
    "convert": "Rewrite old message formats as v2.",
    "hand-over": "Give a partition to a stopped Kafka broker.",
    "verify": "Check logs, indexes and checkpoints; change nothing.",
    "repair": "Finish what a crash left, make indexes anew; shows it first.",
    "dump": "Print segments, indexes and snapshots, as Kafka's tool does.",
    "status": "Show what is mounted, and the partitions of a log directory.",
}
"""What there is, with the line that `offsetfs --help` shows: listing them must not load them."""


class _Verbs(click.Group):
    """A group whose commands are the objects `command` of the modules named like them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"offsetfs.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="offsetfs %(version)s")
def commands() -> None:
    """A Kafka log directory, mounted as a file system.

    \b
    offsetfs mount /var/lib/kafka/data /mnt/kafka -o ro
    ls /mnt/kafka
    offsetfs umount /mnt/kafka
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (`sys.argv` if left out) and end the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return the exit code. Errors have been printed."""
    try:
        code = commands.main(list(arguments), prog_name="offsetfs", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return exit_codes.WRONG_CALL
    except click.UsageError as error:
        return _say(error.ctx, _sentence(error), exit_codes.WRONG_CALL)
    except Failure as error:
        return _say(None, error.message, error.code, arguments)
    except (click.Abort, KeyboardInterrupt):
        return _say(None, "interrupted", exit_codes.INTERRUPTED, arguments)
    except BrokenPipeError:
        return exit_codes.SYSTEM
    except OSError as error:
        return _say(None, _os_sentence(error), exit_codes.SYSTEM, arguments)
    except Exception as error:
        traceback.print_exc()
        return _say(None, f"internal error: {error!r}", exit_codes.INTERNAL, arguments)
    return code if isinstance(code, int) else exit_codes.DONE


def _say(ctx: click.Context | None, sentence: str, code: int, arguments: Sequence[str] = ()) -> int:
    verb = next((argument for argument in arguments if argument in VERBS), "")
    name = ctx.command_path if ctx is not None else f"offsetfs {verb}".strip()
    click.echo(f"{name}: {printable(sentence)}", err=True)
    return code


def _sentence(error: click.UsageError) -> str:
    """Return click's message as ours are: no capital, no full stop, and where help is."""
    message = error.format_message().rstrip(".")
    path = error.ctx.command_path if error.ctx is not None else "offsetfs"
    return f"{message[:1].lower()}{message[1:]} (see {path} --help)"


def _os_sentence(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text
