"""A cache stays within its size, and evicts what was used longest ago."""

from __future__ import annotations

import pytest

from offsetfs.common.lru import Lru

pytestmark = pytest.mark.unit


def test_what_was_used_longest_ago_goes_first() -> None:
    cache: Lru[str] = Lru(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("A", None, "C")
    assert cache.size == 8


def test_what_is_larger_than_all_space_is_not_kept_and_displaces_nothing() -> None:
    cache: Lru[str] = Lru(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)
    cache.put("a", "new", 11)
    assert cache.get("a") is None and cache.size == 0


def test_a_value_put_again_counts_once() -> None:
    cache: Lru[int] = Lru(10)
    for number in range(5):
        cache.put("a", number, 6)
    assert cache.get("a") == 4 and cache.size == 6


def test_the_newest_value_can_be_kept_though_it_is_too_large() -> None:
    cache: Lru[str] = Lru(10, keeps_newest=True)
    cache.put("a", "A", 4)
    cache.put("b", "B", 11)
    assert (len(cache), cache.get("b"), "a" in cache) == (1, "B", False)
    cache.put("c", "C", 4)
    assert (list(cache.values()), cache.size) == (["C"], 4)


def test_without_sizes_entries_are_counted() -> None:
    cache: Lru[int] = Lru(2)
    for number in range(5):
        cache.put(number, number)
    assert list(cache.values()) == [3, 4]
