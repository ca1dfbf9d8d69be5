"""`offsetfs web`: a page to look at logs in a browser."""

from __future__ import annotations

import os
import ssl

import click

from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import DONE, FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.common.addresses import Address, AddressError, is_loopback, parse_address
from offsetfs.common.extras import install_command
from offsetfs.common.formatting import printable

PORT = 9380


@click.command("web", short_help="Look at logs in a browser.")
@click.argument("log_directory", metavar="LOGDIR")
@click.option(
    "--listen",
    "listen",
    metavar="HOST:PORT",
    help=f"Where browsers connect; default 127.0.0.1:{PORT}, or any free port.",
)
@click.option(
    "--host", "names", metavar="NAME", multiple=True, help="A name by which browsers reach it; may be repeated."
)
@click.option("--tls-cert", metavar="FILE", type=click.Path(), help="A certificate in PEM, for https.")
@click.option("--tls-key", metavar="FILE", type=click.Path(), help="Its key, if that is in another file.")
@click.option("--insecure", is_flag=True, help="Listen on addresses that other machines reach without TLS.")
@click.option(
    "--schema",
    "schema_words",
    metavar="NAME=FILE|DIR",
    multiple=True,
    help="A schema in a file, or files of a directory, for decoded values; may be repeated.",
)
@click.option(
    "--mask",
    "mask_words",
    metavar="TOPIC:FIELD[,FIELD]",
    multiple=True,
    help="Show null in place of fields of decoded values, and no raw values of the topic. May be repeated.",
)
def command(
    log_directory: str,
    listen: str | None,
    names: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    schema_words: tuple[str, ...],
    mask_words: tuple[str, ...],
) -> int:
    """Serve a page on which a browser shows LOGDIR: topics, partitions, segments, records, searches, groups, findings.
    Runs until Ctrl-C. LOGDIR is only read, also beside a broker; it may be an archive. Needs `pip install
    'offsetfs[web]'`.

    The printed address has a token, without which nothing is shown. Scripts send it as `Authorization: Bearer TOKEN`;
    /api/openapi.json describes the API. On addresses that other machines reach, the page needs TLS or --insecure.

    \b
    offsetfs web /var/lib/kafka/data
    offsetfs web s3://backup/kafka --listen 127.0.0.1:8080
    offsetfs web /var/lib/kafka/data --mask 'orders:customer.email'
    offsetfs web ~/logs --listen 0.0.0.0:8443 --host logs.example.com --tls-cert cert.pem --tls-key key.pem

    Exit codes: 1 wrong call or permissions, 2 system error, 32 LOGDIR or the address cannot be used.
    """
    try:
        import h11  # noqa: F401
    except ModuleNotFoundError as error:
        raise Failure(f"web needs {error.name}: {install_command('web')}", SYSTEM) from error
    from offsetfs.web.record_views import RecordsOf
    from offsetfs.web.server import opened_socket, run_web

    try:
        address: Address = parse_address(listen or f"127.0.0.1:{PORT}", PORT)
    except AddressError as error:
        raise Failure(f"--listen: {error}", WRONG_CALL) from error
    if not (":" in address[0] or address[0][-1].isdigit()):  # it is a name
        names = (*names, address[0])
    context = _tls(tls_cert, tls_key)
    if context is None and not insecure and not is_loopback(address[0]):
        raise Failure(
            f"{address[0]}: other machines reach it, and could read the token and the records on their way; give "
            "--tls-cert, or add --insecure",
            WRONG_CALL,
        )
    with opened_source(log_directory) as directory:
        try:
            records = RecordsOf(directory, schema_words, mask_words, source=_absolute(log_directory))
        except (ValueError, OSError) as error:
            raise Failure(printable(str(error)), WRONG_CALL) from error
        try:
            listening = opened_socket(address)
        except OSError as error:
            if listen is None:
                listening = opened_socket((address[0], 0))
            else:
                raise Failure(f"--listen {listen}: {error.strerror or error}; choose another one", FAILED) from error
        run_web(
            records,
            listening,
            lambda url: click.echo(f"{printable(log_directory)} is shown at {url}"),
            names=names,
            context=context,
        )
    return DONE


def _absolute(log_directory: str) -> str:
    """Return what names LOGDIR in any working directory."""
    if "://" in log_directory:
        return log_directory
    return ",".join(map(os.path.abspath, log_directory.split(",")))


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise Failure("--tls-key goes with --tls-cert", WRONG_CALL)
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error
        raise Failure(f"--tls-cert {certificate}: {printable(str(reason))}", WRONG_CALL) from error
    return context
