"""What the checks of `doctor` share: the surveys, the opened directories, the time, the machine, and what is unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from offsetfs.answers.doctor.cluster import ClusterFacts
from offsetfs.answers.doctor.survey import DirectorySurvey, PartitionSurvey
from offsetfs.answers.report import Diagnosis
from offsetfs.storage import LogDirectories, files


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """What a check asks of the machine; tests pass another one."""

    space: Callable[[str], tuple[int, int]] = lambda path: (files.total_bytes(path), files.free_bytes(path))
    """Return the size and the free bytes of the file system of a path."""
    bytes_per_second: Callable[[str], float] | None = None
    """Return how fast the records in a file are verified; None: measure it."""


@dataclass(slots=True)
class Examination:
    """The input of every check."""

    surveys: Sequence[DirectorySurvey]
    opened: LogDirectories | None
    """The directories, open for reading; None if they do not open."""
    now_ms: int
    cluster: ClusterFacts | None = None
    """What the metadata log says; None without one."""
    machine: MachineFigures = field(default_factory=MachineFigures)
    unseen: list[str] = field(default_factory=list)

    def partitions(self) -> Iterator[PartitionSurvey]:
        """Yield every partition of every directory."""
        for directory in self.surveys:
            yield from directory.partitions

    @property
    def is_live(self) -> bool:
        return any(directory.is_live for directory in self.surveys)


Check = Callable[[Examination], Iterator[Diagnosis]]
