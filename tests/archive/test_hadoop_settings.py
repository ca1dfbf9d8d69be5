"""The addresses of namenodes: from a URL, and from the settings of Hadoop."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from offsetfs.archive.hadoop_settings import namenodes
from offsetfs.archive.object_store import ObjectStore, StoreSettings

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def write(conf: Path, name: str, **settings: str) -> None:
    lines = (
        f"<property><name>{key.replace('__', '-').replace('_', '.')}</name><value>{value}</value></property>"
        for key, value in settings.items()
    )
    (conf / name).write_text(f"<?xml version='1.0'?><configuration>{''.join(lines)}</configuration>")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("webhdfs://name:50070/a", "http://name:50070"),
        ("webhdfs://name/a", "http://name:9870"),
        ("swebhdfs://name/a", "https://name:9871"),
        ("swebhdfs://name:1/a", "https://name:1"),
        ("webhdfs://[::1]:9870/a", "http://[::1]:9870"),
        ("webhdfs://[::1]/a", "http://[::1]:9870"),
    ],
)
def test_a_url_of_webhdfs_names_its_namenode(url: str, address: str) -> None:
    assert namenodes(url) == [address]


@pytest.mark.parametrize("url", ["webhdfs://me@name:9870/a", "webhdfs://name:x/a", "webhdfs://:9870/a", "webhdfs:///a"])
def test_a_url_without_a_host_and_port_is_refused(url: str) -> None:
    with pytest.raises(OSError, match="write webhdfs://HOST:PORT/PATH") as found:
        namenodes(url)
    assert (found.value.errno, found.value.filename) == (errno.EINVAL, url)


def test_hdfs_is_refused_with_the_url_that_works_without_its_settings(conf: Path) -> None:
    for url in ("hdfs://name:8020/kafka", "hdfs://name/kafka"):
        with pytest.raises(OSError, match="write webhdfs://name:9870/PATH, or set HADOOP_CONF_DIR") as found:
            ObjectStore(url)
        assert found.value.errno == errno.ENOTSUP
    write(conf, "core-site.xml", fs_defaultFS="hdfs://name:8020/")
    write(conf, "hdfs-site.xml", dfs_namenode_http__address="0.0.0.0:9999")
    assert namenodes("hdfs://name:8020/kafka") == namenodes("hdfs://name/kafka") == ["http://name:9999"]
    with pytest.raises(OSError, match="is not known"):
        namenodes("hdfs://other:8020/kafka")


def test_a_name_service_has_the_addresses_of_all_its_namenodes(conf: Path) -> None:
    write(
        conf,
        "hdfs-site.xml",
        dfs_nameservices="logs, more",
        dfs_ha_namenodes_logs="a,b",
        dfs_namenode_http__address_logs_a="one:9870",
        dfs_namenode_http__address_logs_b="two:9870",
        dfs_namenode_https__address_logs_a="one:9871",
        dfs_namenode_rpc__address_logs_b="two:8020",
        dfs_namenode_http__address_more="three:9870",
    )
    assert namenodes("hdfs://logs/kafka") == namenodes("webhdfs://logs/a") == ["http://one:9870", "http://two:9870"]
    assert namenodes("swebhdfs://logs/kafka") == ["https://one:9871"]
    assert namenodes("hdfs://more/kafka") == ["http://three:9870"]
    assert namenodes("hdfs://two:8020/kafka") == ["http://two:9870"]
    assert namenodes("webhdfs://logs:9870/kafka") == ["http://logs:9870"]
    write(conf, "hdfs-site.xml", dfs_nameservices="logs")
    with pytest.raises(OSError, match=r"has no dfs\.namenode\.http-address for the name service logs"):
        namenodes("hdfs://logs/kafka")


def test_settings_of_hadoop_that_cannot_be_read_are_an_error_with_their_path(conf: Path) -> None:
    (conf / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(OSError, match=r"hdfs-site.xml: cannot be read as settings of Hadoop: .*; correct it") as found:
        namenodes("hdfs://logs/kafka")
    assert found.value.errno == errno.EINVAL


def test_settings_of_other_stores_are_refused_for_hdfs() -> None:
    with pytest.raises(OSError, match="those of the directory for webhdfs://; leave them out"):
        ObjectStore("webhdfs://name/x", StoreSettings(storage_class="STANDARD_IA"))
    with pytest.raises(OSError, match="an endpoint is not for webhdfs://: the URL names the namenode"):
        ObjectStore("webhdfs://name/x", StoreSettings(endpoint="http://name:9870"))


def test_a_process_without_a_user_name_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_user() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr("getpass.getuser", no_user)
    with pytest.raises(OSError, match="no user name; set HADOOP_USER_NAME") as found:
        ObjectStore("webhdfs://name/x")
    assert (found.value.errno, found.value.filename) == (errno.EACCES, "webhdfs://name/x")
    monkeypatch.setenv("HADOOP_USER_NAME", "kafka")
    assert ObjectStore("webhdfs://name/x").url == "webhdfs://name/x"
