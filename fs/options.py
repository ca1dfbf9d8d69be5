"""The options of a mount (`-o`), validated when they are built.

`MountOptions` has plain values with defaults. `parse` reads the texts after `-o` on a command line or in the fourth
field of fstab. Names with a minus (`flush-ms`) configure the mount; names with dots are Kafka's. Topic settings
(`flush.ms`) are the defaults for topics of this directory. Broker settings (`log.retention.hours`) are given one by
one or, with lower precedence, in a file (`config=PATH`). An unknown name is an error that suggests the closest name.
A broker setting without effect on a mount is accepted and listed. Options of mount(8) and systemd are ignored.

Defined elsewhere: the options of mount(2) (`mount`), the settings of a topic (storage.settings.config), those of a
directory (storage.settings.directory_config).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from offsetfs.common.addresses import (
    PAGE_PORT,
    Address,
    AddressError,
    Endpoint,
    address_text,
    endpoint_text,
    parse_address,
    parse_endpoint,
)
from offsetfs.common.quantities import parse_size, plain_number
from offsetfs.common.user_directories import cache_directory
from offsetfs.storage import I32_MAX, I64_MAX, JSON_VALUES, READ_COMMITTED, READ_UNCOMMITTED, LogConfig
from offsetfs.storage.directory import BrokerContext, DirectoryAccess, holds_metadata_log
from offsetfs.storage.errors import InvalidConfig, sentence
from offsetfs.storage.records import REFUSE
from offsetfs.storage.settings import (
    BROKER_SETTING_NAMES,
    DIRECTORY_SETTING_NAMES,
    METADATA_LOG_DIR,
    TOPIC_SETTING_NAMES,
    DirectoryConfig,
    has_effect,
    is_broker_setting,
    metadata_log_directory_of,
    read_properties_file,
    resolve_broker_settings,
)

LISTED_MAX = 10_000
BATCH_BYTES_MIN = 1 << 10  # below this the 61 bytes of a batch header are a large share
BATCH_BYTES_LIMIT = 1 << 30
LOG_LEVELS = ("debug", "info", "warning", "error")
CHECKPOINT, LOG_END = "checkpoint", "log-end"
BUFFER_BATCHES_MIN = 2  # one batch fills while another is written

_IGNORED = frozenset(
    (
        "defaults",
        "_netdev",
        "nofail",
        "auto",
        "noauto",
        "user",
        "nouser",
        "users",
        "owner",
        "group",
        "nosuid",
        "nodev",
        "noexec",
        "atime",
        "noatime",
        "relatime",
        "norelatime",
        "strictatime",
        "nostrictatime",
        "lazytime",
        "nolazytime",
        "diratime",
        "nodiratime",
        "async",
        "silent",
        "loud",
    )
)
_IGNORED_PREFIXES = ("x-", "X-", "comment=", "user=")


_CLUSTER, _ARCHIVE = "kafka://HOST:PORT/", "an archive, such as s3://BUCKET/PREFIX"
_SYNONYMS = {"readonly": "ro", "read-only": "ro", "read_only": "ro", "readwrite": "rw", "read-write": "rw"}
"""Names of options elsewhere, which are not similar to those here."""
_OF_URLS = {
    **dict.fromkeys(("topic", "groups", "from", "keep", "on-gap", "rate"), _CLUSTER),
    **dict.fromkeys(("cache-size", "timeout"), _ARCHIVE),
    "cache": f"{_CLUSTER} or {_ARCHIVE}",
}
"""Options that are taken from the list before it is parsed here, where LOGDIR is a URL; what that URL is."""

TEXT, BASE64 = "text", "base64"
"""The values of `-o json-bytes`."""

EIO, SKIP = "eio", "skip"
"""The values of `-o damage`."""


class MountOptionError(ValueError):
    """An unknown option, or a value outside its range; the message is a sentence for the user."""


class OfDirectory(TypedDict):
    """The settings of a directory among the options of a mount."""

    defaults: Mapping[str, str]
    config: DirectoryConfig
    broker: BrokerContext
    access: DirectoryAccess


@dataclass(frozen=True, slots=True)
class MountOptions:
    """The options of one mount. Sizes in bytes, times in milliseconds; None switches a limit off."""

    read_only: bool = False
    create: bool = False
    """mkdir makes partitions, and an empty directory may be mounted."""
    delete: bool = False
    """rmdir removes partitions, with everything in them."""
    delete_records: bool = False
    """An offset written to `start` deletes the records below it."""
    listed_max: int | None = LISTED_MAX
    """The number of newest records that `ls` of a partition shows; None: all of them."""
    linger_ms: int = 5
    """The time that an open batch waits for more records."""
    batch_bytes: int = 1 << 20
    """Size at which a batch is written, before compression; `max.message.bytes` of the topic limits it."""
    buffer_bytes: int = 32 << 20
    """Limit of all batches in memory, over the whole mount; at the limit writers wait."""
    flush_messages: int | None = None
    """Records of a partition after which it is synced."""
    flush_ms: int | None = 1000
    """Age of the oldest unsynced record at which a partition is synced; 0: each batch is on disk before the next."""
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)
    umask: int = 0o027
    allow_other: bool = False
    isolation: str = READ_UNCOMMITTED
    """Whether records of open and aborted transactions are shown: read_uncommitted, or read_committed."""
    high_watermark: str = CHECKPOINT
    """The end of a partition beside a broker with followers: the checkpointed high watermark, or the log end."""
    damage: str = EIO
    """The reaction of `values` and `records.ndjson` to a batch that cannot be read: fail (eio), or skip the batch."""
    json_bytes: str = TEXT
    """The bytes of keys, values and headers in lines of JSON: text if they are UTF-8 (text), or always base64."""
    json_values: str = REFUSE
    """The treatment of a JSON `value` that is no string: refuse the line (refuse), or store its text (text)."""
    schemas: tuple[str, ...] = ()
    """Schemas for `decoded/` in files: NAME=FILE, or a directory."""
    masks: tuple[str, ...] = ()
    """Fields that `decoded/` does not show, as TOPIC:FIELD[,FIELD]. These topics have no raw files."""
    schema_registry: str | None = None
    """A registry for schemas that are nowhere else: a URL, or a properties file with its login."""
    log_level: str = "info"
    """The lowest level that is logged: debug, info, warning or error."""
    log_file: str | None = None
    """The file of the mount's log. None: the journal, syslog, or a default file (`cli/mounts/daemon_log.py`)."""
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Kafka's topic settings by Kafka's names, for topics that do not set them."""
    directory_settings: Mapping[str, str] = field(default_factory=dict)
    """Kafka's settings of a broker by Kafka's names, as far as they concern logs."""
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    """Kafka's settings of a broker by Kafka's names, as far as they are defaults of topics."""
    config_file: str | None = None
    """The `server.properties` that settings were read from. Settings that are not in it have Kafka's defaults."""
    without_effect: tuple[str, ...] = ()
    """Names of settings that Kafka has and that change nothing here. Their values may be secrets: they are not kept."""
    metadata_log_directory: str | None = None
    """The directory of the cluster's metadata log if it is not beside the data: Kafka's `metadata.log.dir`."""
    cache_directory: str | None = field(default_factory=lambda: cache_directory(os.environ))
    """The directory for the indexes of a mount that may not write to its log directory; None: none. Not an option."""
    threads_max: int = 16
    """The number of threads that may append or sync at a time: fewer where few files may be open. Not an option."""
    listeners: tuple[Endpoint, ...] = ()
    """The addresses at which clients of the Kafka protocol connect; empty: none."""
    advertised: tuple[Address, ...] = ()
    """The addresses that these clients are given: one for each listener, or one for all; none: the listener's own."""
    server_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the server for these clients, by Kafka's names."""
    security_settings: Mapping[str, str] = field(default_factory=dict)
    """Its settings for the security of listeners. Some are secrets: `texts` has none of them."""
    allow_anonymous: bool = False
    """Whether addresses that other machines reach may be listeners without authentication."""
    web: Address | None = None
    """The address at which browsers see the page of the logs; None: there is none."""
    web_names: tuple[str, ...] = ()
    """Names by which browsers reach it."""
    web_tls_cert: str | None = None
    web_tls_key: str | None = None
    """The files of its certificate and key; without, it is for this machine alone."""
    web_insecure: bool = False
    """Whether other machines may reach the page without TLS."""
    of_url: Mapping[str, str] = field(default_factory=dict)
    """The options of a LOGDIR that is a URL, which are taken from the list before it is parsed here."""
    request_timeout_s: float | None = None
    """The time after which the kernel ends a mount with an unanswered request; not an option, the mount reads it."""

    def of_directory(self, metadata_directory: str | None = None) -> OfDirectory:
        """Return the settings as `LogDirectory.open` takes them; `metadata_directory` where the options have none."""
        return {
            "defaults": self.topic_defaults,
            "config": DirectoryConfig.from_properties(self.directory_settings),
            "broker": self.broker_context(metadata_directory),
            # The mount syncs logs itself, with its own limits.
            "access": DirectoryAccess(shows_log_end=self.high_watermark == LOG_END, flushes=False),
        }

    def broker_context(self, metadata_directory: str | None = None) -> BrokerContext:
        """Return what the options say of the broker; `metadata_directory` where they have none."""
        return BrokerContext(
            self.all_broker_settings,
            is_complete=self.config_file is not None,
            metadata_directory=self.metadata_log_directory or metadata_directory,
        )

    @property
    def all_broker_settings(self) -> dict[str, str]:
        """The broker's settings that have an effect here."""
        return {**self.directory_settings, **self.broker_settings}

    @property
    def is_committed_only(self) -> bool:
        """Whether only committed records are shown."""
        return self.isolation == READ_COMMITTED

    @classmethod
    def parse(
        cls,
        texts: Iterable[str],
        *,
        sloppy: bool = False,
        server_names: Collection[str] = (),
        is_security_setting: Callable[[str], bool] = lambda _: False,
    ) -> MountOptions:
        """Read option lists such as `ro,linger-ms=10`; a value with commas stands in double quotes. Last one wins.

        Sizes take a suffix k, m, g or t (powers of 1024), durations ms, s, m, h, d or w. With `sloppy` unknown options
        are ignored, as mount(8) -s requires. Several `listen`, `advertise`, `schema`, `mask` or `web-host` add up;
        with `listen`, the broker settings in `server_names`, and those that are security settings, have an effect.

        Raises `MountOptionError`.
        """
        items = list(option_items(texts))
        values: dict[str, Any] = {}
        topic_defaults: dict[str, str] = {}
        listens = any(name == "listen" for name, _ in items)
        broker = _Broker(server_names if listens else (), is_security_setting if listens else lambda _: False)
        for path in [value for name, value in items if name == "config"][-1:]:
            values |= broker.read(_absolute_path("config", path))
        for name, value in items:
            if name in TOPIC_SETTING_NAMES:
                topic_defaults[name] = _setting(name, value)
            elif name in ("listen", "advertise", "schema", "mask", "web-host"):
                target, read = _OPTIONS[name]
                values[target] = (*values.get(target, ()), *read(name, value))
            elif name in _OPTIONS:
                target, read = _OPTIONS[name]
                values[target] = read(name, value)
            elif is_broker_setting(name):
                broker.take(name, _setting(name, value))
            elif name == "rw":
                values["read_only"] = False
            elif not sloppy and not _is_ignored(name, value):
                raise MountOptionError(_unknown(name))
        options = cls(
            **values,
            topic_defaults=topic_defaults,
            directory_settings=broker.of_directory,
            broker_settings=broker.of_topics,
            server_settings=broker.of_server,
            security_settings=broker.of_security,
            without_effect=tuple(broker.without_effect),
        )
        options._check()
        return options

    def _check(self) -> None:
        if self.buffer_bytes < BUFFER_BATCHES_MIN * self.batch_bytes:
            raise MountOptionError(
                f"buffer-bytes={self.buffer_bytes} must hold at least {BUFFER_BATCHES_MIN} batches"
                f" of batch-bytes={self.batch_bytes}"
            )
        for name in ("create", "delete", "delete-records"):
            if self.read_only and getattr(self, name.replace("-", "_")):
                raise MountOptionError(f"ro and {name} exclude each other; remove one of them")
        if not self.listeners and (self.advertised or self.allow_anonymous):
            raise MountOptionError("advertise and allow-anonymous need an address to listen on: add listen=HOST:PORT")
        if self.listeners and self.masks:
            raise MountOptionError("mask and listen exclude each other: clients of the broker read raw values")
        if self.web is None and (self.web_names or self.web_tls_cert or self.web_tls_key or self.web_insecure):
            raise MountOptionError(
                "web-host, web-tls-cert, web-tls-key and web-insecure need a page: add web=HOST:PORT"
            )
        try:
            LogConfig.from_properties(self.topic_defaults)
            DirectoryConfig.from_properties(self.directory_settings)
            resolve_broker_settings(self.all_broker_settings)
        except InvalidConfig as error:
            raise MountOptionError(str(error)) from error

    def texts(self) -> dict[str, str]:
        """Return every option by its name in `-o`, as text; `parse` takes it back, except those of a URL."""
        flags = {
            "ro": self.read_only,
            "create": self.create,
            "delete": self.delete,
            "delete-records": self.delete_records,
            "allow_other": self.allow_other,
            "allow-anonymous": self.allow_anonymous,
            "web-insecure": self.web_insecure,
        }
        limits = {"flush-messages": self.flush_messages, "flush-ms": self.flush_ms}
        return {
            **{name: "" for name, is_set in flags.items() if is_set},
            "list": "all" if self.listed_max is None else str(self.listed_max),
            "linger-ms": str(self.linger_ms),
            "batch-bytes": str(self.batch_bytes),
            "buffer-bytes": str(self.buffer_bytes),
            **{name: "off" if limit is None else str(limit) for name, limit in limits.items()},
            "uid": str(self.uid),
            "gid": str(self.gid),
            "umask": f"{self.umask:03o}",
            "isolation": self.isolation,
            "high-watermark": self.high_watermark,
            "damage": self.damage,
            "json-bytes": self.json_bytes,
            "json-values": self.json_values,
            "log-level": self.log_level,
            **({} if self.log_file is None else {"log-file": self.log_file}),
            **({} if self.config_file is None else {"config": self.config_file}),
            **({} if self.metadata_log_directory is None else {"metadata.log.dir": self.metadata_log_directory}),
            **({} if not self.schemas else {"schema": ",".join(self.schemas)}),
            **({} if not self.masks else {"mask": ",".join(self.masks)}),
            **({} if self.schema_registry is None else {"schema-registry": self.schema_registry}),
            **({} if not self.listeners else {"listen": ",".join(map(endpoint_text, self.listeners))}),
            **({} if not self.advertised else {"advertise": ",".join(map(address_text, self.advertised))}),
            **({} if self.web is None else {"web": address_text(self.web)}),
            **({} if not self.web_names else {"web-host": ",".join(self.web_names)}),
            **({} if self.web_tls_cert is None else {"web-tls-cert": self.web_tls_cert}),
            **({} if self.web_tls_key is None else {"web-tls-key": self.web_tls_key}),
            **self.server_settings,
            **self.topic_defaults,
            **self.all_broker_settings,
            **self.of_url,
        }


