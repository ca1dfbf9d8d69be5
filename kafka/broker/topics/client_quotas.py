"""DescribeClientQuotas: there are none. kafka-configs.sh asks for those of the users that it shows.

Wrong filters have the codes of Kafka's ClientQuotasImage.
"""

from __future__ import annotations

from offsetfs.kafka.broker.topics.admin_results import Rejected, repeated
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

_USER, _CLIENT, _IP = "user", "client-id", "ip"
_COMPONENTS_MAX = 4
_EXACT, _DEFAULT, _ANY = range(3)
"""How a component of a filter matches. Kafka: `DescribeClientQuotasRequest`."""


async def describe_client_quotas(
    request: m.DescribeClientQuotasRequest, version: int
) -> m.DescribeClientQuotasResponse:
    """Return that there are no quotas, or what is wrong with the filter."""
    try:
        _check(request.components)
    except Rejected as error:
        return m.DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    return m.DescribeClientQuotasResponse(error_message=None)


def _check(components: list[m.ComponentData]) -> None:
    """Check the filter of a request; Rejected."""
    first = components[:_COMPONENTS_MAX]  # of more than there are types, one occurs twice or is not known
    types = [each.entity_type for each in first]
    twice = repeated(types)
    for each in first:
        if not each.entity_type:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if each.entity_type in twice:
            reason = f"Entity type {each.entity_type} cannot appear more than once in the filter."
            raise Rejected(ErrorCode.INVALID_REQUEST, reason)
        if each.entity_type not in (_USER, _CLIENT, _IP):
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {each.entity_type}.")
        if each.match_type not in (_EXACT, _DEFAULT, _ANY) or (each.match is None) == (each.match_type == _EXACT):
            raise Rejected(ErrorCode.INVALID_REQUEST, f"match type {each.match_type} with the match {each.match!r}")
    if _IP in types and len(types) > 1:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Invalid entity filter component combination")
