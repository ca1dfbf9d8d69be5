"""Schemas of a registry, fetched when a record or a topic first needs them.

A schema never changes under its id or GUID: it is kept in the user cache, below a hash of the URL, and in memory. That
the registry has none counts for `UNKNOWN_S` only, because it may be registered meanwhile. The newest version of a
subject is asked for once by each object.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

from offsetfs.common.user_directories import cache_directory
from offsetfs.schemas.catalog import SchemaCatalog, SchemaReference, SchemaVersion
from offsetfs.schemas.registry_client import ANSWER_BYTES_MAX, RegistryClient
from offsetfs.schemas.registry_json import (
    RegistryError,
    UnusableJson,
    guid_of,
    number_of,
    parsed_object,
    references_of,
    tags_of,
    text_of,
    type_of,
)
from offsetfs.schemas.registry_settings import RegistrySettings, registry_settings
from offsetfs.storage import files

REFERENCES_MAX = 1000
"""The schemas to which one refers, directly or not: protects time."""

CACHED_MAX = 10_000
"""The schemas of a registry that are kept on disk."""

UNKNOWN_S = 10.0
"""The time after which a schema that the registry did not have is asked for again."""

ASKED_AGAIN_MAX = 10
"""Schemas that the registry does not have, of which so many are asked for again a second, at most."""

_ANSWER = "answer"


class RegistrySchemas:
    """The schemas of one registry. Thread-safe."""

    def __init__(
        self,
        settings: RegistrySettings,
        environment: Mapping[str, str] = os.environ,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.catalog = SchemaCatalog()
        """Versions of subjects to which fetched schemas refer, and newest ones."""
        self._client = RegistryClient(settings)
        self._cache = _Cache(cache_directory(environment), settings.url)
        self._found: dict[str, SchemaVersion] = {}
        self._newest: dict[str, SchemaVersion | None] = {}
        self._unknown: dict[str, float] = {}  # when the registry said so
        self._now = now
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        """The address, without user and password."""
        return self._client.url

    def has(self, version: SchemaVersion) -> bool:
        """Return whether a schema is of this registry."""
        return version.origin == self._client.url

    def with_id(self, number: int) -> SchemaVersion | None:
        """Return the schema with an id; None if the registry has none. `RegistryError`."""
        return self._named("ids", str(number), number)

    def with_guid(self, guid: str) -> SchemaVersion | None:
        """Return the schema with a GUID; None if the registry has none. `RegistryError`."""
        return self._named("guids", guid, 0)

    def version(self, subject: str, number: int) -> SchemaVersion | None:
        """Return a version of a subject; None if the registry has none. `RegistryError`."""
        with self._lock:
            return self._version(subject, str(number))

    def latest(self, subject: str, *, is_fresh: bool = False) -> SchemaVersion | None:
        """Return the newest version of a subject; None if the registry has none. `RegistryError`.

        `is_fresh`: it is asked again.
        """
        with self._lock:
            if subject not in self._newest or is_fresh:
                self._newest[subject] = self._version(subject, "latest")
            return self._newest[subject]

    def _named(self, kind: str, name: str, number: int) -> SchemaVersion | None:
        path = f"/schemas/{kind}/{quote(name, safe='')}"
        with self._lock:
            if path not in self._found and not self._is_unknown(path):
                cached = self._cache.read(kind, name)
                answer = cached if cached is not None else self._client.get(path)
                made = None if answer is None else self._made(answer, f"schemas/{kind}/{name}", 1, number)
                if answer is not None and cached is None:
                    self._cache.write(kind, name, answer)
                self._unknown.pop(path, None)
                if made is None:
                    self._unknown[path] = self._now()
                else:
                    self._fetch_references(made)
                    self._found[path] = made
            return self._found.get(path)

    def _is_unknown(self, path: str) -> bool:
        """Return whether the registry said a short time ago that it has no such schema."""
        life = max(UNKNOWN_S, len(self._unknown) / ASKED_AGAIN_MAX)
        return path in self._unknown and self._now() - self._unknown[path] < life

    def _version(self, subject: str, version: str) -> SchemaVersion | None:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        answer = self._client.get(path, counts_unknown=False)
        if answer is None:
            return None
        made = self._made(answer, subject, None, None)
        if version not in ("latest", str(made.version)):
            raise self._client.refuse(f"answers with another version of {subject}")
        self.catalog.add(made)
        if version == "latest":
            self._fetch_references(made)
        return made

    def _fetch_references(self, version: SchemaVersion) -> None:
        """Put the schemas to which one refers into the catalog. Those that the registry lacks are not in it."""
        waiting: list[SchemaReference] = list(version.references)
        seen: set[tuple[str, int]] = set()
        while waiting:
            reference = waiting.pop()
            key = reference.subject, reference.version
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > REFERENCES_MAX:
                raise RegistryError(f"{version} refers to more than {REFERENCES_MAX} schemas")
            found = self.catalog.version(key) or self._version(reference.subject, str(reference.version))
            waiting += () if found is None else found.references

    def _made(self, answer: bytes, subject: str, version: int | None, number: int | None) -> SchemaVersion:
        try:
            content = parsed_object(answer, _ANSWER)
            return SchemaVersion(
                subject,
                number_of(content, "version", _ANSWER) if version is None else version,
                number_of(content, "id", _ANSWER, 0) if number is None else number,
                guid_of(content),
                type_of(content),
                tuple(references_of(content)),
                text_of(content, "schema", _ANSWER),
                self._client.url,
                tags=tuple(tags_of(content)),
            )
        except UnusableJson as error:
            raise self._client.refuse(f"answers for {subject} with no schema: {error}") from None


def open_registry(word: str | None) -> RegistrySchemas | None:
    """Return the registry of a URL or a properties file; None for None. `InvalidConfig`; OSError of the file."""
    return None if word is None else RegistrySchemas(registry_settings(word))


class _Cache:
    """Answers of a registry in files of the user. Failures of the disk are those of a cache: it is slower without."""

    def __init__(self, base: str | None, url: str) -> None:
        self._directory = ""
        if base is not None:
            name = hashlib.blake2b(url.encode(), digest_size=16).hexdigest()
            try:
                for path in (base, os.path.join(base, "schemas"), os.path.join(base, "schemas", name)):
                    files.make_private_directory(path)
                self._directory = os.path.join(base, "schemas", name)
            except OSError:
                pass

    def read(self, kind: str, name: str) -> bytes | None:
        """Return an answer that is whole."""
        if not self._directory:
            return None
        try:
            data = files.read_file(self._path(kind, name), ANSWER_BYTES_MAX)
            content = parsed_object(data, _ANSWER)
            text_of(content, "schema", _ANSWER)
            type_of(content)
            guid_of(content)
            tuple(references_of(content))
        except (OSError, UnusableJson):
            return None
        return data

    def write(self, kind: str, name: str, answer: bytes) -> None:
        if self._directory:
            with contextlib.suppress(OSError):
                if len(files.names(self._directory)) < CACHED_MAX:
                    files.put_private(self._path(kind, name), answer)

    def _path(self, kind: str, name: str) -> str:
        return os.path.join(self._directory, f"{kind}-{name}.json")