class _Broker:
    """A broker's settings, sorted by what they concern, as they are read."""

    def __init__(self, server_names: Collection[str], is_security_setting: Callable[[str], bool]) -> None:
        self._server_names = server_names
        self._is_security_setting = is_security_setting
        self.of_security: dict[str, str] = {}
        self.of_server: dict[str, str] = {}
        self.of_topics: dict[str, str] = {}
        self.of_directory: dict[str, str] = {}
        self.without_effect: dict[str, None] = {}  # in their order

    def take(self, name: str, value: str) -> None:
        if not (has_effect(name) or name in self._server_names or self._is_security_setting(name)):
            self.without_effect[name] = None
        if name in DIRECTORY_SETTING_NAMES:
            self.of_directory[name] = value
        elif name in BROKER_SETTING_NAMES:
            self.of_topics[name] = value
        elif name in self._server_names:
            self.of_server[name] = value
        elif self._is_security_setting(name):
            self.of_security[name] = value

    def read(self, path: str) -> dict[str, Any]:
        """Take what a `server.properties` has; return the options of the mount that it stands for."""
        try:
            properties = read_properties_file(path)
            resolve_broker_settings(properties)
        except OSError as error:
            raise MountOptionError(f"config={path}: {error.strerror}") from error
        except InvalidConfig as error:
            raise MountOptionError(f"config={path}: {error.reason}") from error
        for name, value in properties.items():
            if name != METADATA_LOG_DIR:
                self.take(name, value)
        directory = metadata_log_directory_of(properties)
        if directory is None or (not properties.get(METADATA_LOG_DIR) and not holds_metadata_log(directory)):
            return {}
        return {"metadata_log_directory": directory}


