"""The options of `-o`, and the error for each invalid one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from offsetfs.fs.options import MountOptionError, MountOptions, takes_value

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("ro", {"read_only": True}),
        ("ro,rw", {"read_only": False}),
        ("rw,ro", {"read_only": True}),
        ("create", {"create": True}),
        ("delete,delete-records", {"delete": True, "delete_records": True}),
        ("log.cleaner.backoff.ms=50", {"directory_settings": {"log.cleaner.backoff.ms": "50"}}),
        ("listen=127.0.0.1:9092", {"listeners": (("PLAINTEXT", ("127.0.0.1", 9092)),)}),
        (
            'listen="127.0.0.1,ssl://[::1]:0"',
            {"listeners": (("PLAINTEXT", ("127.0.0.1", 9092)), ("SSL", ("::1", 0)))},
        ),
        (
            "listen=:1,listen=localhost:2",
            {"listeners": (("PLAINTEXT", ("127.0.0.1", 1)), ("PLAINTEXT", ("localhost", 2)))},
        ),
        (
            "listen=0.0.0.0:1,allow-anonymous,advertise=logs:2",
            {"listeners": (("PLAINTEXT", ("0.0.0.0", 1)),), "advertised": (("logs", 2),), "allow_anonymous": True},
        ),
        ("list=100", {"listed_max": 100}),
        ("list=all", {"listed_max": None}),
        ("list=none", {"listed_max": 0}),
        ("linger-ms=0", {"linger_ms": 0}),
        ("batch-bytes=2048", {"batch_bytes": 2048}),
        ("batch-bytes=64k,buffer-bytes=1g", {"batch_bytes": 64 << 10, "buffer_bytes": 1 << 30}),
        ("buffer-bytes=64M", {"buffer_bytes": 64 << 20}),
        ("flush-messages=1", {"flush_messages": 1}),
        ("flush-messages=5,flush-messages=off", {"flush_messages": None}),
        ("flush-ms=0", {"flush_ms": 0}),
        ("flush-ms=off", {"flush_ms": None}),
        ("uid=0,gid=4294967294", {"uid": 0, "gid": 4294967294}),
        ("umask=022", {"umask": 0o022}),
        ("umask=0", {"umask": 0}),
        ("allow_other", {"allow_other": True}),
        ("linger-ms=1,linger-ms=2", {"linger_ms": 2}),
        ("retention.ms=-1", {"topic_defaults": {"retention.ms": "-1"}}),
        ("flush.ms=100,flush-ms=200", {"flush_ms": 200, "topic_defaults": {"flush.ms": "100"}}),
        ('cleanup.policy="compact,delete"', {"topic_defaults": {"cleanup.policy": "compact,delete"}}),
        ("cleanup.policy=", {"topic_defaults": {"cleanup.policy": ""}}),
        ('cleanup.policy=""', {"topic_defaults": {"cleanup.policy": ""}}),
        ("log.cleanup.policy=", {"broker_settings": {"log.cleanup.policy": ""}}),
        ("rw,defaults,_netdev,nofail,noauto,x-systemd.automount,x-initrd.mount", {}),
        ("nosuid,nodev,noexec,relatime,user=joe,comment=mine", {}),
        (",,create,,", {"create": True}),
    ],
)
def test_options_are_read(text: str, expected: dict[str, Any]) -> None:
    assert MountOptions.parse([text]) == MountOptions(**expected)


def test_several_lists_are_one() -> None:
    assert MountOptions.parse(["ro,linger-ms=1", "linger-ms=2"]) == MountOptions(read_only=True, linger_ms=2)


def test_missing_options_are_the_caller_and_kafkas_defaults() -> None:
    options = MountOptions.parse([])
    assert (options.uid, options.gid, options.umask, options.topic_defaults) == (os.getuid(), os.getgid(), 0o027, {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("linger_ms=5", "unknown option 'linger_ms', did you mean linger-ms?"),
        ("bufer-bytes=5", "unknown option 'bufer-bytes', did you mean buffer-bytes?"),
        ("retention.msec=5", "unknown option 'retention.msec', did you mean retention.ms?"),
        ("allow-other", "unknown option 'allow-other', did you mean allow_other?"),
        ("sync", "unknown option 'sync'"),
        ("suid", "unknown option 'suid'"),
        ("fsname=x", "unknown option 'fsname'"),
        ("topic=a", "option 'topic' is only for a mount of kafka://HOST:PORT/"),
        (
            "cache=/c",
            "option 'cache' is only for a mount of kafka://HOST:PORT/ or an archive, such as s3://BUCKET/PREFIX",
        ),
        ("timeout=5", "option 'timeout' is only for a mount of an archive, such as s3://BUCKET/PREFIX"),
        ("linger-ms", "option linger-ms needs a value: linger-ms=…"),
        ("linger-ms=", "option linger-ms needs a value: linger-ms=…"),
        ("retention.ms", "option retention.ms needs a value: retention.ms=…"),
        ("retention.ms=", "option retention.ms needs a value: retention.ms=…"),
        ("cleanup.policy", "option cleanup.policy needs a value: cleanup.policy=…"),
        ("metadata.log.dir=", "option metadata.log.dir needs a value: metadata.log.dir=…"),
        ("log.retention.ms=", "option log.retention.ms needs a value: log.retention.ms=…"),
        ("zookeeper.connect=", "option zookeeper.connect needs a value: zookeeper.connect=…"),
        ("ro=1", "option ro takes no value"),
        ("linger-ms=-1", "linger-ms=-1 is not a number from 0 to 60000"),
        ("linger-ms=60001", "linger-ms=60001 is not a number from 0 to 60000"),
        ("linger-ms=٣", "linger-ms=٣ is not a number from 0 to 60000"),
        ("linger-ms=1k", "linger-ms=1k is not a number from 0 to 60000"),
        ("batch-bytes=1", "batch-bytes=1 is not a number from 1024 to 1073741824"),
        ("batch-bytes=1t", "batch-bytes=1t is not a number from 1024 to 1073741824"),
        ("list=some", "list=some is not a number from 0 to 1000000000, nor the word all, nor the word none"),
        ("flush-ms=never", "flush-ms=never is not a number from 0 to 2147483647, nor the word off"),
        ("flush-messages=0", "flush-messages=0 is not a number from 1 to 9223372036854775807, nor the word off"),
        ("umask=8", "umask=8 is not an octal number from 000 to 777"),
        ("umask=1777", "umask=1777 is not an octal number from 000 to 777"),
        ("uid=4294967295", "uid=4294967295 is not a number from 0 to 4294967294"),
        ("listen=a:b", "listen: 'a:b' is not an address; write HOST:PORT"),
        ("listen=a b://c:1", "listen: 'a b://c:1' is not a listener; write HOST:PORT, or PROTOCOL://HOST:PORT"),
        ("advertise=logs:9092", "advertise and allow-anonymous need an address to listen on: add listen=HOST:PORT"),
        ("listen=:1,advertise=a,advertise=b:x", "advertise: 'b:x' is not an address"),
        ("ro,create", "ro and create exclude each other"),
        ("ro,delete", "ro and delete exclude each other"),
        ("ro,delete-records", "ro and delete-records exclude each other"),
        ("delete-record", "unknown option 'delete-record', did you mean delete-records?"),
        ("log.cleaner.backof.ms=5", "did you mean log.cleaner.backoff.ms?"),
        ("log.cleaner.backoff.ms", "option log.cleaner.backoff.ms needs a value: log.cleaner.backoff.ms=…"),
        ("log.cleaner.backoff.ms=-1", "log.cleaner.backoff.ms"),
        ("log.cleaner.threads=0", "log.cleaner.threads"),
        ("batch-bytes=32m,buffer-bytes=32m", "must hold at least 2 batches"),
        ("segment.bytes=x", "segment.bytes"),
        ('cleanup.policy="compact,delete', "a double quote is not closed"),
    ],
)
def test_an_error_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(MountOptionError) as caught:
        MountOptions.parse([text])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ro,list=all",
        "delete,delete-records,log.cleaner.threads=2",
        "cleanup.policy=",
        "listen=SSL://0.0.0.0:3,advertise=[::1]:4,allow-anonymous",
        "create,list=none,flush-ms=off,flush-messages=3,umask=077,allow_other,retention.ms=-1",
    ],
)
def test_the_texts_of_options_parse_to_the_same_options(text: str) -> None:
    options = MountOptions.parse([text])
    takes = takes_value()
    said = [f"{name}={value}" if value or takes[name] else name for name, value in options.texts().items()]
    assert MountOptions.parse(said) == options


def test_a_sloppy_reader_passes_over_what_it_does_not_know_and_nothing_else() -> None:
    options = MountOptions.parse(["suid,intr=3,list=5"], sloppy=True)
    assert options.listed_max == 5
    with pytest.raises(MountOptionError, match="list=many"):
        MountOptions.parse(["intr,list=many"], sloppy=True)


def test_the_names_of_options_state_whether_they_take_a_value() -> None:
    for name, has_value in takes_value().items():
        with pytest.raises(MountOptionError, match="needs a value" if has_value else "takes no value"):
            MountOptions.parse([name if has_value else f"{name}=1"])
