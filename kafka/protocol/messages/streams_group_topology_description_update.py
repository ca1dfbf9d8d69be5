"""The messages of StreamsGroupTopologyDescriptionUpdate. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode(ProtocolMessage):
    __slots__ = ("name", "node_type", "sink_topic", "source_topics", "stores", "successors")

    def __init__(
        self,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] = NEW,
        sink_topic: str | None = None,
        stores: list[str] = NEW,
        successors: list[str] = NEW,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics = [] if source_topics is NEW else source_topics
        self.sink_topic = sink_topic
        self.stores = [] if stores is NEW else stores
        self.successors = [] if successors is NEW else successors


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology(ProtocolMessage):
    __slots__ = ("nodes", "subtopology_id")

    def __init__(
        self,
        subtopology_id: str = "",
        nodes: list[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.nodes = [] if nodes is NEW else nodes


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore(ProtocolMessage):
    __slots__ = ("processor", "source")

    def __init__(
        self,
        source: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode = NEW,
        processor: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode = NEW,
    ) -> None:
        self.source = StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode() if source is NEW else source
        self.processor = (
            StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode() if processor is NEW else processor
        )


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription(ProtocolMessage):
    __slots__ = ("global_stores", "subtopologies")

    def __init__(
        self,
        subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology] = NEW,
        global_stores: list[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore] = NEW,
    ) -> None:
        self.subtopologies = [] if subtopologies is NEW else subtopologies
        self.global_stores = [] if global_stores is NEW else global_stores


class StreamsGroupTopologyDescriptionUpdateRequest(ProtocolMessage):
    __slots__ = ("group_id", "member_id", "topology_description", "topology_epoch")

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        topology_epoch: int = 0,
        topology_description: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topology_epoch = topology_epoch
        self.topology_description = (
            StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription()
            if topology_description is NEW
            else topology_description
        )


class StreamsGroupTopologyDescriptionUpdateResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
