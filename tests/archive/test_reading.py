"""Reading an archive in place: the same records as from the log directory, few requests, and errors that name a URL."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import minimal_archive
import pytest

import offsetfs
from offsetfs.archive import reading
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.reading import ReadSettings

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requests of this process to object storage: the operation, and the URL or path."""
    found: list[tuple[str, str]] = []
    run = ObjectStore._run

    def counted(self: ObjectStore, asynchronous: str, synchronous: str, url: str, *rest: object, **named: object):  # type: ignore[no-untyped-def]
        found.append((synchronous, url))
        return run(self, asynchronous, synchronous, url, *rest, **named)

    monkeypatch.setattr(ObjectStore, "_run", counted)
    return found


@contextlib.contextmanager
def attached(store: ObjectStore, cache: Path, **settings: object) -> Iterator[str]:
    """Attach the archive of a store for the block, with a cache of its own."""
    reading.attach(store.url, ReadSettings(cache=str(cache), timeout_s=10, **settings))  # type: ignore[arg-type]
    try:
        yield store.url
    finally:
        reading.detach(store.url)


def lines(path: str, name: str) -> list[object]:
    with offsetfs.open(path) as data:
        partition = data.partition(name)
        return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in partition.read()]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_archive_has_the_records_of_every_golden_log(store: ObjectStore, tmp_path: Path, version: str) -> None:
    source = GOLDEN / version
    minimal_archive.write(store, source)
    with attached(store, tmp_path / "cache") as url, offsetfs.open(url) as remote, offsetfs.open(source) as local:
        assert [each.name for each in remote.partitions()] == [each.name for each in local.partitions()]
        count = 0
        for mine, theirs in zip(remote.partitions(), local.partitions(), strict=True):
            assert (mine.start, mine.end) == (theirs.start, theirs.end), mine.name
            found = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in mine.read()]
            assert found == [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs.read()], mine.name
            count += len(found)
        assert count
