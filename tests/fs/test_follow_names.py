"""What names of `follow` mean, and that nothing else is one."""

import pytest

from offsetfs.fs.files.follow import Start, follows, name_of_stream, newest_count, parse_follow

pytestmark = pytest.mark.unit

NAMES = {
    b"follow": Start(b"", is_json=False),
    b"follow.ndjson": Start(b"", is_json=True),
    b"follow@42": Start(b"42", is_json=False),
    b"follow@42.ndjson": Start(b"42", is_json=True),
    b"follow@-3": Start(b"-3", is_json=False),
    b"follow@-15m": Start(b"-15m", is_json=False),
    b"follow@now.ndjson": Start(b"now", is_json=True),
    b"follow@@1795253676.123": Start(b"@1795253676.123", is_json=False),
    b"follow@2026-11-21T13:05:07.123Z.ndjson": Start(b"2026-11-21T13:05:07.123Z", is_json=True),
}

OTHERS = [b"follow@", b"follow@.ndjson", b"follow.json", b"follow@-", b"follow@+1", b"follow@042", b"follow@-3x"]
OTHERS += [b"@42", b"follow@1.ndjson.ndjson", b"Follow", b"follower", b"", b".ndjson", b"follow@9223372036854775808"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_where_to_begin_and_in_which_form(name: bytes) -> None:
    assert parse_follow(name) == NAMES[name]
    assert name_of_stream(NAMES[name]) == name.decode()


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_mean_nothing(name: bytes) -> None:
    assert parse_follow(name) is None


def test_a_minus_alone_is_a_count_and_with_a_unit_a_time() -> None:
    assert (newest_count(b""), newest_count(b"-15"), newest_count(b"-15m"), newest_count(b"15")) == (0, 15, None, None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("-f values", True), ("-n1 -F values", True), ("-fn10 values", True), ("--follow=name values", True),
     ("-n 10 values", False), ("--pid=7 values", False), ("f", False), ("-c+5 values", False)],
)  # fmt: skip
def test_arguments_of_tail_that_wait_for_more(arguments: str, expected: bool) -> None:
    assert follows(arguments.encode().split()) is expected
