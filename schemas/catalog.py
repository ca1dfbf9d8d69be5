"""Versions of subjects and their schemas, with look-ups by subject, by id and by GUID.

Follows InMemoryCache and KafkaStoreMessageHandler of Confluent's schema registry, with one difference: a schema that
was deleted or replaced stays, because old records still name it.
"""

from __future__ import annotations

import enum
import heapq
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

VERSIONS_MAX = 250_000
"""The most versions that a catalog keeps, replaced ones included."""

TEXT_BYTES_MAX = 256 << 20
"""The most bytes that the schemas of a catalog take together."""

_REFERENCE_BYTES = 100
"""About the memory of a reference beside its texts."""

_DEFAULT_CONTEXT = ""


class BrokenReference(ValueError):
    """A reference of a schema leads to no schema, or back to it."""


class VersionState(enum.Enum):
    """The state of a version. Only an active one is listed by a registry."""

    ACTIVE = "active"
    DELETED = "deleted"
    """Soft-deleted: a registry still returns it by id."""
    REMOVED = "removed"
    """Permanently deleted: only segments that are not yet compacted have it."""
    REPLACED = "replaced"
    """The same version of the subject was written again with another id or another schema."""


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one imports: the name in its text, and the version of a subject that is meant."""

    name: str
    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}={self.subject}/{self.version}"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    guid: str | None
    """A UUID in lower case; None where the registry wrote none."""
    type: str
    """AVRO, PROTOBUF, JSON, or what a plugin of the registry calls its own."""
    references: tuple[SchemaReference, ...]
    text: str
    origin: str
    """The partition and offset of its record."""
    state: VersionState = VersionState.ACTIVE
    tags: tuple[tuple[str, str], ...] = ()
    """Paths of fields and their tags, from the metadata of the version."""

    def __str__(self) -> str:
        return f"{self.subject}/{self.version}"

    @property
    def key(self) -> tuple[str, int]:
        """Subject and version."""
        return self.subject, self.version

    @property
    def context(self) -> str:
        """The context of the subject `:.context:name`; ids count within it. The default context is empty."""
        return context_of(self.subject)

    def has_schema_of(self, other: SchemaVersion) -> bool:
        """Return whether both are the same schema under the same id."""
        return (self.id, self.type, self.text, self.references) == (other.id, other.type, other.text, other.references)


def context_of(subject: str) -> str:
    """Return the context of a subject, `name` of `:.name:subject`; empty for the default context."""
    if subject.startswith(":."):
        name, colon, _ = subject[2:].partition(":")
        return name if colon else _DEFAULT_CONTEXT
    return _DEFAULT_CONTEXT


class _Subject:
    """The versions of a subject by number, without replaced ones; those in two states are found without a search.

    A hostile topic can delete a subject of many versions many times.
    """

    __slots__ = ("_active", "_deleted", "versions")

    def __init__(self) -> None:
        self.versions: dict[int, SchemaVersion] = {}
        self._active: list[int] = []  # a heap; it, and the list, may have numbers of versions that changed since
        self._deleted: list[int] = []

    def put(self, version: SchemaVersion) -> None:
        """Set a version."""
        number, before = version.version, self.versions.get(version.version)
        self.versions[number] = version
        if before is not None and before.state == version.state:
            return
        if version.state == VersionState.ACTIVE:
            heapq.heappush(self._active, number)
        elif version.state == VersionState.DELETED:
            self._deleted.append(number)
        if len(self._active) + len(self._deleted) > 4 * len(self.versions) + 16:
            self._active = sorted(self._in_state(VersionState.ACTIVE))
            self._deleted = list(self._in_state(VersionState.DELETED))

    def pop_active(self, last_version: int) -> Iterator[SchemaVersion]:
        """Yield the active versions up to a number; the caller sets each to another state before the next."""
        while self._active and self._active[0] <= last_version:
            version = self.versions[heapq.heappop(self._active)]
            if version.state == VersionState.ACTIVE:
                yield version

    def pop_deleted(self) -> Iterator[SchemaVersion]:
        """Yield the deleted versions; the caller sets each to another state before the next."""
        while self._deleted:
            version = self.versions[self._deleted.pop()]
            if version.state == VersionState.DELETED:
                yield version

    def latest(self) -> SchemaVersion:
        """Return the newest active version, or the newest of all."""
        return self.versions[max(self._in_state(VersionState.ACTIVE), default=max(self.versions))]

    def _in_state(self, state: VersionState) -> Iterator[int]:
        return (number for number, version in self.versions.items() if version.state == state)


class SchemaCatalog:
    """All versions that are known. Not thread-safe."""

    def __init__(self) -> None:
        self._subjects: dict[str, _Subject] = {}
        self._replaced: list[SchemaVersion] = []
        self._count = self._bytes = 0
        self._index: Mapping[int | str, Sequence[SchemaVersion]] | None = None

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, version: SchemaVersion) -> bool:
        """Add a version, or write it again. Return False, and leave it out, where the catalog is full."""
        before = self.version(version.key)
        if before is None or not before.has_schema_of(version):
            size = _memory(version)
            if self._count >= VERSIONS_MAX or self._bytes + size > TEXT_BYTES_MAX:
                return False
            self._count += 1
            self._bytes += size
            if before is not None:
                self._replaced.append(replace(before, state=VersionState.REPLACED))
        self._put(version)
        return True

    def remove(self, subject: str, version: int) -> None:
        """Delete a version permanently. The catalog keeps it as removed."""
        before = self.version((subject, version))
        if before is not None:
            self._put(replace(before, state=VersionState.REMOVED))

    def delete_subject(self, subject: str, last_version: int) -> None:
        """Delete the versions up to `last_version`, which stay readable by id."""
        found = self._subjects.get(subject)
        if found is not None:
            for version in found.pop_active(last_version):
                self._put(replace(version, state=VersionState.DELETED))

    def clear_subject(self, subject: str) -> None:
        """Delete the deleted versions of a subject permanently."""
        found = self._subjects.get(subject)
        if found is not None:
            for version in found.pop_deleted():
                self._put(replace(version, state=VersionState.REMOVED))

    def _put(self, version: SchemaVersion) -> None:
        self._index = None
        self._subjects.setdefault(version.subject, _Subject()).put(version)

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SchemaVersion]:
        """Yield all versions by subject and version; behind each the ones that it replaced."""
        replaced = defaultdict(list)
        for old in self._replaced:
            replaced[old.subject, old.version].append(old)
        for subject in sorted(self._subjects):
            for version in self.versions(subject):
                yield version
                yield from reversed(replaced[subject, version.version])

    def __len__(self) -> int:
        return self._count

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted."""
        return sorted(self._subjects)

    def version(self, key: tuple[str, int]) -> SchemaVersion | None:
        """Return a version by subject and number, unless it was replaced; None if it is unknown."""
        found = self._subjects.get(key[0])
        return None if found is None else found.versions.get(key[1])

    def versions(self, subject: str) -> list[SchemaVersion]:
        """Return the versions of a subject in order, without replaced ones; empty for an unknown subject."""
        found = self._subjects.get(subject)
        return [] if found is None else [version for _, version in sorted(found.versions.items())]

    def latest(self, subject: str) -> SchemaVersion | None:
        """Return the newest active version of a subject, or the newest of all; None for an unknown subject."""
        found = self._subjects.get(subject)
        return None if found is None else found.latest()

    def with_id(self, number: int) -> Sequence[SchemaVersion]:
        """Return the versions with an id, the one that a registry returns for it first.

        An id can have several schemas: in several contexts, or after a version was replaced.
        """
        return self._indexed().get(number, ())

    def with_guid(self, guid: str) -> Sequence[SchemaVersion]:
        """Return the versions with a GUID, ordered as those of `with_id`."""
        return self._indexed().get(guid, ())

    def _indexed(self) -> Mapping[int | str, Sequence[SchemaVersion]]:
        if self._index is None:
            index = defaultdict[int | str, list[SchemaVersion]](list)
            for version in sorted(self, key=_rank):
                index[version.id].append(version)
                if version.guid is not None:
                    index[version.guid].append(version)
            self._index = dict(index)
        return self._index

    def referred(self, version: SchemaVersion) -> list[tuple[SchemaReference, SchemaVersion]]:
        """Return the references of a version, and those of the schemas they lead to, each behind those of its target.

        A schema to which several others refer is in the list as often. `BrokenReference`.
        """
        return self._follow(version, {})

    def broken_references(self) -> Iterator[tuple[SchemaVersion, str]]:
        """Yield each version, replaced ones left out, whose references do not lead to schemas, and the reason."""
        reasons: dict[tuple[str, int], str] = {}
        for subject in sorted(self._subjects):
            for version in self.versions(subject):
                try:
                    self._follow(version, reasons)
                except BrokenReference as error:
                    yield version, str(error)

    def _follow(
        self, version: SchemaVersion, reasons: dict[tuple[str, int], str]
    ) -> list[tuple[SchemaReference, SchemaVersion]]:
        """Return references as `referred`, without those of versions in `reasons`, which were followed before.

        `reasons` has an empty text for a version without a broken reference.
        """
        if version.key in reasons:
            if reasons[version.key]:
                raise BrokenReference(reasons[version.key])
            return []
        found: list[tuple[SchemaReference, SchemaVersion]] = []
        stack: list[tuple[SchemaReference | None, SchemaVersion, Iterator[SchemaReference]]]
        stack, above = [(None, version, iter(version.references))], {version.key}
        while stack:
            origin, current, rest = stack[-1]
            reference = next(rest, None)
            if reference is None:
                stack.pop()
                above.remove(current.key)
                reasons[current.key] = ""
                if origin is not None:
                    found.append((origin, current))
                continue
            target = self.version((reference.subject, reference.version))
            if target is None:
                reason = f"reference {reference} of {current} leads to no schema"
            elif target.key in above:
                reason = f"reference {reference} of {current} closes a circle"
            elif target.key not in reasons:
                above.add(target.key)
                stack.append((reference, target, iter(target.references)))
                continue
            else:
                found.append((reference, target))
                reason = reasons[target.key]
            if reason:
                reasons.update(dict.fromkeys(above, reason))
                raise BrokenReference(reason)
        return found


def _memory(version: SchemaVersion) -> int:
    """Return about how many bytes the texts of a version take."""
    texts = [version.subject, version.text, version.type]
    for reference in version.references:
        texts += (reference.name, reference.subject)
    return sum(map(sys.getsizeof, texts)) + _REFERENCE_BYTES * len(version.references)


_STATES = tuple(VersionState)


def _rank(version: SchemaVersion) -> tuple[bool, int]:
    return version.context != _DEFAULT_CONTEXT, _STATES.index(version.state)
