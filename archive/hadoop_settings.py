"""The namenodes of a URL of HDFS: their WebHDFS addresses, from the URL or the settings of Hadoop.

`webhdfs://HOST:PORT` and `swebhdfs://HOST:PORT` name one by its HTTP or HTTPS address. `hdfs://HOST:PORT` has the
address of its protocol for Java clients; the HTTP address of the same namenode is looked up in core-site.xml and
hdfs-site.xml. A name service, with or without several namenodes, is looked up for all three. Follows
org.apache.hadoop.hdfs.DFSUtilClient.
"""

from __future__ import annotations

import errno
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

_FILES = ("core-site.xml", "hdfs-site.xml")
_PORTS = {"webhdfs": 9870, "swebhdfs": 9871}
_RPC_PORT = "8020"
_ANY_HOST = "0.0.0.0"


def namenodes(url: str) -> list[str]:
    """Return the addresses of the namenodes of a URL, such as http://name:9870; several for a name service.

    OSError EINVAL if the URL or a file of settings is wrong; ENOTSUP for hdfs:// if the settings do not have it.
    """
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    host, _, port = (authority, "", "") if authority.endswith("]") else authority.rpartition(":")
    if ":" not in authority:
        host, port = authority, ""
    if not host or "@" in host or (":" in authority and not authority.endswith("]") and not port.isdecimal()):
        reason = f"write {scheme}://HOST:PORT/PATH; the user is that of HADOOP_USER_NAME, not of the URL"
        raise OSError(errno.EINVAL, reason, url)
    settings = _settings(url)
    is_tls = scheme == "swebhdfs" or (scheme == "hdfs" and settings.get("dfs.http.policy") == "HTTPS_ONLY")
    kind = "https" if is_tls else "http"
    if not port and host in _words(settings.get("dfs.nameservices", "")):
        addresses = _of_service(settings, host, kind)
        if not addresses:
            reason = f"hdfs-site.xml has no dfs.namenode.{kind}-address for the name service {host}; add it"
            raise OSError(errno.EINVAL, reason, url)
    elif scheme == "hdfs":
        addresses = _of_rpc_address(settings, host, port or _RPC_PORT, kind)
        if not addresses:
            reason = (
                f"the HTTP address of this namenode is not known, which offsetfs needs; write webhdfs://{host}"
                ":9870/PATH, or set HADOOP_CONF_DIR to the directory of its hdfs-site.xml"
            )
            raise OSError(errno.ENOTSUP, reason, url)
    else:
        addresses = [authority if port else f"{authority}:{_PORTS[scheme]}"]
    return [f"{kind}://{address}" for address in addresses]


def _of_service(settings: Mapping[str, str], service: str, kind: str) -> list[str]:
    ids = _words(settings.get(f"dfs.ha.namenodes.{service}", ""))
    names = [f".{service}.{namenode_id}" for namenode_id in ids] or [f".{service}", ""]
    return [_address(settings, kind, name, "") for name in names if _address(settings, kind, name, "")]


def _of_rpc_address(settings: Mapping[str, str], host: str, port: str, kind: str) -> list[str]:
    begin = "dfs.namenode.rpc-address"
    for name, value in settings.items():
        if name.startswith(begin) and _with_port(value) == f"{host}:{port}":
            address = _address(settings, kind, name.removeprefix(begin), host)
            if address:
                return [address]
    default = settings.get("fs.defaultFS", "").rstrip("/")
    if default.startswith("hdfs://") and _with_port(default.removeprefix("hdfs://")) == f"{host}:{port}":
        address = _address(settings, kind, "", host)
        return [address] if address else []
    return []


def _address(settings: Mapping[str, str], kind: str, suffix: str, host: str) -> str:
    address = settings.get(f"dfs.namenode.{kind}-address{suffix}", "")
    if host and address.startswith(f"{_ANY_HOST}:"):  # the namenode listens on all addresses
        return host + address.removeprefix(_ANY_HOST)
    return address


def _with_port(address: str) -> str:
    return address if ":" in address else f"{address}:{_RPC_PORT}"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _settings(url: str) -> dict[str, str]:
    """Return the settings of HADOOP_CONF_DIR, or HADOOP_HOME/etc/hadoop; none if neither is there."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    home = os.environ.get("HADOOP_HOME")
    if not folder and home:
        folder = os.path.join(home, "etc", "hadoop")
    settings: dict[str, str] = {}
    for name in _FILES if folder else ():
        path = os.path.join(str(folder), name)
        try:
            root = ElementTree.parse(path).getroot()
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            reason = f"{path}: cannot be read as settings of Hadoop: {error}; correct it, or unset HADOOP_CONF_DIR"
            raise OSError(errno.EINVAL, reason, url) from error
        for element in root.iter("property"):
            settings[(element.findtext("name") or "").strip()] = (element.findtext("value") or "").strip()
    return settings
