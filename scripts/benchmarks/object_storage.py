"""Archives in object storage: written, and read in place, beside s3fs and beside the same logs on the local disk.

The server is a real one, SeaweedFS, on this machine. Rows that count requests, and the one of slow storage, pass the
proxy of the fault tests, which counts and delays; the others do not. Each cold read has a cache of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import logs
import mounted  # adds the folder of the fixtures to the path
import spark_driver
from bench import Bench
from commands import OFFSETFS
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import S3Faults
from fixtures.stores.s3_server import S3Server
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast
from spark_driver import SparkDriver

LATENCY_S, BYTES_PER_S = 0.020, 50e6
"""The slow storage: the latency of a request, the bandwidth of a connection."""
_TASKS = 16
_PUT = "import s3fs, sys; s3fs.S3FileSystem().put(sys.argv[1:-1], sys.argv[-1])"
_GET = "import s3fs, sys; s3fs.S3FileSystem().get(sys.argv[1:-1], sys.argv[-1])"


def _server(bench: Bench) -> S3Server:
    return bench.once("s3", lambda: bench.until_the_end.enter_context(s3_server.running()))


def _proxy(bench: Bench) -> S3Faults:
    return bench.once("s3-proxy", lambda: bench.until_the_end.enter_context(s3_faults.running(_server(bench))))


def _seconds(environment: dict[str, str], *words: object) -> float:
    """Return how long a command runs; what it prints is discarded."""
    start = time.perf_counter()
    subprocess.run([*map(str, words)], env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _new_url(bench: Bench) -> str:
    return f"s3://{s3_server.BUCKET}/{bench.new('archive').name}"


def _log(bench: Bench) -> Path:
    return bench.filled(logs.OWN_BATCH_BYTES)


def _archived(bench: Bench, directory: Path) -> str:
    """Return the URL of an archive of a log directory."""

    def make() -> str:
        url = _new_url(bench)
        _seconds(_server(bench).environment(), *OFFSETFS, "archive", directory, url)
        return url

    return bench.once(("archived", directory), make)


def _log_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*.log"))


def _without(bench: Bench, url: str) -> None:
    """Remove what a round has uploaded."""
    code = "import s3fs, sys; s3fs.S3FileSystem().rm(sys.argv[1], recursive=True)"
    _seconds(_server(bench).environment(), sys.executable, "-c", code, url)


# --- writing ---------------------------------------------------------------------------------------------------------


def _upload(words: Callable[[Path, str], list[object]]) -> Opened:
    """The log to a new place in the bucket, by a command."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        directory, environment = _log(bench), _server(bench).environment()

        def measure(number: int) -> float:
            url = _new_url(bench)
            figure = _seconds(environment, *words(directory, url))
            _without(bench, url)
            return figure

        yield measure

    return opened


def _archive(directory: Path, url: str) -> list[object]:
    return [*OFFSETFS, "archive", directory, url]


def _put(directory: Path, url: str) -> list[object]:
    return [sys.executable, "-c", _PUT, *_log_files(directory), url + "/"]


# --- reading ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _mounted_archive(bench: Bench, url: str, environment: dict[str, str]) -> Iterator[Path]:
    """Mount an archive with an empty cache, and yield the mount point."""
    mount_point, cache = bench.new("mnt"), bench.new("cache")
    mount_point.mkdir()
    cache.mkdir()
    options = [word for option in ("ro", f"cache={cache}") for word in ("-o", option)]
    _seconds(environment, *OFFSETFS, "mount", url, mount_point, *options)
    try:
        yield mount_point
    finally:
        subprocess.run([*OFFSETFS, "umount", str(mount_point)], check=True)
        shutil.rmtree(cache)


def _read_all(path: Path) -> float:
    return _seconds({}, "cat", path)