# --- reading one value -----------------------------------------------------------------------------------------------

_Reader = Callable[[str, str | None], Any]


def _required(name: str, value: str | None) -> str:
    if not value:
        raise MountOptionError(f"option {name} needs a value: {name}=…")
    return value


def _setting(name: str, value: str | None) -> str:
    """Return the value of a setting of a topic or a broker. It may be empty if the setting accepts that, as a list."""
    return "" if value == "" and _accepts_empty(name) else plain_number(name, _required(name, value))


def _accepts_empty(name: str) -> bool:
    try:
        if name in TOPIC_SETTING_NAMES:
            LogConfig.from_properties({name: ""})
        else:
            resolve_broker_settings({name: ""})
    except InvalidConfig:
        return False
    return name in TOPIC_SETTING_NAMES or name in BROKER_SETTING_NAMES  # values of others are not checked


def _flag(name: str, value: str | None) -> bool:
    if value is not None:
        raise MountOptionError(f"option {name} takes no value")
    return True


def _number(low: int, high: int) -> _Reader:
    def read(name: str, value: str | None) -> int:
        return _in_range(name, plain_number(name, _required(name, value)), "", low, high)

    return read


def _size(low: int, high: int) -> _Reader:
    def read(name: str, value: str | None) -> int:
        return size_of(name, _required(name, value), low, high)

    return read


