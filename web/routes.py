"""Routes of the API: paths, parameters and answers, checked as they are declared, and described as OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offsetfs.version import __version__
from offsetfs.web.http_server import HttpError, HttpRequest

Schema = dict[str, Any]

_LARGE = {"type": "string", "pattern": "^-?[0-9]{16,}$"}
"""An integer beyond 2⁵³ − 1, which a browser would round."""

INTEGER: Schema = {"anyOf": [{"type": "integer"}, _LARGE]}
TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer", "minimum": 0}
"""Of parameters."""
COUNT: Schema = {"anyOf": [NUMBER, _LARGE]}
ANY: Schema = {}


def nullable(schema: Schema) -> Schema:
    """Return the schema of a value that may be null: it is not known, or there is none."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": schema}


def members(**schemas: Schema) -> Schema:
    """Return the schema of an object that has these members, and no others."""
    return {"type": "object", "properties": schemas, "required": [*schemas], "additionalProperties": False}


ERROR = members(error=TEXT)

_NUMBER = re.compile(r"[0-9]{1,19}\Z")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a route. `is_list`: it may be given several times."""

    name: str
    text: str
    schema: Schema = field(default_factory=lambda: TEXT)
    is_list: bool = False
    default: Any = None
    is_required: bool = False

    def value(self, given: Sequence[str]) -> Any:
        """Return the value of what an address has. `HttpError`."""
        if self.is_list:
            return [self._one(text) for text in given]
        if len(given) > 1:
            raise HttpError(400, f"{self.name} is given {len(given)} times: give it once")
        if self.is_required and not given:
            raise HttpError(400, f"{self.name} is missing")
        return self._one(given[0]) if given else self.default

    def _one(self, text: str) -> Any:
        kind = self.schema.get("type")
        if kind == "integer":
            low, high = self.schema.get("minimum", 0), self.schema.get("maximum", (1 << 63) - 1)
            if _NUMBER.match(text) is None or not low <= int(text) <= high:
                raise HttpError(400, f"{self.name} is not a whole number from {low} to {high}")
            return int(text)
        if kind == "boolean":
            if text not in ("true", "false"):
                raise HttpError(400, f"{self.name} is neither true nor false")
            return text == "true"
        choices = self.schema.get("enum")
        if choices is not None and text not in choices:
            raise HttpError(400, f"{self.name} is none of {', '.join(choices)}")
        return text

    def as_openapi(self, place: str) -> Schema:
        schema = listed(self.schema) if self.is_list else dict(self.schema)
        if self.default is not None:
            schema["default"] = self.default
        described = {"name": self.name, "in": place, "description": self.text, "schema": schema}
        return {**described, "required": True} if place == "path" or self.is_required else described


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `work` gets the values of its parameters by name."""

    path: str
    summary: str
    work: Callable[..., Any]
    answer: Schema
    parameters: Sequence[Parameter] = ()
    media_type: str = "application/json"
    method: str = "GET"
    body: Schema | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path)) + r"\Z", re.DOTALL)

    @property
    def path_names(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.path)

    def values(self, request: HttpRequest, in_path: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of all parameters. `HttpError` for a wrong or unknown one."""
        names = {parameter.name for parameter in self.parameters} - {*self.path_names}
        for name in request.query:
            if name not in names:
                known = f"it takes {', '.join(sorted(names))}" if names else "it takes none"
                raise HttpError(400, f"there is no parameter {name[:100]!r}: {known}")
        given = {**request.query, **{name: [value] for name, value in in_path.items()}}
        return {parameter.name: parameter.value(given.get(parameter.name, [])) for parameter in self.parameters}

    def as_openapi(self) -> Schema:
        in_path = self.path_names
        described: Schema = {
            "summary": self.summary,
            "parameters": [
                parameter.as_openapi("path" if parameter.name in in_path else "query") for parameter in self.parameters
            ],
            "responses": {
                "200": {"description": "the answer", "content": {self.media_type: {"schema": self.answer}}},
                "default": {"description": "an error", "content": {"application/json": {"schema": ERROR}}},
            },
        }
        if self.body is not None:
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": self.body}}}
        return described


def openapi(routes: Sequence[Route]) -> Schema:
    """Return the description of the routes as OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "offsetfs web",
            "version": __version__,
            "description": "Questions about Kafka logs. Everything is read-only. A number that is not known is null. "
            "An integer beyond 2^53 - 1 is the text of its digits.",
        },
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {route.path: {route.method.lower(): route.as_openapi()} for route in routes},
    }
