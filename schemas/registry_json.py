"""JSON of a schema registry, as it stores it in `_schemas` and answers with it: fields that are checked; and errors.

The messages of errors name the field, and have no content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from offsetfs.schemas.catalog import SchemaReference
from offsetfs.storage import I32_MAX

Json = dict[str, object]

_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NAME_MAX = 64


class UnusableJson(Exception):
    """JSON that no registry writes. The reason has no content of it."""


class RegistryError(Exception):
    """The registry cannot be asked, or answers what no registry answers. The message has the URL and the remedy."""


def parsed_object(data: bytes, what: str) -> Json:
    """Return a JSON object. `UnusableJson`."""
    try:
        found = json.loads(data.decode())
    except RecursionError:
        raise UnusableJson(f"the {what} is nested too deeply") from None
    except ValueError:  # no UTF-8, no JSON, a number of too many digits
        raise UnusableJson(f"the {what} is not JSON") from None
    if not isinstance(found, dict):
        raise UnusableJson(f"the {what} is no JSON object")
    return found


def text_of(source: Json, name: str, what: str) -> str:
    """Return a text of an object. `UnusableJson`."""
    found = source.get(name)
    if not isinstance(found, str):
        raise UnusableJson(f"{name} of the {what} is missing or no text")
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:  # "\ud800"
            raise UnusableJson(f"{name} of the {what} is not Unicode") from None
    return found


def short_text_of(source: Json, name: str, what: str) -> str:
    """Return a text of at most 64 characters. `UnusableJson`."""
    found = text_of(source, name, what)
    if len(found) > _NAME_MAX:
        raise UnusableJson(f"{name} of the {what} has more than {_NAME_MAX} characters")
    return found


def number_of(source: Json, name: str, what: str, least: int = 1, most: int = I32_MAX) -> int:
    """Return a number of an object within bounds. `UnusableJson`."""
    found = source.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise UnusableJson(f"{name} of the {what} is missing or no number from {least} to {most}")
    return found


def guid_of(content: Json) -> str | None:
    """Return the GUID of a schema; None if there is none. `UnusableJson`."""
    if content.get("guid") is None:
        return None
    guid = text_of(content, "guid", "value")
    if not _GUID.fullmatch(guid):
        raise UnusableJson("guid of the value is no UUID")
    return guid.lower()


def type_of(content: Json) -> str:
    """Return the type of a schema. `UnusableJson`."""
    return "AVRO" if content.get("schemaType") is None else short_text_of(content, "schemaType", "value")


def tags_of(content: Json) -> Iterator[tuple[str, str]]:
    """Yield the paths and tags of the metadata, `{"tags": {"**.email": ["PII"]}}`; what has another form is ignored."""
    metadata = content.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    for path, names in tags.items() if isinstance(tags, dict) else ():
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str):
                yield path, name


def references_of(content: Json) -> Iterator[SchemaReference]:
    """Yield the references of a schema. `UnusableJson`."""
    found = content.get("references")
    if found is None:
        return
    if not isinstance(found, list) or not all(isinstance(reference, dict) for reference in found):
        raise UnusableJson("references of the value are no list of objects")
    for reference in found:
        yield SchemaReference(
            text_of(reference, "name", "reference"),
            text_of(reference, "subject", "reference"),
            number_of(reference, "version", "reference"),
        )
