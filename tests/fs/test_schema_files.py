"""`schemas/` at the root: subjects, versions and ids of the topic `_schemas` as files."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.schema_records import RECORD, deletion, schema_record, write_schemas

from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.mounting.path_tree import Tree
from offsetfs.fs.options import MountOptions
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

ODD = ["a/b", "..", "ids", ":.ctx:orders", "tab\t%"]
NAMES = [":.ctx:orders", "%2E%2E", "a%2Fb", "%69ds", "orders-value", "tab%09%25"]


@pytest.fixture
def schemas(log: Path) -> Path:
    write_schemas(log, [
        schema_record("orders-value", 1, 1), schema_record("orders-value", 2, 2, '"long"\n'),
        schema_record("orders-value", 3, 3, 'syntax = "proto3";', schemaType="PROTOBUF"),
        schema_record("orders-value", 4, 4, "{}", schemaType="JSON"),
        *(schema_record(subject, 1, 10 + number) for number, subject in enumerate(ODD)),
    ])  # fmt: skip
    return log


def in_tree(log: Path, work: Callable[[Tree], Any]) -> Any:
    return run(LogDirectory.open(str(log), read_only=True), MountOptions(read_only=True), work)


async def names(tree: Tree, path: str) -> list[str]:
    found: list[str] = []

    async def take(entries: list[Any]) -> None:
        found.extend(entry.name.decode() for entry in entries)

    await tree.entries(path, take)
    return found


async def text(tree: Tree, path: str) -> str:
    async with tree.open(path) as file:
        content = bytes(await file.read(0, 1 << 20)).decode()
    assert len(content) == (await tree.find(path)).size
    return content


def test_subjects_versions_and_ids_are_files(schemas: Path) -> None:
    async def work(tree: Tree) -> None:
        assert "schemas" in await names(tree, "")
        assert sorted(await names(tree, "schemas")) == sorted(["ids", *NAMES])
        assert await names(tree, "schemas/orders-value") == ["latest", "1.avsc", "2.avsc", "3.proto", "4.json"]
        assert await names(tree, "schemas/ids") == ["1", "2", "3", "4", "10", "11", "12", "13", "14"]
        assert await text(tree, "schemas/orders-value/1.avsc") == f"{RECORD}\n"
        assert await text(tree, "schemas/orders-value/2.avsc") == '"long"\n'
        assert await text(tree, "schemas/orders-value/latest") == "{}\n"
        assert await tree.target(await tree.find("schemas/ids/3", follows=False)) == "../orders-value/3.proto"
        for number, name in enumerate(["a%2Fb", "%2E%2E", "%69ds", ":.ctx:orders", "tab%09%25"]):
            assert await text(tree, f"schemas/ids/{10 + number}") == f"{RECORD}\n"
            assert await text(tree, f"schemas/{name}/latest") == f"{RECORD}\n"

    in_tree(schemas, work)


@pytest.mark.parametrize("name", ["nope", "ids/99", "ids/01", "ids/x", "orders-value/9.avsc", "orders-value/1.json"])
def test_other_names_are_not_there(schemas: Path, name: str) -> None:
    async def work(tree: Tree) -> None:
        with pytest.raises(FileNotFoundError):
            await tree.find(f"schemas/{name}")

    in_tree(schemas, work)


def test_new_versions_appear_and_deleted_ones_stay(schemas: Path) -> None:
    async def work(tree: Tree) -> None:
        assert await tree.target(await tree.find("schemas/orders-value/latest", follows=False)) == "4.json"
        write_schemas(schemas, [deletion("orders-value", 4), schema_record("orders-value", 5, 5, json.dumps("int"))])
        assert await text(tree, "schemas/orders-value/latest") == '"int"\n'
        assert await text(tree, "schemas/ids/1") == f"{RECORD}\n"

    in_tree(schemas, work)


def test_without_the_topic_there_is_no_directory_and_an_empty_one_has_ids_alone(log: Path) -> None:
    async def absent(tree: Tree) -> None:
        assert "schemas" not in await names(tree, "")
        with pytest.raises(FileNotFoundError):
            await tree.find("schemas")

    async def empty(tree: Tree) -> None:
        assert await names(tree, "schemas") == ["ids"]
        assert await names(tree, "schemas/ids") == []
        assert stat.S_ISDIR((await tree.find("schemas/ids")).mode)

    directory = LogDirectory.open(str(log))
    directory.create_partition(TopicPartition("orders", 0))
    directory.close()
    in_tree(log, absent)
    directory = LogDirectory.open(str(log))
    directory.create_partition(TopicPartition("_schemas", 0))
    directory.close()
    in_tree(log, empty)
