"""`offsetfs install-helper`: register this installation with mount(8), systemd, man(1) and the shells."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.common.formatting import printable

PREFIX = "/usr/local"


@click.command("install-helper", short_help="Install files for mount(8), systemd, man and the shells.")
@click.option("--remove", is_flag=True, help="Remove the installed files.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--force", is_flag=True, help="Overwrite and remove also files that another program wrote or changed.")
@click.option(
    "--prefix", default=PREFIX, show_default=True, metavar="DIR", help="Directory of all files but mount.offsetfs."
)
@click.option("--root", default="/", show_default=True, metavar="DIR", help="Install below DIR, for packages.")
@click.option("--python", metavar="FILE", help="The interpreter to call; default: the one that runs this command.")
def command(remove: bool, dry_run: bool, force: bool, prefix: str, root: str, python: str | None) -> int:
    """Install the files by which other programs find this offsetfs, as root.

    PREFIX/bin/offsetfs, so that the command is on the PATH; /sbin/mount.offsetfs, so that `mount -t offsetfs` and lines
    in fstab work; manual pages, among them offsetfs-tree(7), the contract of the mounted tree; completion for bash, zsh
    and fish; the systemd units offsetfs@.service, of the system and of users. All of them call the interpreter that
    runs this command.

    The command lists the files that it wrote, and records them in PREFIX/share/offsetfs/installed. A second run changes
    only what differs. A file that another program wrote, or that has changed since, is kept unless --force is given.

    \b
    offsetfs install-helper
    offsetfs install-helper --dry-run
    offsetfs install-helper --remove
    offsetfs install-helper --prefix /usr --root debian/offsetfs --python /usr/bin/python3

    Exit codes: 1 wrong call or permissions, 2 system error, 32 a foreign file is in the way.
    """
    from offsetfs.cli.installed.contents import contents
    from offsetfs.cli.installed.installation import Installation

    if not prefix.startswith("/") or "\n" in prefix:
        raise Failure(f"--prefix {prefix}: must be an absolute path", WRONG_CALL)
    root = os.path.abspath(root)
    if root == "/" and os.geteuid() != 0 and not dry_run:
        raise Failure("it writes to /sbin and /usr: run it as root, or with --root DIR", WRONG_CALL)
    installation = Installation(root, prefix.rstrip("/"), _print_step, force=force, dry_run=dry_run)
    if remove:
        if installation.is_empty:
            click.echo("nothing is installed")
        installation.remove()
        return DONE
    if python is None:
        _check_interpreter(sys.executable)
    installation.install(contents(prefix.rstrip("/"), python or sys.executable))
    if root == "/" and not dry_run:
        click.echo("systemd sees the units after: systemctl daemon-reload")
    return DONE


def _print_step(done: str, path: str) -> None:
    click.echo(printable(f"{done}: {path}"))


def _check_interpreter(interpreter: str) -> None:
    """See that others will find offsetfs with this interpreter, and say who may then act for root."""
    command = [interpreter, "-I", "-c", "import offsetfs"]
    if subprocess.run(command, capture_output=True, check=False, cwd="/").returncode != 0:
        raise Failure(
            f"{interpreter} finds offsetfs only for this user or in this directory: install it in a virtual "
            "environment, or for the system",
            WRONG_CALL,
        )
    import offsetfs

    for path in (interpreter, offsetfs.__file__):
        owner = os.stat(path).st_uid
        if owner != 0:
            click.echo(
                f"offsetfs install-helper: warning: {printable(path)} belongs to user {owner}, "
                "who can change what root then runs",
                err=True,
            )
