"""kcat (librdkafka 2.0) against Kafka 4.4 and against `offsetfs serve`: the same output from both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures.broker.served import Cluster

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_a_codec_come_back(cluster: Cluster, codec: str) -> None:
    topic = f"kcat-codec-{codec}"
    lines = b"".join(b"key %d\tvalue %d of some words\n" % (number % 7, number) for number in range(3000))
    cluster.kcat("-P", "-t", topic, "-z", codec, "-K", "\t", lines=lines)
    shown = cluster.kcat("-C", "-t", topic, "-e", "-f", r"%o %k|%s\n").splitlines()
    assert shown == [b"%d key %d|value %d of some words" % (number, number % 7, number) for number in range(3000)]


def test_ranges_and_bounds(cluster: Cluster) -> None:
    topic = "kcat-ranges"
    cluster.kcat("-P", "-t", topic, lines=b"".join(b"%d\n" % number for number in range(3000)))
    assert outcomes(
        cluster,
        {
            "from 2998": ["-C", "-t", topic, "-o", "2998", "-e", "-f", "%o "],
            "the last two": ["-C", "-t", topic, "-o", "-2", "-e", "-f", "%o "],
            "a number of records": ["-C", "-t", topic, "-o", "10", "-c", "3", "-f", "%o "],
            "from the end": ["-C", "-t", topic, "-o", "end", "-e", "-f", "%o "],
            "from the beginning": ["-C", "-t", topic, "-o", "beginning", "-c", "2", "-f", "%o "],
            "first offset": ["-Q", "-t", f"{topic}:0:-2"],
            "end offset": ["-Q", "-t", f"{topic}:0:-1"],
        },
    ) == {
        "from 2998": "2998 2999 ",
        "the last two": "2998 2999 ",
        "a number of records": "10 11 12 ",
        "from the end": "",
        "from the beginning": "0 1 ",
        "first offset": f"{topic} [0] offset 0",
        "end offset": f"{topic} [0] offset 3000",
    }


def test_keys_headers_and_tombstones(cluster: Cluster) -> None:
    topic = "kcat-parts"
    cluster.kcat("-P", "-t", topic, "-K", ":", "-H", "one=1", "-H", "two=", "-H", "three", lines=b"a:b\n:c\n")
    cluster.kcat("-P", "-t", topic, "-K", ":", "-Z", lines=b"a:\n")
    cluster.kcat("-P", "-t", topic, "-k", "fixed", "-D", ";", lines=b"x;y;\n")
    shown = cluster.kcat("-C", "-t", topic, "-e", "-Z", "-f", r"%p %o key=%k(%K) value=%s(%S) headers=%h\n")
    assert shown.decode().splitlines() == [
        "0 0 key=a(1) value=b(1) headers=one=1,two=,three=NULL",
        "0 1 key=NULL(0) value=c(1) headers=one=1,two=,three=NULL",
        "0 2 key=a(1) value=NULL(-1) headers=",
        "0 3 key=fixed(5) value=x(1) headers=",
        "0 4 key=fixed(5) value=y(1) headers=",
        "0 5 key=fixed(5) value=",
        "(1) headers=",
    ]
    envelopes = [json.loads(line) for line in cluster.kcat("-C", "-t", topic, "-c", "3", "-J").splitlines()]
    assert [(each["tstype"], each["broker"], each["payload"]) for each in envelopes] == [
        ("create", 1, "b"),
        ("create", 1, "c"),
        ("create", 1, None),
    ]


def test_offsets_of_times(cluster: Cluster) -> None:
    topic = "kcat-times"
    for line in (b"one\n", b"two\n", b"three\n"):
        cluster.kcat("-P", "-t", topic, lines=line)
    times = [int(each) for each in cluster.kcat("-C", "-t", topic, "-e", "-f", "%T ").split()]
    assert outcomes(
        cluster,
        {
            "of the first": ["-Q", "-t", f"{topic}:0:{times[0]}"],
            "before all": ["-Q", "-t", f"{topic}:0:1"],
            "between": ["-Q", "-t", f"{topic}:0:{times[1] + 1}"],
            "of the last": ["-Q", "-t", f"{topic}:0:{times[2]}"],
            "after all": ["-Q", "-t", f"{topic}:0:{times[2] + 1}"],
            "range": ["-C", "-t", topic, "-o", f"s@{times[1]}", "-o", f"e@{times[2]}", "-f", "%s "],
        },
    ) == {
        "of the first": f"{topic} [0] offset 0",
        "before all": f"{topic} [0] offset 0",
        "between": f"{topic} [0] offset 2",
        "of the last": f"{topic} [0] offset 2",
        "after all": f"{topic} [0] offset -1",
        "range": "two ",
    }


def test_metadata(cluster: Cluster) -> None:
    topic = "kcat-metadata"
    cluster.kcat("-P", "-t", topic, lines=b"one\n")
    listed: dict[str, Any] = json.loads(cluster.kcat("-L", "-J", "-t", topic))
    del listed["originating_broker"]
    assert listed == {
        "query": {"topic": topic},
        "controllerid": 1,
        "brokers": [{"id": 1, "name": cluster.address}],
        "topics": [
            {
                "topic": topic,
                "partitions": [{"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}],
            }
        ],
    }
    every = json.loads(cluster.kcat("-L", "-J"))
    assert topic in [each["topic"] for each in every["topics"]]


def test_a_member_of_a_group_goes_on_at_its_offset(cluster: Cluster) -> None:
    topic, group = "kcat-group", ["-X", "auto.offset.reset=earliest", "-G", "kcat-group"]
    cluster.kcat("-P", "-t", topic, lines=b"one\ntwo\nthree\n")
    assert cluster.kcat("-c", "2", *group, topic) == b"one\ntwo\n"
    cluster.kcat("-P", "-t", topic, lines=b"four\n")
    assert cluster.kcat("-e", *group, topic) == b"three\nfour\n"


def outcomes(cluster: Cluster, commands: dict[str, list[str]]) -> dict[str, str]:
    """Return the standard output of each kcat command."""
    return {name: cluster.kcat(*words).decode().rstrip("\n") for name, words in commands.items()}
