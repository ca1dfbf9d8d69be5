"""What all jobs of `offsetfs spark` have in common: their options, the session, what a failure says."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from offsetfs.cli.exit_codes import FAILED, INTERRUPTED, WRONG_CALL, Failure
from offsetfs.storage.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Command = Callable[..., int]

TOPIC = click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
"""The option of jobs that may take some topics only."""


def job(function: _Command) -> _Command:
    """Add what all jobs take."""
    options = (
        click.option("--master", metavar="URL", help="Spark's master, or sc://…; all cores here if left out."),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text."),
    )
    for option in options:
        function = option(function)
    return function


def tell(fields: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a job came to."""
    click.echo(json.dumps(fields) if as_json else sentence)


@contextlib.contextmanager
def begun(master: str | None, conf: tuple[str, ...], as_json: bool) -> Iterator[SparkSession]:
    """Yield the session that there is, or one that is stopped at the end; what a job raises becomes a sentence."""
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("PySpark is not installed: pip install 'offsetfs[spark]'")
    from pyspark.sql import SparkSession

    from offsetfs.pipeline.jobs.workers import sentence_of
    from offsetfs.pipeline.session import session

    is_watched = sys.stderr.isatty() and not as_json
    ours = {"spark.ui.showConsoleProgress": str(is_watched).lower(), "spark.log.level": "OFF"}
    is_remote = master is not None and master.startswith("sc://")
    was_there = SparkSession.getActiveSession() is not None
    try:
        spark = session(master, {**({} if is_remote else ours), **_settings(conf)})
    except Exception as error:
        raise Failure(f"Spark does not start: {sentence_of(error)}") from error
    try:
        yield spark
    except (StorageError, ValueError) as error:
        raise Failure(str(error), WRONG_CALL if isinstance(error, ValueError) else FAILED) from error
    except KeyboardInterrupt:
        raise Failure("interrupted", INTERRUPTED) from None
    except OSError:
        raise
    except Exception as error:
        raise Failure(sentence_of(error)) from error
    finally:
        if not was_there:
            spark.stop()


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for setting in conf:
        name, equals, value = setting.partition("=")
        if not equals:
            raise Failure(f"--conf {setting}: KEY=VALUE is meant", WRONG_CALL)
        settings[name] = value
    return settings
