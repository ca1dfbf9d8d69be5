"""The authorizer: which ACL decides, as in Kafka's StandardAuthorizer."""

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.kafka.broker.authorization.acls import host_text
from offsetfs.kafka.broker.authorization.authorizer import Authorizer
from offsetfs.kafka.broker.operations import Operation, Pattern, Permission, Resource
from offsetfs.storage.cluster.security_image import UNREADABLE_ACL
from offsetfs.storage.security import Acl, SecurityImage

pytestmark = pytest.mark.unit

HERE = "127.0.0.1"
ALICE, BOB = "User:alice", "User:bob"


def image_of(acls: Sequence[Acl]) -> SecurityImage:
    return SecurityImage({}, {number.to_bytes(16, "big"): acl for number, acl in enumerate(acls)})


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: Pattern = Pattern.LITERAL,
    permission: Permission = Permission.ALLOW,
    kind: Resource = Resource.TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def allows(acls: Sequence[Acl], operation: Operation, name: str = "orders", *, principal: str = ALICE) -> bool:
    return Authorizer(image_of(acls)).allows(principal, HERE, operation, Resource.TOPIC, name)


def test_nothing_is_allowed_without_an_acl() -> None:
    assert not allows([], Operation.READ)


def test_an_acl_is_for_its_principal_its_host_and_its_resource() -> None:
    read = Operation.READ
    assert allows([acl(read)], read) and not allows([acl(read)], read, principal=BOB)
    assert allows([acl(read, principal="User:*")], read, principal=BOB)
    assert allows([acl(read, host=HERE)], read) and not allows([acl(read, host="10.0.0.1")], read)
    assert not allows([acl(read)], read, "orders-2") and allows([acl(read, "*")], read, "anything")
    assert not allows([acl(read, kind=Resource.GROUP)], read)


@pytest.mark.security("An ACL that denies has precedence over every ACL that allows, except for super users.")
def test_deny_is_first() -> None:
    deny = acl(Operation.ALL, "ord", pattern=Pattern.PREFIXED, principal="User:*", permission=Permission.DENY)
    for order in ([acl(Operation.READ), deny], [deny, acl(Operation.READ)]):
        assert not allows(order, Operation.READ)
        assert Authorizer(image_of(order), {ALICE}).allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders")
    assert not Authorizer(image_of([deny]), {ALICE}).allows(BOB, HERE, Operation.READ, Resource.TOPIC, "orders")


def test_a_prefix_is_for_all_names_that_begin_with_it() -> None:
    prefixed = [acl(Operation.READ, "or", pattern=Pattern.PREFIXED)]
    assert all(allows(prefixed, Operation.READ, name) for name in ("or", "orders"))
    assert not any(allows(prefixed, Operation.READ, name) for name in ("o", "xor", "*"))


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_who_may_change_or_read_may_describe(operation: Operation) -> None:
    assert allows([acl(operation)], Operation.DESCRIBE)
    assert not allows([acl(operation)], Operation.DESCRIBE_CONFIGS)
    denied = acl(operation, permission=Permission.DENY)
    assert allows([denied, acl(Operation.DESCRIBE)], Operation.DESCRIBE)  # it denies nothing else