@contextlib.contextmanager
def _cold_values(bench: Bench) -> Iterator[Measure]:
    url, environment = _archived(bench, _log(bench)), _server(bench).environment()

    def measure(number: int) -> float:
        with _mounted_archive(bench, url, environment) as mount_point:
            return _read_all(mount_point / str(logs.PARTITION) / "values")

    yield measure


@contextlib.contextmanager
def _warm_values(bench: Bench) -> Iterator[Measure]:
    url, environment = _archived(bench, _log(bench)), _server(bench).environment()
    with _mounted_archive(bench, url, environment) as mount_point:
        values = mount_point / str(logs.PARTITION) / "values"
        size = subprocess.run(["wc", "-c"], stdin=values.open("rb"), capture_output=True, check=True).stdout
        assert int(size) == bench.count * logs.LINE_BYTES, size
        yield lambda number: _read_all(values)


@contextlib.contextmanager
def _local_values(bench: Bench) -> Iterator[Measure]:
    with mounted.offsetfs(_log(bench), bench.new("mnt"), "ro") as mount:
        values = mount.path / str(logs.PARTITION) / "values"
        _read_all(values)
        yield lambda number: _read_all(values)


@contextlib.contextmanager
def _get(bench: Bench) -> Iterator[Measure]:
    """The same bytes by s3fs into files."""
    url, environment = _new_url(bench), _server(bench).environment()
    sources = _log_files(_log(bench))
    _seconds(environment, *_put(_log(bench), url))

    def measure(number: int) -> float:
        target = bench.new("got")
        target.mkdir()
        names = [f"{url}/{each.name}" for each in sources]
        figure = _seconds(environment, sys.executable, "-c", _GET, *names, f"{target}/")
        assert sum(each.stat().st_size for each in target.iterdir()) == sum(each.stat().st_size for each in sources)
        shutil.rmtree(target)
        return figure

    yield measure


@contextlib.contextmanager
def _record_requests(bench: Bench) -> Iterator[Measure]:
    """The requests of one record, the first that is read after the mount."""
    proxy, url = _proxy(bench), _archived(bench, bench.filled(logs.PRODUCER_BATCH_BYTES))

    def measure(number: int) -> float:
        with _mounted_archive(bench, url, proxy.environment()) as mount_point:
            proxy.forget()
            offset = bench.count // 2
            record = (mount_point / str(logs.PARTITION) / str(offset)).read_bytes()
            assert record == logs.line(offset).rstrip(b"\n"), record
            return float(len(proxy.requests()))

    yield measure


def _mount_many(figure: Callable[[float, int], float]) -> Opened:
    """Mount an archive of so many partitions and list it: a figure of the seconds and the requests."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        directory = bench.once(("partitions", bench.count), lambda: logs.partitions(bench.new("log"), bench.count))
        proxy, url = _proxy(bench), _archived(bench, directory)

        def measure(number: int) -> float:
            proxy.forget()
            start = time.perf_counter()
            with _mounted_archive(bench, url, proxy.environment()) as mount_point:
                seconds = time.perf_counter() - start
                found = sum(each.startswith(f"{logs.PARTITION.topic}-") for each in os.listdir(mount_point))
                assert found == bench.count, found
                return figure(seconds, len(proxy.requests()))

        yield measure

    return opened


# --- Spark -----------------------------------------------------------------------------------------------------------


def _session(bench: Bench, master: str, environment: dict[str, str]) -> SparkDriver:
    def make() -> SparkDriver:
        begun = spark_driver.begun(master, bench.new("spark-words"), environment=environment)
        return bench.until_the_end.enter_context(begun)

    return bench.once(("s3-spark", master, *sorted(environment.items())), make)


def _scan(path: Callable[[Bench], object]) -> Opened:
    """All records put together by partition, in one session for both sides."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark = _session(bench, "local[*]", _server(bench).environment())
        source = {"format": "offsetfs", "options": {}, "path": path(bench)}
        found = spark.result("scan", source=source)
        assert sum(count for _, count, *_ in found) == bench.count, found
        yield lambda number: spark.seconds("scan", source=source)

    return opened


