"""The name of a principal from the subject of a certificate, as Kafka's SslPrincipalMapper makes it."""

from __future__ import annotations

import pytest

from offsetfs.kafka.broker.tls.tls_settings import PrincipalRules

pytestmark = pytest.mark.unit

ALICE = "CN=Alice,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", ALICE),
        ("", ALICE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", "ALICE@SERVICEUSERS"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/ , RULE:^CN=([^,]*).*$/user-$1/L,DEFAULT", "user-alice"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/,DEFAULT", ALICE),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/", None),
        (r"RULE:^.*CN=(\w+).*$/a\/$1/", "a/Alice"),
        ("RULE:CN=Alice/x/", None),
        ("RULE:.+/$7/", "$7"),
    ],
)
def test_the_first_rule_that_applies_names_the_client(rules: str, expected: str | None) -> None:
    assert PrincipalRules.parse(rules).name(ALICE) == expected


def test_a_rule_and_a_subject_that_backtrack_without_end_are_compared() -> None:
    rules = PrincipalRules.parse("RULE:^CN=((a|aa)+)+b$/$1/,DEFAULT")
    assert rules.name("CN=" + "a" * 200) == "CN=" + "a" * 200


@pytest.mark.parametrize("rules", ["RULE:^CN=(.*)/$1", "Rule:a/b/", "RULE:a/b/X", "RULE:(/b/", "x,DEFAULT"])
def test_what_is_no_rule_is_named(rules: str) -> None:
    with pytest.raises(ValueError, match=r"is not a rule; write RULE:|cannot be used: missing \)"):
        PrincipalRules.parse(rules)
