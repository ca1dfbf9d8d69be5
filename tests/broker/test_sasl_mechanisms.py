"""The mechanisms of SASL: RFC 4616, 5802, 7677, and what Kafka's servers refuse."""

from __future__ import annotations

import base64
from collections import Counter

import pytest
from fixtures.security.scram_client import ScramClient

from offsetfs.common.security.scram_keys import ITERATIONS_MIN, ScramMechanism
from offsetfs.common.security.settings import login_module
from offsetfs.kafka.broker.sasl.exchange import OTHER_AUTHORIZATION_ID, LoginFailed
from offsetfs.kafka.broker.sasl.passwords import PlainExchange, ScramExchange
from offsetfs.kafka.broker.sasl.scram_credentials import UnknownUsers, credential_of
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.security import ScramCredential

pytestmark = pytest.mark.unit

SHA_256, SHA_512 = ScramMechanism
NAMES = ("alice", "a,b=c", "Zoë")
CREDENTIALS = {
    (mechanism, name): credential_of(mechanism, b"secret of " + name.encode(), ITERATIONS_MIN)
    for mechanism, name in [(SHA_256, NAMES[0]), (SHA_512, NAMES[0]), (SHA_256, NAMES[1]), (SHA_256, NAMES[2])]
}

STORED = {(name, mechanism.value): each for (mechanism, name), each in CREDENTIALS.items()}
UNKNOWN_USERS = UnknownUsers(bytes(32), lambda: STORED)


