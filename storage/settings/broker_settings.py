"""A broker's settings, as in `server.properties`, and their meaning here.

    log.retention.hours=24, log.retention.ms=1000   →   retention.ms=1000      a default of topics
    log.cleaner.threads=2                           →   the directory's (`directory_config`)
    num.network.threads=8                           →   known, without effect here

If several names set one topic setting, Kafka's order decides: milliseconds before minutes before hours, whatever their
order in the file. A name that Kafka does not have is an error. Follows ServerTopicConfigSynonyms, KafkaConfig and
AbstractKafkaConfig of Kafka 4.1, and the names of earlier versions.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import config
from offsetfs.storage.settings.config_values import IntegerType, printable
from offsetfs.storage.settings.directory_config import DIRECTORY_SETTING_NAMES, DirectoryConfig
from offsetfs.storage.units import I32_MAX, I32_MIN, I64_MAX, I64_MIN

METADATA_LOG_DIR = "metadata.log.dir"
LOG_DIRS = ("log.dirs", "log.dir")

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "preallocate": (("log.preallocate", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "retention.bytes": (("log.retention.bytes", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.difference.max.ms": (("log.message.timestamp.difference.max.ms", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "message.format.version": (("log.message.format.version", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "remote.copy.lag.ms": (("log.remote.copy.lag.ms", 1),),
    "remote.copy.lag.bytes": (("log.remote.copy.lag.bytes", 1),),
    "max.decompressed.message.bytes": (("max.decompressed.message.bytes", 1),),
}
"""The broker's names of each topic setting, by precedence, with their unit in that of the topic setting."""

_TOPIC_SETTING = {name: (topic, unit) for topic, names in _SYNONYMS.items() for name, unit in names}

BROKER_SETTING_NAMES = tuple(dict.fromkeys((*_TOPIC_SETTING, *DIRECTORY_SETTING_NAMES, METADATA_LOG_DIR)))
"""The broker's settings that are known here with their values, by Kafka's name."""

_OTHER_NAMES = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms advertised.host.name
    advertised.listeners advertised.port allow.everyone.if.no.acl.found alter.config.policy.class.name
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    authorizer.class.name auto.create.topics.enable auto.include.jmx.reporter auto.leader.rebalance.enable
    background.threads broker.heartbeat.interval.ms broker.id broker.id.generation.enable broker.rack
    broker.session.timeout.ms client.quota.callback.class config.providers connection.failed.authentication.delay.ms
    connections.max.idle.ms connections.max.reauth.ms control.plane.listener.name controlled.shutdown.enable
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms controller.listener.names
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
    controller.quota.window.size.seconds controller.socket.timeout.ms cordoned.log.dirs create.topic.policy.class.name
    default.replication.factor delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
    delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests delete.topic.enable early.start.listeners
    eligible.leader.replicas.enable errors.deadletterqueue.auto.create.topics.enable
    errors.deadletterqueue.topic.name.prefix fetch.max.bytes fetch.purgatory.purge.interval.requests
    follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
    group.consumer.assignor.offload.enable group.consumer.assignors group.consumer.heartbeat.interval.ms
    group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
    group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
    group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.min.session.timeout.ms group.consumer.regex.refresh.interval.ms group.consumer.session.timeout.ms
    group.coordinator.append.linger.ms group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
    group.coordinator.new.enable group.coordinator.rebalance.protocols group.coordinator.threads
    group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size group.min.session.timeout.ms
    group.share.assignment.interval.ms group.share.assignor.offload.enable group.share.assignors
    group.share.delivery.count.limit group.share.dlq.manager.class.name group.share.enable
    group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
    group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
    group.share.min.assignment.interval.ms group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks group.share.persister.class.name
    group.share.record.lock.duration.ms group.share.session.timeout.ms group.streams.acceptable.recovery.lag
    group.streams.assignment.interval.ms group.streams.assignor.offload.enable group.streams.assignors
    group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
    group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
    group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms group.streams.num.standby.replicas
    group.streams.num.warmup.replicas group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
    group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class host.name
    initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes internal.metadata.max.fetch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters leader.imbalance.check.interval.seconds
    leader.imbalance.per.broker.percentage listener.security.protocol.map listeners log.cleaner.io.buffer.size log.dir
    log.dir.failure.timeout.ms log.dirs log.message.downconversion.enable max.connection.creation.rate max.connections
    max.connections.per.ip max.connections.per.ip.overrides max.incremental.fetch.session.cache.slots
    max.request.partition.size.limit metadata.log.max.record.bytes.between.snapshots
    metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms
    metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms metadata.migration.brokers
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms node.id num.io.threads
    num.network.threads num.partitions num.replica.alter.log.dirs.threads num.replica.fetchers
    offset.metadata.max.bytes offsets.commit.timeout.ms offsets.load.buffer.size offsets.retention.check.interval.ms
    offsets.retention.minutes offsets.topic.compression.codec offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes port principal.builder.class process.roles
    producer.id.quota.manager.cache.expiration.ms producer.purgatory.purge.interval.requests queued.max.request.bytes
    queued.max.requests quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
    remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
    replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
    replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
    replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms reserved.broker.max.id security.inter.broker.protocol
    security.providers server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
    socket.receive.buffer.bytes socket.request.max.bytes socket.send.buffer.bytes super.users telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.state.log.min.isr transaction.state.log.num.partitions
    transaction.state.log.replication.factor transaction.state.log.segment.bytes transaction.two.phase.commit.enable
    transactional.id.expiration.ms unclean.leader.election.interval.ms unstable.api.versions.enable
    unstable.feature.versions.enable