def size_of(name: str, value: str, low: int, high: int) -> int:
    """Return the bytes in the value of an option, such as 10g; `MountOptionError` outside of [low, high]."""
    return _in_range(name, value, "kmgt", low, high)


def _in_range(name: str, value: str, units: str, low: int, high: int) -> int:
    number = parse_size(value, units)
    if number is None or not low <= number <= high:
        raise MountOptionError(f"{name}={value} is not a number from {low} to {high}")
    return number


def _or_word(word: str, means: int | None, read_number: _Reader) -> _Reader:
    def read(name: str, value: str | None) -> int | None:
        if value == word:
            return means
        try:
            number: int = read_number(name, value)
        except MountOptionError as error:
            raise MountOptionError(f"{error}, nor the word {word}") from None
        return number

    return read


def _umask(name: str, value: str | None) -> int:
    if not re.fullmatch(r"[0-7]{1,4}", _required(name, value), re.ASCII) or int(value or "", 8) > 0o777:
        raise MountOptionError(f"umask={value} is not an octal number from 000 to 777")
    return int(value or "", 8)


def _one_of(*words: str) -> _Reader:
    def read(name: str, value: str | None) -> str:
        if _required(name, value) not in words:
            raise MountOptionError(f"{name}={value} must be one of {', '.join(words)}")
        return value or ""

    return read


