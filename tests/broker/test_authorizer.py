"""The authorizer: which ACL decides, as in Kafka's StandardAuthorizer."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.broker.authorization.authorizer import Authorizer, host_text
from offsetfs.broker.operations import Operation, Pattern, Permission, Resource
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


def test_thousands_of_acls_cost_microseconds() -> None:
    acls = [acl(Operation.READ, f"topic-{number}", principal=f"User:{number}") for number in range(5000)]
    acls += [acl(Operation.READ, f"p{number}-", pattern=Pattern.PREFIXED) for number in range(5000)]
    authorizer = Authorizer(image_of(acls))
    best = 1.0
    for number in range(50):
        start = time.perf_counter()
        authorizer.allows("User:7", HERE, Operation.READ, Resource.TOPIC, f"other-{number}")
        best = min(best, time.perf_counter() - start)
    assert best < 100e-6  # a walk over all of them takes milliseconds


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
        st.sampled_from(["*", HERE, "10.0.0.1"]),
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
    mine = [each for each in of_topic if each.principal in (principal, "User:*") and each.host in ("*", HERE)]
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
