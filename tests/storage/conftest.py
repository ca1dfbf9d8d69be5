"""What tests of the engine share."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from fixtures.logs.cleaner import Cleaner, MakeCleaner

from offsetfs.storage.directory import directory_checkpoints
from offsetfs.storage.partition import follower


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower looks at the disk each time that it is asked."""
    monkeypatch.setattr(follower, "LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(directory_checkpoints, "LOG_START_CHECK_S", 0.0)


@pytest.fixture
def cleaner(tmp_path: Path) -> Iterator[MakeCleaner]:
    """Call it with segments and settings: a compacted partition of the test's directory."""
    made: list[Cleaner] = []

    def make(segments: Mapping[int, Sequence[bytes]] | None = None, **settings: str) -> Cleaner:
        made.append(Cleaner(tmp_path, segments, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()
