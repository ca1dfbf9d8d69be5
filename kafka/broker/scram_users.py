"""Users with passwords: DescribeUserScramCredentials, AlterUserScramCredentials; logins where none is expected.

A client computes the salted password, so that the broker does not see the password. Codes and texts are those of
Kafka's ScramControlManager and ScramImage.
"""

from __future__ import annotations

from functools import partial

from offsetfs.kafka.broker.topics.admin_results import Rejected, answer, completed, repeated
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import RemoveUserScramCredentialRecord
from offsetfs.storage import security
from offsetfs.storage.security import SecurityStore

_SALT_BYTES_MAX = 1 << 10


async def refuse_handshake(request: m.SaslHandshakeRequest, version: int) -> m.SaslHandshakeResponse:
    """Answer a client that begins a login where it may not: without SASL, or after its login."""
    return m.SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


async def refuse_authentication(request: m.SaslAuthenticateRequest, version: int) -> m.SaslAuthenticateResponse:
    """As `refuse_handshake`."""
    text = "SaslAuthenticate request received after successful authentication"
    return m.SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text)


class ScramUsers:
    """Shows and changes the SCRAM credentials of users."""

    def __init__(self, store: SecurityStore) -> None:
        self._store = store

    # --- reading -----------------------------------------------------------------------------------------------------

    async def describe(
        self, request: m.DescribeUserScramCredentialsRequest, version: int
    ) -> m.DescribeUserScramCredentialsResponse:
        """Return mechanisms and iterations of users, or of all."""
        found: dict[str, list[m.CredentialInfo]] = {}
        for (name, mechanism), each in sorted(self._store.image.credentials.items()):
            found.setdefault(name, []).append(m.CredentialInfo(mechanism, each.iterations))
        asked = [each.name for each in request.users or ()]
        twice, names = repeated(asked), list(dict.fromkeys(asked)) or list(found)
        results = [_described(name, found.get(name), is_repeated=name in twice) for name in names]
        return m.DescribeUserScramCredentialsResponse(error_message=None, results=results)

    # --- changing ----------------------------------------------------------------------------------------------------

    async def alter(
        self, request: m.AlterUserScramCredentialsRequest, version: int
    ) -> m.AlterUserScramCredentialsResponse:
        """Set and remove credentials: those of a user all, or none."""
        twice = {name for name, _ in repeated((each.name, each.mechanism) for each in _changes(request))}
        results = []
        for name in dict.fromkeys(each.name for each in _changes(request)):
            result = m.AlterUserScramCredentialsResult(name, 0, None)
            results.append(result)
            changes = [each for each in _changes(request) if each.name == name]
            await answer(result, partial(self._alter, name, changes, is_repeated=name in twice))
        return m.AlterUserScramCredentialsResponse(results=results)

    async def _alter(
        self, name: str, changes: list[m.ScramCredentialDeletion | m.ScramCredentialUpsertion], *, is_repeated: bool
    ) -> None:
        records = [self._record(each) for each in changes]
        if is_repeated:
            text = "A user credential cannot be altered twice in the same request"
            raise Rejected(ErrorCode.DUPLICATE_RESOURCE, text)
        await completed(self._store.change, records)

    def _record(self, change: m.ScramCredentialDeletion | m.ScramCredentialUpsertion) -> ProtocolMessage:
        """Return the record of a change; Rejected."""
        # Imported here, because a broker without users does without it.
        from offsetfs.common.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
        from offsetfs.kafka.broker.sasl.scram_credentials import NAME_BYTES_MAX, credential_of_salted

        if not change.name:
            raise Rejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty.")
        if change.mechanism not in [each.value for each in ScramMechanism]:
            raise Rejected(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(change, m.ScramCredentialDeletion):
            if (change.name, change.mechanism) not in self._store.image.credentials:
                text = "Attempt to delete a user credential that does not exist"
                raise Rejected(ErrorCode.RESOURCE_NOT_FOUND, text)
            return RemoveUserScramCredentialRecord(change.name, change.mechanism)
        if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
            text = "Too few iterations" if change.iterations < ITERATIONS_MIN else "Too many iterations"
            raise Rejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
        mechanism, salt, salted = ScramMechanism(change.mechanism), bytes(change.salt), bytes(change.salted_password)
        is_possible = len(salted) == mechanism.key_bytes and 0 < len(salt) <= _SALT_BYTES_MAX
        if not is_possible or len(change.name.encode()) > NAME_BYTES_MAX:
            raise Rejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Name, salt or salted password has an impossible length")
        found = credential_of_salted(mechanism, salted, salt, change.iterations)
        return security.credential_record(change.name, change.mechanism, found)


def _changes(
    request: m.AlterUserScramCredentialsRequest,
) -> list[m.ScramCredentialDeletion | m.ScramCredentialUpsertion]:
    return [*request.deletions, *request.upsertions]


def _described(
    name: str, found: list[m.CredentialInfo] | None, *, is_repeated: bool
) -> m.DescribeUserScramCredentialsResult:
    if is_repeated:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return m.DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, text)
    if found is None:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return m.DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, text)
    return m.DescribeUserScramCredentialsResult(name, 0, None, found)