def _absolute_path(name: str, value: str | None) -> str:
    path = _required(name, value)
    if not path.startswith("/") or "\0" in path:
        raise MountOptionError(f"{name}={path} is not an absolute path")
    return path


def _schema_words(name: str, value: str | None) -> tuple[str, ...]:
    from offsetfs.schemas.schema_files import SchemaFileError, read_schema_files  # seldom needed

    words = tuple(_required(name, value).split(","))
    for word in words:
        if not word.rpartition("=")[2].startswith("/"):
            raise MountOptionError(f"{name}={word} is neither NAME=FILE nor a directory, with an absolute path")
    try:
        read_schema_files(words)
    except (SchemaFileError, OSError) as error:
        raise MountOptionError(f"{name}: {sentence(error)}") from error
    return words


def _mask_words(name: str, value: str | None) -> tuple[str, ...]:
    from offsetfs.schemas.masks import MaskError, parse_masks

    words: list[str] = []
    for part in _required(name, value).split(","):
        if ":" in part or not words:
            words.append(part)
        else:
            words[-1] += f",{part}"
    try:
        parse_masks(words)
    except MaskError as error:
        raise MountOptionError(str(error)) from error
    return tuple(words)


def _registry_word(name: str, value: str | None) -> str:
    from offsetfs.schemas.registry_settings import has_login, registry_settings

    word = _required(name, value)
    if "://" not in word:
        _absolute_path(name, word)
    elif has_login(word):
        reason = "other users can read the options of a mount; put the login into a properties file"
        raise MountOptionError(f"{name}: the URL has a login, and {reason}: {name}=/FILE")
    try:
        registry_settings(word)
    except (InvalidConfig, OSError) as error:
        raise MountOptionError(f"{name}: {sentence(error)}") from error
    return word


