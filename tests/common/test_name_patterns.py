"""Regular expressions for names, in the syntax of RE2 and in linear time."""

from __future__ import annotations

import pytest

from offsetfs.common.name_patterns import STEPS_MAX, NamePattern, PatternError

pytestmark = pytest.mark.unit

LONGEST = "a" * 249


@pytest.mark.parametrize(
    "pattern", [".?" * 398 + "~", "(a|aa)" * 50 + "b", "(a*)*b", "(x+x+)+y", r"(\w+\.?)+!", "((a?){30}){30}b"]
)
def test_patterns_that_a_backtracking_engine_never_ends_are_matched(pattern: str) -> None:
    assert not NamePattern(pattern).fullmatch(LONGEST)


def test_the_whole_name_must_match() -> None:
    pattern = NamePattern("orders|bills-.*")
    assert [each for each in ("orders", "orders2", "bills-", "my-bills-1") if pattern.fullmatch(each)] == [
        "orders", "bills-",
    ]  # fmt: skip
    assert not pattern.fullmatch("bills-\udc80")  # a name that is no UTF-8
    assert NamePattern("é+").fullmatch("éé")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", r"missing \)"),
        ("*a", "no argument for repetition operator"),
        ("(?!internal).*", r"\(\?! is not supported, as in RE2: no look-around"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{1001}", "invalid repetition size"),
        ("a\ud800", "not Unicode text"),
        (r"\pL" * 300, f"more than {STEPS_MAX} steps"),
        (r"\pL{1000}", "too large"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        NamePattern(pattern)
