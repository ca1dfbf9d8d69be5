"""`schemas/`: what the topic `_schemas` of the log directory has, as files.

    schemas/<subject>/2.avsc      the schema of a version, also of a deleted one; .proto, .json, or .txt of other types
    schemas/<subject>/latest      a link to the newest version
    schemas/ids/7                 a link to the version with this id

The directory exists if the topic does. The topic is read in a thread when something in it is looked up; records that
come later are in the next look-up. A directory's name is that of the subject, percent-encoded as that of a group; the
subject `ids` is `%69ds`.
"""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.fs.attributes import FOREVER_S
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import encoded
from offsetfs.fs.naming.inodes import PermanentNumbers, pack
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.storage import TopicPartition

if TYPE_CHECKING:
    from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion

_TOPIC = "_schemas"
_LATEST = b"latest"
_IDS = b"ids"
_SUBJECT_IDS = b"%69ds"
_ENDINGS = {"AVRO": b"avsc", "PROTOBUF": b"proto", "JSON": b"json"}


class _Text(NamedTuple):
    """The content of a file. It never changes: a version that is written again is another file."""

    subject: str
    version: int
    content: bytes


class _Entries(NamedTuple):
    """The catalog as of a state of the topic, and what names need: subjects by name."""

    catalog: SchemaCatalog
    subjects: dict[bytes, str]


class SchemasDirectory:
    """`schemas`, and the nodes in it: `ids`, `subjects`, `files` and `links`."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._entries: _Entries | None = None
        self._end = -1
        self._lock = threading.Lock()
        self.files = SchemaTexts(mount)
        self.links = SchemaLinks(mount)
        self.ids = SchemaIds(mount, self)
        self.subjects = SubjectDirectories(mount, self)

    def _partitions(self) -> list[TopicPartition]:
        return self._mount.directory.partitions_of(_TOPIC)

    async def entry(self) -> EntryAttributes | None:
        """Return the attributes. None if the topic does not exist."""
        return self._attributes() if self._partitions() else None

    def _attributes(self) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.SCHEMAS))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._attributes()

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if name == _IDS:
            return await self.ids.attributes(0)
        subject = (await self.entries()).subjects.get(name)
        return None if subject is None else self.subjects.entry(subject)

    async def listing(self, number: int) -> Listing:
        found = [(name, self.subjects.entry(subject)) for name, subject in (await self.entries()).subjects.items()]
        return ShortListing([(_IDS, await self.ids.attributes(0)), *found])

    async def entries(self) -> _Entries:
        """Return what the topic has now."""
        return await self._mount.executor.in_thread(self._read)

    def _read(self) -> _Entries:
        from offsetfs.schemas.schemas_topic import read_schemas_topic  # when needed

        with self._lock:
            logs = [self._mount.directory.log(name) for name in self._partitions()]
            for log in logs:
                log.refresh(is_forced=True)
            end = sum(log.next_offset for log in logs)
            if self._entries is None or end != self._end:
                found = read_schemas_topic(self._mount.directory)
                if found is None:
                    raise FUSEError(errno.ESTALE)
                self._end, self._entries = end, _entries_of(found.catalog)
            return self._entries


def _entries_of(catalog: SchemaCatalog) -> _Entries:
    names = ((name_of(subject), subject) for subject in catalog.subjects())
    return _Entries(catalog, {name: subject for name, subject in names if name is not None})


def name_of(subject: str) -> bytes | None:
    """Return the name of the directory of a subject. None if it would be too long."""
    name = encoded(subject.encode("utf-8", "surrogatepass"))
    return _SUBJECT_IDS if name == _IDS else name


def _file_name(version: SchemaVersion) -> bytes:
    return b"%d.%b" % (version.version, _ENDINGS.get(version.type, b"txt"))


class SubjectDirectories:
    """`schemas/<subject>`. `number`: of the subject, in order of first access."""

    def __init__(self, mount: MountContext, schemas: SchemasDirectory) -> None:
        self._mount = mount
        self._schemas = schemas
        self._numbers: PermanentNumbers[str] = PermanentNumbers()

    def entry(self, subject: str) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.SCHEMA_SUBJECT, 0, self._numbers.of(subject)))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._numbers.at(number))

    async def _found(self, number: int) -> dict[bytes, EntryAttributes]:
        subject, catalog = self._numbers.at(number), (await self._schemas.entries()).catalog
        latest = catalog.latest(subject)
        if latest is None:
            return {}
        files = {_file_name(version): self._schemas.files.entry(version) for version in catalog.versions(subject)}
        return {_LATEST: self._schemas.links.entry(_file_name(latest)), **files}

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        return (await self._found(number)).get(name)

    async def listing(self, number: int) -> Listing:
        return ShortListing(list((await self._found(number)).items()))


class SchemaIds:
    """`schemas/ids`."""

    def __init__(self, mount: MountContext, schemas: SchemasDirectory) -> None:
        self._mount = mount
        self._schemas = schemas

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.SCHEMA_IDS))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        if not name.isdigit() or len(name) > 10 or name != b"%d" % int(name):
            return None
        return self._link(await self._schemas.entries(), int(name))

    async def listing(self, number: int) -> Listing:
        entries = await self._schemas.entries()
        ids = sorted({version.id for version in entries.catalog})
        links = ((b"%d" % schema_id, self._link(entries, schema_id)) for schema_id in ids)
        return ShortListing([(name, link) for name, link in links if link is not None])

    def _link(self, entries: _Entries, number: int) -> EntryAttributes | None:
        """Return a link to the version that a registry returns for an id; None if its subject has no file."""
        for version in entries.catalog.with_id(number):
            name = name_of(version.subject)
            if name is not None and entries.catalog.version(version.key) == version:
                return self._schemas.links.entry(b"../%b/%b" % (name, _file_name(version)))
        return None


class SchemaTexts:
    """`schemas/<subject>/<version>`. `number`: of the text, in order of first access."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._numbers: PermanentNumbers[_Text] = PermanentNumbers()

    def entry(self, version: SchemaVersion) -> EntryAttributes:
        text = version.text if version.text.endswith("\n") else f"{version.text}\n"
        content = text.encode("utf-8", "surrogatepass")
        return self._attributes(self._numbers.of(_Text(version.subject, version.version, content)))

    async def attributes(self, number: int) -> EntryAttributes:
        return self._attributes(number)

    def _attributes(self, number: int) -> EntryAttributes:
        size = len(self._numbers.at(number).content)
        return self._mount.attributes.file(pack(Kind.SCHEMA_FILE, 0, number), size, 0, attr_timeout_s=FOREVER_S)

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(self._numbers.at(number).content)


class SchemaLinks:
    """Links to files of versions. `number`: of the target, in order of first access."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._numbers: PermanentNumbers[bytes] = PermanentNumbers()

    def entry(self, target: bytes) -> EntryAttributes:
        inode = pack(Kind.SCHEMA_LINK, 0, self._numbers.of(target))
        return self._mount.attributes.link(inode, target)

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry(self._numbers.at(number))

    def target(self, number: int) -> bytes:
        return self._numbers.at(number)
