"""`offsetfs users`: list, add and remove users with a password for SCRAM, also while the directory is served."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import click

from offsetfs.cli import preflight, stored_security
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.common.security.scram_keys import BY_NAME, ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from offsetfs.kafka.broker.sasl.scram_credentials import NAME_BYTES_MAX, credential_of
from offsetfs.kafka.protocol.metadata_records import RemoveUserScramCredentialRecord
from offsetfs.storage.security import credential_record

ADD, REMOVE = "add", "remove"
PASSWORD_BYTES_MAX = 1 << 10
_KNOWN = frozenset(mechanism.value for mechanism in ScramMechanism)

_Users = dict[str, dict[ScramMechanism, int]]
"""The iterations of each mechanism for which a user has a password, by name."""


@click.command("users", short_help="List, add and remove users with a password.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("action", metavar="[add|remove]", type=click.Choice((ADD, REMOVE)), required=False)
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(tuple(BY_NAME)),
    help="Only this one, for add and remove; may be repeated.",
)
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    metavar="N",
    help="The work of each guess at a stored password, and of each login of a client.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(
    log_directory: str,
    action: str | None,
    name: str | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    as_json: bool,
) -> int:
    """List the users that can log in to offsetfs serve by SCRAM (or PLAIN) with a password in LOGDIR; add or remove
    one. To add a user that is there changes its password.

    The password is read from the terminal, or is the only line of standard input. It is not stored: the mechanisms
    SCRAM-SHA-256 and SCRAM-SHA-512 each store salted keys with which the server can check it. The change is on disk
    when the command returns. If LOGDIR is served, the command works through the server, and the next login uses the new
    password; connections that are logged in stay. Users of kafka-configs.sh are the same ones. Users in the settings of
    PLAIN (sasl.jaas.config) are not listed.

    \b
    offsetfs users ~/logs
    offsetfs users ~/logs add alice
    pass show kafka/alice | offsetfs users ~/logs add alice
    offsetfs users ~/logs add bob --mechanism SCRAM-SHA-512 --iterations 16384
    offsetfs users ~/logs remove alice
    offsetfs serve ~/logs -o listeners=SASL_PLAINTEXT://127.0.0.1:9092

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    if action is None:
        preflight.check_directory(log_directory, read_only=True, may_be_empty=True)
        _show(_listed(log_directory), as_json)
        return DONE
    if name is None:
        raise Failure(f"give the name of the user: offsetfs users {log_directory} {action} NAME", WRONG_CALL)
    if not 0 < len(_encoded(name, "the name")) <= NAME_BYTES_MAX:
        raise Failure(f"the name of a user has 1 to {NAME_BYTES_MAX} bytes in UTF-8", WRONG_CALL)
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    chosen = [BY_NAME[mechanism_name] for mechanism_name in dict.fromkeys(mechanisms)] or list(ScramMechanism)
    if action == ADD:
        _add(log_directory, name, chosen, iterations)
    else:
        _remove(log_directory, name, chosen)
    return DONE


# --- listing ---------------------------------------------------------------------------------------------------------


def _listed(log_directory: str) -> _Users:
    users: _Users = {}
    for name, mechanism, iterations in stored_security.read(log_directory, "credentials"):
        if mechanism in _KNOWN:
            users.setdefault(name, {})[ScramMechanism(mechanism)] = iterations
    return users


def _show(users: _Users, as_json: bool) -> None:
    if as_json:
        counts = {name: {mechanism.sasl_name: count for mechanism, count in of.items()} for name, of in users.items()}
        click.echo(json.dumps(counts, indent=1))
        return
    if not users:
        click.echo("offsetfs users: there are none", err=True)
    width = max((len(printable(name)) for name in users), default=0)
    for name, of in users.items():
        text = ", ".join(f"{mechanism.sasl_name} ({count} iterations)" for mechanism, count in of.items())
        click.echo(f"{printable(name):{width}}  {text}")


# --- changing --------------------------------------------------------------------------------------------------------


def _add(log_directory: str, name: str, mechanisms: list[ScramMechanism], iterations: int) -> None:
    password = _password()
    others = [mechanism for mechanism in _listed(log_directory).get(name, ()) if mechanism not in mechanisms]
    records = [
        credential_record(name, mechanism.value, credential_of(mechanism, password, iterations))
        for mechanism in mechanisms
    ]
    stored_security.change(log_directory, records, "users")
    if others:
        click.echo(
            f"offsetfs users: warning: {printable(name)} keeps its earlier password for {_names(others)}", err=True
        )


def _remove(log_directory: str, name: str, mechanisms: list[ScramMechanism]) -> None:
    users = _listed(log_directory)
    there = [mechanism for mechanism in users.get(name, ()) if mechanism in mechanisms]
    if not there:
        from offsetfs.common.name_patterns import suggestion

        reason = f"{log_directory} has no password of {printable(name)} ({_names(mechanisms)})"
        near = printable(suggestion([name], users)) if name not in users else ""
        raise Failure(f"{reason}; {near or f'offsetfs users {log_directory} lists them'}", WRONG_CALL)
    records = [RemoveUserScramCredentialRecord(name, mechanism.value) for mechanism in there]
    stored_security.change(log_directory, records, "users")


def _names(mechanisms: Iterable[ScramMechanism]) -> str:
    return ", ".join(mechanism.sasl_name for mechanism in mechanisms)


# --- the password ----------------------------------------------------------------------------------------------------


def _password() -> bytes:
    """Return the password that the terminal asks for twice, or the only line of standard input; `Failure`."""
    if sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt="The same again", err=True)
        return _checked(_encoded(text, "the password"))
    data = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 2).removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in data:
        raise Failure("standard input has more than one line; give the password alone", WRONG_CALL)
    try:
        data.decode()
    except UnicodeDecodeError:
        raise Failure("the password is not UTF-8", WRONG_CALL) from None
    return _checked(data)


def _checked(password: bytes) -> bytes:
    if not 0 < len(password) <= PASSWORD_BYTES_MAX:
        raise Failure(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes in UTF-8", WRONG_CALL)
    return password


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Failure(f"{what} is not UTF-8", WRONG_CALL) from None