def find(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    return CREDENTIALS.get((mechanism, user))


def scram(mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, find, UNKNOWN_USERS)


# --- SCRAM -----------------------------------------------------------------------------------------------------------


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = credential_of(SHA_256, b"pencil", 4096, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    exchange = ScramExchange(SHA_256, lambda *_: stored, UNKNOWN_USERS)
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answer = exchange.respond(final + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (exchange.is_complete, exchange.user) == (True, "user")


@pytest.mark.parametrize("name", NAMES)
def test_a_user_logs_in(name: str) -> None:
    exchange, client = scram(), ScramClient(name, f"secret of {name}")
    answer = exchange.respond(client.final(exchange.respond(client.first())))
    assert (answer, exchange.is_complete, exchange.user) == (client.signature, True, name)


def test_a_user_logs_in_with_sha_512() -> None:
    exchange, client = scram(SHA_512), ScramClient("alice", "secret of alice", "sha512")
    assert exchange.respond(client.final(exchange.respond(client.first()))) == client.signature


@pytest.mark.parametrize(
    ("user", "reason"), [("alice", "wrong password"), ("bob", "unknown user")], ids=["password", "user"]
)
def test_a_wrong_password_and_an_unknown_user_fail_at_the_proof(user: str, reason: str) -> None:
    exchange, client = scram(), ScramClient(user, "wrong")
    first = exchange.respond(client.first())
    assert first.decode().endswith(f",i={ITERATIONS_MIN}")
    with pytest.raises(LoginFailed, match=reason) as failure:
        exchange.respond(client.final(first))
    assert (failure.value.message, exchange.is_complete) == (None, False)


def test_the_salt_of_an_unknown_user_stays_the_same() -> None:
    def salt(user: str) -> str:
        return scram().respond(ScramClient(user, "").first()).decode().split(",")[1]

    assert salt("bob") == salt("bob") != salt("carol")


def test_a_failed_exchange_takes_no_second_proof() -> None:
    exchange, client = scram(), ScramClient("alice", "wrong")
    first = exchange.respond(client.first())
    with pytest.raises(LoginFailed):
        exchange.respond(client.final(first))
    client.password = "secret of alice"
    with pytest.raises(LoginFailed):
        exchange.respond(client.final(first))
    with pytest.raises(LoginFailed):
        exchange.respond(client.first())


@pytest.mark.parametrize("nonce", ["rOprNGfwEbeRWgbNEkqO", "x", "{0}x"])
def test_the_nonce_is_compared_as_a_whole(nonce: str) -> None:
    exchange, client = scram(), ScramClient("alice", "secret of alice")
    first = exchange.respond(client.first())
    known = first.decode().split(",")[0].removeprefix("r=")
    with pytest.raises(LoginFailed, match="nonce"):
        exchange.respond(client.final(first, nonce=nonce.format(known)))


def test_the_nonce_of_the_client_twice_is_accepted() -> None:
    """As kcat with librdkafka before 2.8 sends it; its logins failed. Kafka accepts it as well."""
    exchange, client = scram(), ScramClient("alice", "secret of alice")
    first = exchange.respond(client.first())
    known = first.decode().split(",")[0].removeprefix("r=")
    assert exchange.respond(client.final(first, nonce=f"{client.nonce}{known}")) == client.signature


def test_the_suffix_of_the_nonce_does_not_suffice() -> None:
    exchange, client = scram(), ScramClient("alice", "secret of alice")
    first = exchange.respond(client.first())
    suffix = first.decode().split(",")[0].removeprefix(f"r={client.nonce}")
    with pytest.raises(LoginFailed, match="nonce"):
        exchange.respond(client.final(first, nonce=suffix))


def test_a_token_of_delegation_is_refused_and_other_extensions_have_no_effect() -> None:
    with pytest.raises(LoginFailed, match="tokenauth"):
        scram().respond(ScramClient("alice", "", extensions=",tokenauth=true").first())
    exchange, client = scram(), ScramClient("alice", "secret of alice", extensions=",other=1")
    assert exchange.respond(client.final(exchange.respond(client.first()))) == client.signature


def test_nobody_acts_for_another_user() -> None:
    with pytest.raises(LoginFailed) as failure:
        scram().respond(ScramClient("alice", "", header="n,a=bob,").first())
    assert failure.value.message == OTHER_AUTHORIZATION_ID
    exchange, client = scram(), ScramClient("alice", "secret of alice", header="n,a=alice,")
    assert exchange.respond(client.final(exchange.respond(client.first()))) == client.signature


def test_few_iterations_are_refused_as_a_wrong_password_is() -> None:
    weak = credential_of(SHA_256, b"x", 4095)
    exchange, client = ScramExchange(SHA_256, lambda *_: weak, UNKNOWN_USERS), ScramClient("alice", "x")
    final = client.final(exchange.respond(client.first()))
    with pytest.raises(LoginFailed, match="4095"):
        exchange.respond(final)


def seen(user: str, unknown_users: UnknownUsers, mechanism: ScramMechanism = SHA_256) -> tuple[bytes, int]:
    """Return the salt and the iterations that a client of an unknown user gets."""
    exchange = ScramExchange(mechanism, lambda *_: None, unknown_users)
    fields = dict(each.split(b"=", 1) for each in exchange.respond(ScramClient(user, "").first()).split(b","))
    return base64.b64decode(fields[b"s"]), int(fields[b"i"])


@pytest.mark.security(
    "Salt, iterations and time of a failed login do not tell whether a user exists, also after a restart."
)
def test_an_unknown_user_has_the_same_salt_after_a_restart() -> None:
    assert seen("bob", UnknownUsers(b"1" * 32, lambda: STORED)) == seen("bob", UnknownUsers(b"1" * 32, lambda: STORED))
    assert seen("bob", UnknownUsers(b"2" * 32, lambda: STORED)) != seen("bob", UnknownUsers(b"1" * 32, lambda: STORED))
    assert len({seen(name, UNKNOWN_USERS, each) for name in ("bob", "carl") for each in (SHA_256, SHA_512)}) == 4


NO_SUCH = ScramCredential(b"", b"", b"", 1 << 30)
"""Of a mechanism, or with a number of iterations, that no Kafka writes."""


def test_unknown_users_look_as_those_that_exist() -> None:
    """Iterations, and salts of the sizes and characters of the tools that have set the passwords, change with them."""
    stored = {("a", SHA_256.value): ScramCredential(b"1i9x" * 6, b"", b"", 8192)}
    unknown_users = UnknownUsers(bytes(32), lambda: stored)
    for number in range(20):
        salt, iterations = seen(f"user-{number}", unknown_users)
        assert (len(salt), iterations) == (24, 8192) and set(salt) <= set(b"0123456789abcdefghijklmnopqrstuvwxyz")
    stored = {
        ("a", SHA_256.value): ScramCredential(bytes(16), b"", b"", 16384),
        ("b", 3): NO_SUCH,
        ("c", 1): NO_SUCH,
    } | {(str(number), SHA_256.value): ScramCredential(bytes(32), b"", b"", 4096) for number in range(9)}
    found = [seen(f"user-{number}", unknown_users) for number in range(400)]
    counts = Counter((len(salt), iterations) for salt, iterations in found)
    assert set(counts) == {(16, 16384), (32, 4096)} and 15 < counts[16, 16384] < 80  # of 400, one in ten
    assert seen("bob", unknown_users, SHA_512)[1] == ITERATIONS_MIN  # no user has one


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=al=ice,r=x",
        b"\xff\xfe",
        b"n,,n=alice,r=x\n",
        b"\0",
    ],
)
def test_a_message_that_is_no_first_one_is_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        scram().respond(message)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws", b"c=biws,r={0},p=!", b"c=biws,r={0},p=AAAAA", b"c=eSws,r={0},p=AAAA"]
)
def test_a_message_that_is_no_last_one_is_refused(message: bytes) -> None:
    exchange = scram()
    nonce = exchange.respond(ScramClient("alice", "").first()).split(b",")[0].removeprefix(b"r=")
    with pytest.raises(LoginFailed):
        exchange.respond(message.replace(b"{0}", nonce))


