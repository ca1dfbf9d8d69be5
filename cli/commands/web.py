"""`offsetfs web`: a page to look at logs in a browser."""

from __future__ import annotations

import contextlib

import click

from offsetfs.cli.arguments.cluster_options import ClusterQuestion, cluster_options, is_cluster
from offsetfs.cli.arguments.page_doors import OF_WEB, PageDoor, page_records
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.common.addresses import PAGE_PORT
from offsetfs.common.formatting import printable

UNNAMED_BYTES_MAX = 1 << 30
"""Of a cluster, if no topics are named."""
SCHEMAS_TOPIC = "_schemas"


@click.command("web", short_help="Look at logs in a browser.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--listen",
    "listen",
    metavar="HOST:PORT",
    help=f"Where browsers connect; default 127.0.0.1:{PAGE_PORT}, or any free port.",
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
    "--schema-registry",
    "registry_word",
    metavar="URL|FILE",
    help="A registry for schemas that are nowhere else, or a properties file with schema.registry.url.",
)
@click.option(
    "--mask",
    "mask_words",
    metavar="TOPIC:FIELD[,FIELD]",
    multiple=True,
    help="Show null in place of fields of decoded values, and no raw values of the topic. May be repeated.",
)
@cluster_options
def command(
    log_directory: str,
    topics: tuple[str, ...],
    listen: str | None,
    names: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
) -> int:
    """Serve a page on which a browser shows LOGDIR: topics, partitions, segments, records, searches, groups, findings.
    Runs until Ctrl-C. LOGDIR is only read, also beside a broker; it may be an archive. Needs `pip install
    'offsetfs[web]'`.

    The printed address has a token, without which nothing is shown. Scripts send it as `Authorization: Bearer TOKEN`;
    /api/openapi.json describes the API. On addresses that other machines reach, the page needs TLS or --insecure.

    LOGDIR may be a cluster, kafka://HOST:PORT/: the TOPICs are copied to a cache first, with the commits of groups, and
    shown as they are then. Without TOPIC all are copied, if they have at most 1 GiB.

    \b
    offsetfs web /var/lib/kafka/data
    offsetfs web s3://backup/kafka --listen 127.0.0.1:8080
    offsetfs web kafka://broker1:9092/ orders payments
    offsetfs web /var/lib/kafka/data --mask 'orders:customer.email'
    offsetfs web ~/logs --listen 0.0.0.0:8443 --host logs.example.com --tls-cert cert.pem --tls-key key.pem

    Exit codes: 1 wrong call or permissions, 2 system error, 32 LOGDIR or the address cannot be used.
    """
    from offsetfs.web.server import run_web

    if topics and not is_cluster(log_directory):
        raise Failure(f"{printable(topics[0])}: topics are named for a cluster; LOGDIR is shown as a whole", WRONG_CALL)
    question = ClusterQuestion(topics, [SCHEMAS_TOPIC], groups=True, unnamed_bytes_max=UNNAMED_BYTES_MAX)
    page = PageDoor(OF_WEB, listen, names, tls_cert, tls_key, is_insecure=insecure).opened()
    with contextlib.closing(page), opened_source(log_directory, question=question) as directory:
        records = page_records(directory, log_directory, schema_words, registry_word, mask_words)
        run_web(page, records, lambda url: click.echo(f"{printable(log_directory)} is shown at {url}"))
    return DONE