def _endpoints(name: str, value: str | None) -> tuple[Endpoint, ...]:
    try:
        return tuple(map(parse_endpoint, _required(name, value).split(",")))
    except AddressError as error:
        raise MountOptionError(f"{name}: {error}") from error


def _addresses(name: str, value: str | None) -> tuple[Address, ...]:
    try:
        return tuple(map(parse_address, _required(name, value).split(",")))
    except AddressError as error:
        raise MountOptionError(f"{name}: {error}") from error


def _page_address(name: str, value: str | None) -> Address:
    try:
        return parse_address(_required(name, value), PAGE_PORT)
    except AddressError as error:
        raise MountOptionError(f"{name}: {error}") from error


def _names(name: str, value: str | None) -> tuple[str, ...]:
    return tuple(_required(name, value).split(","))


_WORDS = {
    "list": ("all", "none"),
    "flush-messages": ("off",),
    "flush-ms": ("off",),
    "isolation": (READ_UNCOMMITTED, READ_COMMITTED),
    "high-watermark": (CHECKPOINT, LOG_END),
    "damage": (EIO, SKIP),
    "json-bytes": (TEXT, BASE64),
    "json-values": JSON_VALUES,
    "log-level": LOG_LEVELS,
}
_OPTIONS: dict[str, tuple[str, _Reader]] = {
    "ro": ("read_only", _flag),
    "create": ("create", _flag),
    "delete": ("delete", _flag),
    "delete-records": ("delete_records", _flag),
    "list": ("listed_max", _or_word("none", 0, _or_word("all", None, _number(0, 10**9)))),
    "linger-ms": ("linger_ms", _number(0, 60_000)),
    "batch-bytes": ("batch_bytes", _size(BATCH_BYTES_MIN, BATCH_BYTES_LIMIT)),
    "buffer-bytes": ("buffer_bytes", _size(BATCH_BYTES_MIN, 1 << 40)),
    "flush-messages": ("flush_messages", _or_word("off", None, _number(1, I64_MAX))),
    "flush-ms": ("flush_ms", _or_word("off", None, _number(0, I32_MAX))),
    "uid": ("uid", _number(0, 2**32 - 2)),
    "gid": ("gid", _number(0, 2**32 - 2)),
    "umask": ("umask", _umask),
    "allow_other": ("allow_other", _flag),
    "listen": ("listeners", _endpoints),
    "advertise": ("advertised", _addresses),
    "allow-anonymous": ("allow_anonymous", _flag),
    "web": ("web", _page_address),
    "web-host": ("web_names", _names),
    "web-tls-cert": ("web_tls_cert", _absolute_path),
    "web-tls-key": ("web_tls_key", _absolute_path),
    "web-insecure": ("web_insecure", _flag),
    "isolation": ("isolation", _one_of(*_WORDS["isolation"])),
    "high-watermark": ("high_watermark", _one_of(*_WORDS["high-watermark"])),
    "damage": ("damage", _one_of(*_WORDS["damage"])),
    "json-bytes": ("json_bytes", _one_of(*_WORDS["json-bytes"])),
    "json-values": ("json_values", _one_of(*_WORDS["json-values"])),
    "schema": ("schemas", _schema_words),
    "mask": ("masks", _mask_words),
    "schema-registry": ("schema_registry", _registry_word),
    "log-level": ("log_level", _one_of(*LOG_LEVELS)),
    "log-file": ("log_file", _absolute_path),
    "config": ("config_file", _absolute_path),
    "metadata.log.dir": ("metadata_log_directory", _absolute_path),
}


