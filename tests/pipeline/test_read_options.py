"""What a reader takes for options, and what it says of those that cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from offsetfs.pipeline import read_options
from offsetfs.pipeline.read_options import EARLIEST, LATEST, OptionError, ReadOptions
from offsetfs.pipeline.write_options import WriteOptions

pytestmark = pytest.mark.unit


def parse(is_stream: Any = False, **options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/logs", **options}, is_stream=is_stream)


def test_defaults_are_those_of_the_kafka_source() -> None:
    options = parse()
    assert (options.start.default, options.end.default) == (EARLIEST, LATEST)
    assert (options.fails_on_data_loss, options.has_headers, options.is_committed_only) == (True, False, False)
    assert (options.splits_min, options.records_per_split_max, options.without_time) == (1, None, "error")


def test_names_are_case_insensitive_and_an_address_may_come_in_a_list() -> None:
    options = ReadOptions.parse({"PATHS": '["file:///logs"]', "SUBSCRIBE": "a, b", "startingoffsets": "Earliest"})
    assert (options.path, options.selection.topics) == ("/logs", ("a", "b"))


def test_several_directories_come_as_a_list_or_with_commas_and_each_once(tmp_path: Path) -> None:
    assert ReadOptions.parse({"paths": '["/b", "/a", "file:///b"]'}).paths == ("/b", "/a")
    assert ReadOptions.parse({"path": "/data1, /data2"}).paths == ("/data1", "/data2")
    (tmp_path / "a,b").mkdir()
    assert parse(path=str(tmp_path / "a,b")).paths == (str(tmp_path / "a,b"),)


def test_an_archive_has_one_name_for_all_its_urls() -> None:
    assert parse(path="s3a://bucket/kafka/").paths == ("s3://bucket/kafka",)
    both = ReadOptions.parse({"path": "s3://bucket/kafka,/data1, s3a://bucket/kafka , gs://other/x"})
    assert both.paths == ("s3://bucket/kafka", "/data1", "gs://other/x")
    with pytest.raises(OptionError, match="http://host/x: no such place for logs; give a directory, or an archive at"):
        parse(path="http://host/x")


def test_how_an_archive_is_read() -> None:
    access = parse().access
    assert (access.cache, access.cache_bytes_max, access.timeout_s) == (None, 2 << 30, 30.0)
    access = parse(cache="/disk1/cache", cacheSize="500m", timeout="5").access
    assert (access.cache, access.cache_bytes_max, access.timeout_s) == ("/disk1/cache", 500 << 20, 5.0)
    assert parse(cache="NONE").access.cache is None


@pytest.mark.parametrize("url", ["s3://bucket/kafka", "s3a://bucket/kafka", "hdfs://name/kafka"])
def test_what_writes_refuses_an_archive(url: str) -> None:
    refused = f"{url}: a write needs a directory that the driver and all executors see under one path; archives in"
    with pytest.raises(OptionError, match=re.escape(refused)):
        WriteOptions.parse({"path": url, "topic": "orders"})


def test_the_isolation_level_has_our_name_and_that_of_kafka() -> None:
    assert parse(isolation="read_committed").is_committed_only
    assert parse(**{"kafka.isolation.level": "read_committed"}).is_committed_only


def test_offsets_are_named_partition_by_partition() -> None:
    options = parse(startingOffsets='{"a":{"0":5,"1":-2}}', endingOffsetsByTimestamp='{"a":{"0":7}}')
    assert options.start.offsets == {("a", 0): 5, ("a", 1): -2}
    assert options.end.timestamps_ms == {("a", 0): 7}


REFUSED = {
    "an unknown name": ({"offset": "1"}, "unknown option offset"),
    "a broker": ({"kafka.bootstrap.servers": "b:9092"}, "pass the log directory to load()"),
    "no address": ({"path": ""}, "no log directory"),
    "a table's options": ({"owner": "ada", "location": "x"}, "CREATE TEMPORARY VIEW … USING offsetfs OPTIONS"),
    "two selections": ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern contradict"),
    "a relative cache": ({"cache": "blocks"}, "is neither none nor the absolute path of a directory"),
    "a cache without a size": ({"cacheSize": "much"}, "is not a size; write 500M or 2G"),
    "no topic": ({"subscribe": " , "}, "no topic is named"),
    "a broken pattern": ({"subscribePattern": "("}, "is not a regular expression"),
    "no JSON": ({"assign": "orders"}, "is not a JSON object"),
    "JSON of another shape": ({"assign": '{"a": 1}'}, "must be a JSON object such as"),
    "a start at the end": ({"startingOffsets": "latest"}, "leaves nothing to read"),
    "a start at the end of one": ({"startingOffsets": '{"a":{"0":-1}}'}, "leaves nothing to read"),
    "an end at the start": ({"endingOffsets": "earliest"}, "leaves nothing to read"),
    "an offset that cannot be": ({"startingOffsets": '{"a":{"0":-3}}'}, "the value must be a JSON object"),
    "an offset in words": ({"startingOffsets": '{"a":{"0":"5"}}'}, "the value must be a JSON object"),
    "a time that is none": ({"startingTimestamp": "today"}, "not a time in milliseconds"),
    "no number": ({"minPartitions": "-1"}, "not a whole number above 0"),
    "neither yes nor no": ({"failOnDataLoss": "yes"}, "neither true nor false"),
    "an unknown mode": ({"mode": "LENIENT"}, "must be one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
    "two levels": ({"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "contradict"),
    "a limit of streams": ({"maxOffsetsPerTrigger": "1"}, "maxOffsetsPerTrigger outside of a stream"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_cannot_be_is_named(name: str) -> None:
    options, sentence = REFUSED[name]
    with pytest.raises(OptionError) as caught:
        parse(**options)
    assert sentence in str(caught.value)


def test_a_stream_has_no_end_and_may_begin_at_the_latest() -> None:
    with pytest.raises(OptionError, match="endingOffsets in a stream, which has no end"):
        parse(is_stream=True, endingOffsets="latest")
    assert parse(is_stream=True, startingOffsets="latest").start.default == LATEST
    assert parse(is_stream=None, endingOffsets="latest", maxOffsetsPerTrigger="5").records_per_trigger_max == 5


def test_a_micro_batch_waits_for_so_many_offsets_and_so_long() -> None:
    assert parse(is_stream=True).records_per_trigger_min is None
    options = parse(is_stream=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    assert (options.records_per_trigger_min, options.trigger_delay_max_ms) == (5, 15 * 60_000)
    for text, wanted in ("250", 250), ("90s", 90_000), ("2 h", 7_200_000), ("1D", 86_400_000):
        assert parse(is_stream=True, maxTriggerDelay=text).trigger_delay_max_ms == wanted
    with pytest.raises(OptionError, match="maxTriggerDelay: 'soon' is not a time; write 30s"):
        parse(is_stream=True, maxTriggerDelay="soon")
    with pytest.raises(OptionError, match="minOffsetsPerTrigger, 6, and maxOffsetsPerTrigger, 5, contradict"):
        parse(is_stream=True, minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")


def test_the_page_names_every_option_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "use" / "spark.md").read_text()
    table = page.split("### Options", 1)[1].split("\n\n", 2)[1]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`([\w.]+)`", line.split("|")[1])}
    assert named | {"path", "paths"} == set(read_options.KNOWN)