def _slow_scan(tasks: int) -> Opened:
    """A scan of slow storage in `_TASKS` tasks, so many of them in flight."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        proxy, url = _proxy(bench), _archived(bench, _log(bench))
        spark = _session(bench, f"local[{tasks}]", proxy.environment())
        source = {"format": "offsetfs", "options": {"minPartitions": str(_TASKS)}, "path": url}
        found = spark.result("scan", source=source)
        assert sum(count for _, count, *_ in found) == bench.count, found

        def measure(number: int) -> float:
            proxy.slow_down(LATENCY_S, BYTES_PER_S)
            try:
                return spark.seconds("scan", source=source)
            finally:
                proxy.slow_down(0, None)

        yield measure

    return opened


# --- the rows --------------------------------------------------------------------------------------------------------

_LINES, _LINES_QUICK = 5_000_000, 100_000

ROWS = (
    Row(
        "archive-up",
        "A log into an empty bucket: `offsetfs archive`",
        unit="s",
        of="lines",
        count=_LINES,
        count_quick=_LINES_QUICK,
        ours=Contender("`offsetfs archive`", _upload(_archive)),
        peers=(Peer(Contender("s3fs `put` of the log files", _upload(_put)), times_as_fast(0.8)),),
    ),
    Row(
        "archive-values",
        "`cat values` of a mounted archive, with an empty cache",
        unit="s",
        of="lines",
        count=_LINES,
        count_quick=_LINES_QUICK,
        ours=Contender("`cat values`", _cold_values),
        peers=(Peer(Contender("s3fs `get` of the log files", _get), times_as_fast(0.7)),),
    ),
    Row(
        "archive-values-warm",
        "`cat values` of a mounted archive for the second time",
        unit="s",
        of="lines",
        count=_LINES,
        count_quick=_LINES_QUICK,
        ours=Contender("mounted archive", _warm_values),
        peers=(Peer(Contender("mounted log directory", _local_values), times_as_fast(0.9)),),
    ),
    Row(
        "archive-record",
        "One record of a mounted archive, in batches of 16 KiB, with an empty cache: requests to the bucket",
        unit="requests",
        of="lines",
        count=_LINES,
        count_quick=_LINES_QUICK,
        ours=Contender("`cat OFFSET`", _record_requests),
        limit=3,
    ),
    Row(
        "archive-mount-1000",
        "Mount an archive of 1,000 partitions",
        unit="s",
        of="partitions",
        count=1000,
        count_quick=20,
        ours=Contender("`offsetfs mount`", _mount_many(lambda seconds, requests: seconds)),
        limit=2,
    ),
    Row(
        "archive-mount-requests",
        "Mount an archive of 1,000 partitions and list it: requests to the bucket",
        unit="requests",
        of="partitions",
        count=1000,
        count_quick=20,
        ours=Contender("`offsetfs mount`", _mount_many(lambda seconds, requests: float(requests))),
        limit=20,
    ),
    Row(
        "spark-archive-scan",
        "Spark aggregates an archive by partition, in tasks without a cache",
        unit="s",
        of="records",
        count=_LINES,
        count_quick=_LINES_QUICK,
        ours=Contender("archive", _scan(lambda bench: _archived(bench, _log(bench)))),
        peers=(Peer(Contender("log directory", _scan(_log)), times_as_fast(0.7)),),
    ),
    Row(
        "spark-archive-slow",
        f"The same in {_TASKS} tasks, with 20 ms of latency and 50 MB/s for each connection",
        unit="s",
        of="records",
        count=2_000_000,
        count_quick=_LINES_QUICK,
        ours=Contender("four tasks in flight", _slow_scan(4)),
        peers=(Peer(Contender("one task in flight", _slow_scan(1)), times_as_fast(3.5)),),
    ),
)