"""
_WITHOUT_EFFECT = frozenset(_OTHER_NAMES.split())
_WITHOUT_EFFECT_PREFIXES = (
    "config.providers.",
    "listener.name.",
    "metrics.",
    "password.encoder.",
    "remote.log.metadata.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "ssl.",
    "zookeeper.",
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A broker's settings, sorted by what they concern."""

    topic_defaults: Mapping[str, str]
    """The defaults of topics, by the names of topic settings."""
    directory: Mapping[str, str]
    """The settings that `DirectoryConfig.from_properties` takes."""
    without_effect: tuple[str, ...]
    """Names that Kafka has and that have no effect here; some of them are returned as defaults of topics."""


def is_broker_setting(name: str) -> bool:
    """Return whether Kafka has a broker setting of that name, with or without effect here."""
    return name in BROKER_SETTING_NAMES or name in _WITHOUT_EFFECT or name.startswith(_WITHOUT_EFFECT_PREFIXES)


def has_effect(name: str) -> bool:
    """Return whether the broker setting of that name changes anything here."""
    if name not in _TOPIC_SETTING:
        return name in BROKER_SETTING_NAMES
    return _TOPIC_SETTING[name][0] not in config.TOPIC_SETTINGS_WITHOUT_EFFECT


def topic_setting_of(name: str, value: str) -> tuple[str, str] | None:
    """Return the topic setting, and its value, for a broker setting; None if there is none.

    `InvalidConfig` if the value cannot be converted.
    """
    if name not in _TOPIC_SETTING:
        return None
    topic, unit = _TOPIC_SETTING[name]
    if topic == "retention.ms":
        return topic, _retention_ms(name, value, unit)
    return topic, value if unit == 1 else _milliseconds(name, value, unit, low=0 if "jitter" in name else 1)


def resolve_broker_settings(properties: Mapping[str, str]) -> BrokerSettings:
    """Classify a broker's settings. `InvalidConfig` for an unknown name or an illegal value.

    Only values with an effect are checked.
    """
    for name in properties:
        if not is_broker_setting(name):
            # The length is bounded: difflib takes quadratic time, and the name comes from the user.
            near = difflib.get_close_matches(name[:100], (*BROKER_SETTING_NAMES, *_WITHOUT_EFFECT), n=1, cutoff=0.8)
            hint = f", did you mean {near[0]}?" if near else ""
            raise InvalidConfig(f"{printable(name)} is not a setting of a Kafka broker{hint}")
    defaults: dict[str, str] = {}
    for topic, names in _SYNONYMS.items():
        given = next((name for name, _ in names if name in properties), None)
        setting = topic_setting_of(given, properties[given]) if given is not None else None
        if setting is not None:
            config.parse_property(topic, setting[1], given_as=given)
            defaults[topic] = setting[1]
    directory = {name: value for name, value in properties.items() if name in DIRECTORY_SETTING_NAMES}
    DirectoryConfig.from_properties(directory)
    return BrokerSettings(defaults, directory, tuple(name for name in properties if not has_effect(name)))


def broker_settings_for(topic_setting: str) -> tuple[str, ...]:
    """Return the broker's names for the default of a topic setting, by precedence; none if there is no such setting."""
    return tuple(name for name, _ in _SYNONYMS.get(topic_setting, ()))


def effective_broker_settings(defaults: config.LogConfig) -> dict[str, str]:
    """Return the defaults of topics by the broker's names, those in the unit of the topic setting."""
    values = defaults.properties()
    return {names[0][0]: values[topic] for topic, names in _SYNONYMS.items()}


def metadata_log_directory_of(properties: Mapping[str, str]) -> str | None:
    """Return the metadata log directory of a broker with these settings; None if they do not set it."""
    if properties.get(METADATA_LOG_DIR):
        return properties[METADATA_LOG_DIR]
    return log_directories_of(properties).split(",")[0].strip() or None


def log_directories_of(properties: Mapping[str, str]) -> str:
    """Return the log directories of a broker with these settings, separated by commas; "" if they do not set them."""
    return next((properties[name] for name in LOG_DIRS if properties.get(name)), "")


def _milliseconds(name: str, value: str, unit: int, low: int) -> str:
    kind = IntegerType(low, I32_MAX)
    number = kind.parse(name, value)
    kind.check(name, number)
    return str(number * unit)


def _retention_ms(name: str, value: str, unit: int) -> str:
    """Return a retention as Kafka interprets it: a negative value means no limit, and zero is refused."""
    kind = IntegerType(I64_MIN if unit == 1 else I32_MIN, I64_MAX if unit == 1 else I32_MAX)
    number = kind.parse(name, value)
    kind.check(name, number)
    if number == 0:
        raise InvalidConfig(f"{name} must not be 0; -1 keeps records without limit")
    return str(number * unit) if number > 0 else "-1"
