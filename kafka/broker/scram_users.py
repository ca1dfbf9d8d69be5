"""Users with passwords: DescribeUserScramCredentials, AlterUserScramCredentials; logins where none is expected.

A client computes the salted password, so that the broker does not see the password. Codes and texts are those of
Kafka's ScramControlManager and ScramImage.
"""

from __future__ import annotations

from functools import partial

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import (
    INLINE_ENTRIES_MAX,
    RECORDS_MAX,
    TOO_MANY_RECORDS,
    Rejected,
    answer,
    completed,
    repeated,
)
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import RemoveUserScramCredentialRecord
from offsetfs.storage import security
from offsetfs.storage.security import SecurityImage, SecurityStore

_SALT_BYTES_MAX = 1 << 10

_Change = m.ScramCredentialDeletion | m.ScramCredentialUpsertion


async def refuse_handshake(request: m.SaslHandshakeRequest, version: int) -> m.SaslHandshakeResponse:
    """Answer a client that begins a login where it may not: without SASL, or after its login."""
    return m.SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


async def refuse_authentication(request: m.SaslAuthenticateRequest, version: int) -> m.SaslAuthenticateResponse:
    """Refuse a request after the login. See `refuse_handshake`."""
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
        image = self._store.image
        work = partial(_infos, image)
        infos = work() if len(image.credentials) <= INLINE_ENTRIES_MAX else await in_thread(work)
        asked = [user.name for user in request.users or ()]
        twice, names = repeated(asked), list(dict.fromkeys(asked)) or list(infos)
        response, slices = m.DescribeUserScramCredentialsResponse(error_message=None), Slices()
        for name in names:
            await slices.step()
            response.results.append(_described(name, infos.get(name), is_repeated=name in twice))
        return response

    # --- changing ----------------------------------------------------------------------------------------------------

    async def alter(
        self, request: m.AlterUserScramCredentialsRequest, version: int
    ) -> m.AlterUserScramCredentialsResponse:
        """Set and remove credentials: those of a user all, or none. What is right is stored at once."""
        by_name: dict[str, list[_Change]] = {}
        if len(request.deletions) + len(request.upsertions) > RECORDS_MAX:
            return await _refused(request)
        for change in _changes(request):
            by_name.setdefault(change.name, []).append(change)
        response, records, slices = m.AlterUserScramCredentialsResponse(), list[ProtocolMessage](), Slices()
        for name, changes in by_name.items():
            await slices.step()
            result = m.AlterUserScramCredentialsResult(name, 0, None)
            response.results.append(result)
            await answer(result, partial(self._check, changes, records))
        right = [result for result in response.results if not result.error_code]
        if right:
            await self._store_all(records, right)
        return response

    async def _check(self, changes: list[_Change], records: list[ProtocolMessage]) -> None:
        """Add the records of a user's changes to `records`; Rejected, StorageError."""
        changed = [self._record(change) for change in changes]
        if repeated(change.mechanism for change in changes):
            text = "A user credential cannot be altered twice in the same request"
            raise Rejected(ErrorCode.DUPLICATE_RESOURCE, text)
        for record in changed:
            self._store.check_own(record)
        records += changed

    async def _store_all(
        self, records: list[ProtocolMessage], results: list[m.AlterUserScramCredentialsResult]
    ) -> None:
        await answer(results[0], partial(completed, self._store.change, records))
        for result in results[1:]:
            result.error_code, result.error_message = results[0].error_code, results[0].error_message

    def _record(self, change: _Change) -> ProtocolMessage:
        """Return the record of a change; Rejected."""
        # Imported here, because a broker without users does without it.
        from offsetfs.common.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
        from offsetfs.kafka.broker.sasl.scram_credentials import NAME_BYTES_MAX, credential_of_salted

        if not change.name:
            raise Rejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty.")
        if change.mechanism not in [known.value for known in ScramMechanism]:
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
        credential = credential_of_salted(mechanism, salted, salt, change.iterations)
        return security.credential_record(change.name, change.mechanism, credential)


def _infos(image: SecurityImage) -> dict[str, list[m.CredentialInfo]]:
    """Return the credentials of all users, by name."""
    infos: dict[str, list[m.CredentialInfo]] = {}
    for (name, mechanism), credential in sorted(image.credentials.items()):
        infos.setdefault(name, []).append(m.CredentialInfo(mechanism, credential.iterations))
    return infos


def _changes(request: m.AlterUserScramCredentialsRequest) -> list[_Change]:
    return [*request.deletions, *request.upsertions]


async def _refused(request: m.AlterUserScramCredentialsRequest) -> m.AlterUserScramCredentialsResponse:
    """Return the response to a request with too many changes: each costs a computation, and memory for good."""
    response, slices = m.AlterUserScramCredentialsResponse(), Slices()
    for name in dict.fromkeys(change.name for change in _changes(request)):
        await slices.step()
        result = m.AlterUserScramCredentialsResult(name, ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
        response.results.append(result)
    return response


def _described(
    name: str, infos: list[m.CredentialInfo] | None, *, is_repeated: bool
) -> m.DescribeUserScramCredentialsResult:
    if is_repeated:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return m.DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, text)
    if infos is None:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return m.DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, text)
    return m.DescribeUserScramCredentialsResult(name, 0, None, infos)