def test_who_may_alter_settings_may_describe_them() -> None:
    assert allows([acl(Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS)
    assert not allows([acl(Operation.ALTER_CONFIGS)], Operation.DESCRIBE)


def test_the_setting_counts_for_resources_without_any_acl() -> None:
    open_to_all = Authorizer(image_of([acl(Operation.READ)]), allows_without_acl=True)
    assert not open_to_all.allows(BOB, HERE, Operation.READ, Resource.TOPIC, "orders")
    assert open_to_all.allows(BOB, HERE, Operation.READ, Resource.TOPIC, "other")


def test_a_change_of_acls_has_effect_at_once() -> None:
    authorizer = Authorizer(image_of([]))
    assert not authorizer.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders")
    authorizer.update(image_of([acl(Operation.READ)]))
    assert authorizer.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders")
    authorizer.update(image_of([]))
    assert not authorizer.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders")


def test_an_address_has_one_text() -> None:
    assert host_text("0:0:0:0:0:0:0:1") == host_text("::1") == "::1"
    assert host_text("::ffff:10.0.0.1") == "10.0.0.1" and host_text("*") == "*"
    authorizer = Authorizer(image_of([acl(Operation.READ, host="0:0:0:0:0:0:0:1")]))
    assert authorizer.allows(ALICE, "::1", Operation.READ, Resource.TOPIC, "orders")


# --- hosts (KIP-1276) ------------------------------------------------------------------------------------------------


def allows_from(client: str, acls: Sequence[Acl]) -> bool:
    return Authorizer(image_of(acls)).allows(ALICE, client, Operation.READ, Resource.TOPIC, "orders")


def test_a_range_of_addresses_is_compared_as_kafka_4_4_compares_it() -> None:
    for host, within, without in [
        ("10.0.0.0/8", "10.200.3.4", "11.0.0.1"),
        ("10.1.2.3/8", "10.200.3.4", "11.0.0.1"),  # the bits behind the range are not looked at
        ("010.0.0.0/8", "10.0.0.0", "8.0.0.1"),  # decimal
        ("10.0.0.7/32", "10.0.0.7", "10.0.0.8"),
        ("10.0.0.6/31", "10.0.0.6", "10.0.0.8"),
        ("0.0.0.0/0", "255.255.255.255", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
        ("2001:0DB8:0::/032", "2001:db8::", "10.0.0.1"),
        ("fe80::/10", "fe80::1%eth0", "fec0::1"),
        ("::/0", "2001:db8::1", "10.0.0.1"),
    ]:
        allow, deny = acl(Operation.READ, host=host), acl(Operation.READ, host=host, permission=Permission.DENY)
        everybody = acl(Operation.READ)
        assert allows_from(within, [allow]) and not allows_from(without, [allow]), host
        assert not allows_from(within, [everybody, deny]) and allows_from(without, [everybody, deny]), host
        any_of = Authorizer(image_of([allow]))
        assert any_of.allows_on_any(ALICE, within, Operation.READ, Resource.TOPIC), host
        assert not any_of.allows_on_any(ALICE, without, Operation.READ, Resource.TOPIC), host


UNCLEAR_HOSTS = [
    "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0/8", "300.0.0.0/8", "10.0.0.0/8/8", "10.0.0.0/", "/8",
    " 10.0.0.0/8", "2001:db8::/129", "2001:db8::/x", "::ffff:10.0.0.0/104", "fe80::1%eth0/64", "2001:db8:/32",
    "10.0.0.0/255.0.0.0", "10.0.0.1-10.0.0.9", "10.0.0.*", "build.example.com",
    "localhost", "", "10.0.0.0/8\n", "\uff11\uff10.0.0.0/8",
]  # fmt: skip


def unclear_acls(permission: Permission) -> list[Acl]:
    right = acl(Operation.READ, permission=permission)
    found = [replace(right, host=host) for host in UNCLEAR_HOSTS]
    found += [replace(right, resource_type=kind) for kind in (-1, 0, 1, 8, 127)]
    found += [replace(right, pattern_type=pattern) for pattern in (-1, 0, 1, 2, 5, 127)]
    found += [replace(right, principal=principal) for principal in ("", "alice", "*")]
    found += [replace(right, operation=operation) for operation in (-1, 0, 1, 16, 127)]
    return found


@pytest.mark.expect_log("cannot be understood")
@pytest.mark.security(
    "An ACL that cannot be understood allows nothing, and denies all that it could mean if it denies."
)
def test_an_acl_that_cannot_be_understood_denies() -> None:
    everything = acl(Operation.ALL, "*")
    for each in unclear_acls(Permission.DENY):
        assert not allows_from(HERE, [everything, each]), each
    for each in unclear_acls(Permission.ALLOW):
        assert not allows_from(HERE, [each]), each
        assert not Authorizer(image_of([each])).allows_on_any(ALICE, HERE, Operation.READ, Resource.TOPIC), each
        assert allows_from(HERE, [everything, each]), each  # it takes nothing away
        is_open = Authorizer(image_of([each]), allows_without_acl=True)
        assert not is_open.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders"), each
    for permission in (-1, 0, 1, 4, 127):
        each = Acl(Resource.TOPIC, "orders", Pattern.LITERAL, ALICE, "*", Operation.READ, permission)
        assert not allows_from(HERE, [everything, each]), each


@pytest.mark.expect_log("cannot be understood")
def test_a_record_of_an_acl_that_cannot_be_read_denies_everything() -> None:
    authorizer = Authorizer(image_of([acl(Operation.ALL, "*")]), {BOB})
    authorizer.update(image_of([acl(Operation.ALL, "*"), UNREADABLE_ACL]))
    assert not authorizer.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders")
    assert authorizer.allows(BOB, HERE, Operation.READ, Resource.TOPIC, "orders")  # a super user


@pytest.mark.expect_log("cannot be understood")
def test_an_acl_that_cannot_be_understood_denies_nothing_else() -> None:
    everything = acl(Operation.ALL, "*", principal="User:*")
    deny = acl(Operation.READ, host="build.example.com", permission=Permission.DENY)
    authorizer = Authorizer(image_of([everything, deny]))
    assert authorizer.allows(ALICE, HERE, Operation.WRITE, Resource.TOPIC, "orders")
    assert authorizer.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "other")
    assert authorizer.allows(BOB, HERE, Operation.READ, Resource.TOPIC, "orders")
    assert not authorizer.allows(ALICE, HERE, Operation.READ, Resource.TOPIC, "orders")


@pytest.mark.expect_log("cannot be understood")
def test_each_acl_that_cannot_be_understood_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    unclear = image_of([acl(Operation.READ, host="build.example.com", permission=Permission.DENY)])
    Authorizer(unclear).update(unclear)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "an ACL cannot be understood, and denies all that it could mean"
    ]


def test_thousands_of_acls_cost_microseconds() -> None:
    acls = [acl(Operation.READ, f"topic-{number}", principal=f"User:{number}") for number in range(5000)]
    acls += [acl(Operation.READ, f"p{number}-", pattern=Pattern.PREFIXED) for number in range(5000)]
    authorizer = Authorizer(image_of(acls))
    best = 1.0
    for number in range(50):
        start = time.thread_time()
        authorizer.allows("User:7", HERE, Operation.READ, Resource.TOPIC, f"other-{number}")
        best = min(best, time.thread_time() - start)
    assert best < 500e-6  # some 20 µs; a walk over all of them takes milliseconds


# --- any resource ----------------------------------------------------------------------------------------------------


def on_any(acls: Sequence[Acl]) -> bool:
    return Authorizer(image_of(acls)).allows_on_any(ALICE, HERE, Operation.WRITE, Resource.TOPIC)


def test_an_acl_for_one_resource_is_enough_unless_it_is_denied() -> None:
    write, deny = Operation.WRITE, Permission.DENY
    assert not on_any([]) and on_any([acl(write)]) and on_any([acl(Operation.ALL, "x", pattern=Pattern.PREFIXED)])
    assert not on_any([acl(Operation.READ)]) and not on_any([acl(write, principal=BOB)])
    assert not on_any([acl(write), acl(write, permission=deny)])
    assert not on_any([acl(write), acl(write, "or", pattern=Pattern.PREFIXED, permission=deny)])
    assert on_any([acl(write), acl(write, "x", pattern=Pattern.PREFIXED, permission=deny)])
    assert not on_any([acl(write), acl(write, "*", permission=deny)])


# --- a naive reference -----------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
ACLS = st.lists(
    st.builds(
        Acl,
        st.sampled_from([Resource.TOPIC, Resource.GROUP]),
        NAMES,
        st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
        st.sampled_from([ALICE, BOB, "User:*"]),
        st.sampled_from(["*", HERE, "10.0.0.1", "127.0.0.0/8", "10.0.0.0/8"]),
        st.sampled_from(list(Operation)[1:]),
        st.sampled_from([Permission.DENY, Permission.ALLOW]),
    ),
    max_size=6,
)


def naive(acls: Sequence[Acl], principal: str, operation: Operation, name: str, *, is_open: bool) -> bool:
    """The rules as Kafka's documentation has them, without an index."""
    implied = {Operation.DESCRIBE: {3, 4, 6, 7, 8}, Operation.DESCRIBE_CONFIGS: {10, 11}}
    of_topic = [
        each
        for each in acls
        if each.resource_type == Resource.TOPIC
        and (
            name.startswith(each.resource_name)
            if each.pattern_type == Pattern.PREFIXED
            else each.resource_name in (name, "*")
        )
    ]
    if not of_topic:
        return is_open
    mine = [
        each for each in of_topic if each.principal in (principal, "User:*") and each.host in ("*", HERE, "127.0.0.0/8")
    ]
    if any(each.permission == Permission.DENY and each.operation in (operation, Operation.ALL) for each in mine):
        return False
    enough = {*implied.get(operation, {operation}), Operation.ALL}
    return any(each.permission == Permission.ALLOW and each.operation in enough for each in mine)


@settings(deadline=None, max_examples=200)
@given(
    ACLS,
    st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.sampled_from(list(Operation)[2:]), NAMES), max_size=5),
    st.booleans(),
)
def test_the_index_decides_as_a_walk_over_all_acls(
    acls: list[Acl], checks: list[tuple[str, Operation, str]], is_open: bool
) -> None:
    authorizer = Authorizer(image_of(acls), allows_without_acl=is_open)
    for principal, operation, name in [*checks, *checks]:  # the second time from the kept answers
        expected = naive(acls, principal, operation, name, is_open=is_open)
        assert authorizer.allows(principal, HERE, operation, Resource.TOPIC, name) == expected