@pytest.mark.parametrize("proof", [b"AAAA", b"=" * 44, base64.b64encode(bytes(64))])
def test_a_proof_of_another_size_is_refused(proof: bytes) -> None:
    exchange = scram()
    nonce = exchange.respond(ScramClient("alice", "").first()).split(b",")[0].removeprefix(b"r=")
    with pytest.raises(LoginFailed):
        exchange.respond(b"c=biws,r=" + nonce + b",p=" + proof)


# --- PLAIN -----------------------------------------------------------------------------------------------------------


def plain() -> PlainExchange:
    return PlainExchange({"carl": "in the file"}, find, UNKNOWN_USERS)


@pytest.mark.parametrize(
    "message",
    [b"\0carl\0in the file", b"carl\0carl\0in the file", b"\0alice\0secret of alice", b"\0a,b=c\0secret of a,b=c"],
)
def test_a_user_of_the_settings_or_of_the_store_logs_in_by_plain(message: bytes) -> None:
    exchange = plain()
    assert exchange.respond(message) == b""
    assert (exchange.is_complete, exchange.user) == (True, message.split(b"\0")[1].decode())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\0carl\0wrong", "wrong password"),
        (b"\0alice\0wrong", "wrong password"),
        (b"\0bob\0wrong", "unknown user"),
    ],
)
def test_a_wrong_login_by_plain_gets_the_text_of_kafka(message: bytes, reason: str) -> None:
    with pytest.raises(LoginFailed, match=reason) as failure:
        plain().respond(message)
    assert failure.value.message == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize("user", ["high", "low", "sha-256", "carl", "bob"])
def test_a_wrong_login_by_plain_costs_the_same_for_every_user(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Counter[str]()

    def count(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        work[name] += iterations
        return bytes(64)

    monkeypatch.setattr("hashlib.pbkdf2_hmac", count)
    stored = {
        ("high", SHA_512.value): ScramCredential(b"", b"", b"", 16384),
        ("low", SHA_512.value): ScramCredential(b"", b"", b"", 4096),
        ("sha-256", SHA_256.value): ScramCredential(b"", b"", b"", 8192),
    }
    exchange = PlainExchange(
        {"carl": "x"}, lambda mechanism, name: stored.get((name, mechanism.value)), UnknownUsers(b"", lambda: stored)
    )
    with pytest.raises(LoginFailed):
        exchange.respond(b"\0" + user.encode() + b"\0wrong")
    assert work == {"sha512": 16384, "sha256": 8192}


@pytest.mark.parametrize(
    "message", [b"", b"carl", b"\0carl\0", b"\0\0x", b"\0carl\0in the file\0", b"\0c\xff\0x", b"\0\0\0\0"]
)
def test_a_malformed_message_of_plain_is_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        plain().respond(message)


def test_nobody_acts_for_another_user_by_plain() -> None:
    with pytest.raises(LoginFailed) as failure:
        plain().respond(b"alice\0carl\0in the file")
    assert failure.value.message == OTHER_AUTHORIZATION_ID


# --- JAAS ------------------------------------------------------------------------------------------------------------


def test_users_of_a_jaas_configuration() -> None:
    found = login_module(
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b"\n'
        '   user_alice="a \\"quoted\\" = ;secret" user_bob=plain;'
    )
    assert found.name.endswith("PlainLoginModule")
    assert found.passwords == {"alice": 'a "quoted" = ;secret', "bob": "plain"}
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "text", ["", "x", "x required", 'x required a="secret"', "x needed;", "x required a=;", "x required; y required;"]
)
def test_a_wrong_jaas_configuration_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(InvalidConfig) as failure:
        login_module(text)
    assert "secret" not in str(failure.value)
