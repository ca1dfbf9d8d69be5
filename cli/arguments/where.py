"""The options `--where` and `--decoded` of `offsetfs find`: conditions in SQL, and values by their schemas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.cli.arguments.schema_registry import registry_of
from offsetfs.cli.exit_codes import SYSTEM, WRONG_CALL, Failure
from offsetfs.common.extras import install_command
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import sentence

if TYPE_CHECKING:
    from offsetfs.answers.find import Search
    from offsetfs.answers.find_lines import LinesOf
    from offsetfs.schemas.masks import Masks
    from offsetfs.schemas.schema_files import FileSchema
    from offsetfs.storage import AnyLogDirectory


@dataclass(frozen=True, slots=True)
class Schemas:
    """The options that name schemas."""

    words: Sequence[str]
    registry_word: str | None
    masks: Masks | None

    def files(self) -> Mapping[str, FileSchema]:
        """Return the schemas of files; `Failure` for a wrong one."""
        from offsetfs.schemas.schema_files import SchemaFileError, read_schema_files

        try:
            return read_schema_files(self.words)
        except (SchemaFileError, OSError) as error:
            raise Failure(f"--schema: {printable(sentence(error))}", WRONG_CALL) from error


@contextlib.contextmanager
def searching_where(search: Search, condition: str, isolation: str, schemas: Schemas) -> Iterator[None]:
    """Let a search find only what a condition in SQL does. `Failure` for a wrong condition, or without DuckDB."""
    try:
        from offsetfs.answers.find_where import WhereCondition
        from offsetfs.tables.sql.session import SqlError, SqlSession
    except ModuleNotFoundError as error:
        raise Failure(f"--where needs {error.name}: {install_command('sql')}", SYSTEM) from error
    try:
        session = SqlSession(
            search.directory,
            isolation=isolation,
            skips_damage=True,
            files=(),
            schemas=schemas.files(),
            masks=schemas.masks,
            registry=registry_of(schemas.registry_word),
        )
        with session:
            search.where = WhereCondition(
                session, condition, dict.fromkeys(partition.topic for partition in search.partitions)
            )
            yield
            for damage in session.damage:
                search.note_damage(damage)
    except SqlError as error:
        raise Failure(f"--where: {printable(str(error).partition(chr(10))[0])}", WRONG_CALL) from error


def decoded_lines_of(directory: AnyLogDirectory, schemas: Schemas) -> LinesOf:
    """Return what writes records with decoded values. `Failure` without the packages for it."""
    try:
        from offsetfs.answers.find_decoded import DecodedFinds
    except ModuleNotFoundError as error:
        raise Failure(f"--decoded needs {error.name}: {install_command('arrow')}", SYSTEM) from error
    from offsetfs.schemas.masks import MaskError

    try:
        return DecodedFinds(directory, schemas.files(), schemas.masks, registry_of(schemas.registry_word)).lines_of
    except MaskError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error


def masks_of(words: Sequence[str], *, shows_values: bool, searches_values: bool) -> Masks | None:
    """Return the masks of a search; `Failure` for a wrong one, or if the search shows or searches raw values."""
    if not words:
        return None
    if shows_values:
        raise Failure("--mask: without --decoded, --count or --paths raw values would be printed", WRONG_CALL)
    if searches_values:
        raise Failure("--mask: --text and --regex search raw values; use --where, or --in key", WRONG_CALL)
    try:
        from offsetfs.schemas.masks import MaskError, parse_masks
    except ModuleNotFoundError as error:
        raise Failure(f"--mask needs {error.name}: {install_command('arrow')}", SYSTEM) from error
    try:
        return parse_masks(words)
    except MaskError as error:
        raise Failure(printable(str(error)), WRONG_CALL) from error
