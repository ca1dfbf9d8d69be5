"""Topics with a mask: they have no raw files, only those of `decoded/`, those for appends, and those of offsets."""

from __future__ import annotations

import errno

from offsetfs.common.extras import install_command
from offsetfs.fs.fuse_types import FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import AnyLogDirectory

_OF_A_PARTITION = frozenset((b"append", b"append.ndjson", b"append.raw", b"decoded", b"info", b"next", b"start"))
_OF_A_TOPIC = frozenset((b"append", b"append.ndjson", b"decoded"))


class MaskRefused(ValueError):
    """A mask hides nothing, or cannot be applied. The message has the remedy."""


def check_masks(directory: AnyLogDirectory, options: MountOptions) -> None:
    """Raise `MaskRefused` for a mask of a topic or a field that is not there."""
    from offsetfs.schemas.masks import MaskError, parse_masks

    try:
        from offsetfs.schemas.decoding import DirectorySchemas
        from offsetfs.schemas.registry_schemas import open_registry
        from offsetfs.schemas.schema_files import read_schema_files
    except ImportError as error:
        raise MaskRefused(f"mask needs {error.name}; install it: {install_command('arrow')}") from error
    try:
        files, registry = read_schema_files(options.schemas), open_registry(options.schema_registry)
        schemas = DirectorySchemas(directory, files, parse_masks(options.masks), registry)
        schemas.refresh()
        schemas.check_masks()
    except MaskError as error:
        raise MaskRefused(str(error)) from error


class HiddenFiles:
    """The names that are hidden because topics have masks."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._topics = frozenset(mask.partition(":")[0] for mask in mount.options.masks)

    def has_mask(self, topic: str) -> bool:
        """Return whether a topic has a mask."""
        return topic in self._topics

    def of_partition(self, topic: str, name: bytes) -> bool:
        """Return whether a name in the directory of a partition is hidden."""
        return topic in self._topics and name not in _OF_A_PARTITION

    def of_topic(self, topic: str, name: bytes) -> bool:
        """Return whether a name in `topics/<topic>` is hidden."""
        return topic in self._topics and name not in _OF_A_TOPIC

    def refusal(self, directory: str, name: bytes) -> FUSEError:
        """Return the error for a hidden name, EACCES, and record it."""
        path = f"{directory}/{name.decode('utf-8', 'backslashreplace')}"
        cause = "the topic has a mask, so it has no raw values"
        self._mount.error_log.report(Fault(errno.EACCES, "lookup", path, cause, "read the files in decoded/"))
        return FUSEError(errno.EACCES)