def takes_value() -> dict[str, bool]:
    """Return the names of all options, and whether each has a value."""
    ours = {name: read is not _flag for name, (_, read) in _OPTIONS.items()}
    return {**ours, **dict.fromkeys([*TOPIC_SETTING_NAMES, *BROKER_SETTING_NAMES], True)}


def words(name: str) -> list[str]:
    """Return the words that option `name` takes, where it takes any."""
    return list(_WORDS.get(name, ()))


# --- reading the list ------------------------------------------------------------------------------------------------

# An option: any characters except commas and quotes, and quoted strings.
_ITEM = re.compile(r'(?:[^,"]|"[^"]*")+')


def option_text(name: str, value: str | None) -> str:
    """Return an option as -o takes it."""
    if value is None:
        return name
    return f'{name}="{value}"' if "," in value else f"{name}={value}"


def option_items(texts: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield name and value (None without `=`) of each option."""
    for text in texts:
        if text.count('"') % 2:
            raise MountOptionError(f"a double quote is not closed in {text!r}")
        for match in _ITEM.finditer(text):
            name, equals, value = match[0].partition("=")
            if len(value) >= 2 and value[0] == value[-1] == '"':
                value = value[1:-1]
            yield name, value if equals else None


def _is_ignored(name: str, value: str | None) -> bool:
    text = name if value is None else f"{name}="
    return text in _IGNORED or text.startswith(_IGNORED_PREFIXES)


def _unknown(name: str) -> str:
    if name in _OF_URLS:
        return f"option {name!r} is only for a mount of {_OF_URLS[name]}"
    synonym = [_SYNONYMS[name]] if name in _SYNONYMS else []
    near = synonym or difflib.get_close_matches(name, [*_OPTIONS, *TOPIC_SETTING_NAMES, *BROKER_SETTING_NAMES], n=1)
    return f"unknown option {name!r}" + (f", did you mean {near[0]}?" if near else "")
