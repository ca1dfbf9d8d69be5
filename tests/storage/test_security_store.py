"""The SCRAM credentials and ACLs of a log directory: its file, and those of its cluster."""

import os
import stat
from pathlib import Path

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import MetadataDirectory
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import (
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
)
from offsetfs.storage import LogDirectory
from offsetfs.storage.checkpoint import LOGIN_SECRET_FILE, SECURITY_FILE
from offsetfs.storage.cluster import cluster_metadata, metadata_log
from offsetfs.storage.cluster.metadata_log import MetadataLog
from offsetfs.storage.cluster.security_image import UNREADABLE_ACL
from offsetfs.storage.errors import InheritedSecurity, InvalidSecurityFile, ReadOnlyLog
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.security import (
    Acl,
    ScramCredential,
    SecurityImage,
    SecurityStore,
    acl_record,
    credential_record,
    security_file,
)
from offsetfs.storage.verify import DAMAGE, Finding, Verification

pytestmark = pytest.mark.unit

SHA_256, SHA_512 = 1, 2
ALICE = ScramCredential(b"salt", b"stored", b"server", 4096)
NEWER = ScramCredential(b"newer", b"stored", b"server", 8192)
READS_ORDERS = Acl(2, "orders", 3, "User:alice", "*", 3, 3)
ID = bytes(range(16))


def cluster_of(path: Path, clock: FakeClock, *changes: ProtocolMessage) -> tuple[MetadataDirectory, MetadataLog]:
    directory = MetadataDirectory(path)
    directory.append([records.topic_record("orders"), *map(cluster_metadata.write_record, changes)])
    return directory, MetadataLog(os.fspath(directory.path), clock)


def test_a_new_directory_has_none(tmp_path: Path) -> None:
    assert SecurityStore(os.fspath(tmp_path)).image == SecurityImage()
    assert os.listdir(tmp_path) == []


def test_changes_are_in_the_file_and_removals_too(tmp_path: Path) -> None:
    path = os.fspath(tmp_path)
    store = SecurityStore(path)
    changed = store.change(
        [
            credential_record("alice", SHA_256, ALICE),
            credential_record("alice", SHA_512, ALICE),
            acl_record(ID, READS_ORDERS),
        ]
    )
    expected = SecurityImage({("alice", SHA_256): ALICE, ("alice", SHA_512): ALICE}, {ID: READS_ORDERS})
    assert changed == store.image == SecurityStore(path).image == expected
    store.change([RemoveUserScramCredentialRecord("alice", SHA_512), credential_record("alice", SHA_256, NEWER)])
    store.change([RemoveAccessControlEntryRecord(ID)])
    assert SecurityStore(path).image == store.image == SecurityImage({("alice", SHA_256): NEWER}, {})


def test_thousands_of_acls_are_in_several_batches(tmp_path: Path) -> None:
    acls = {number.to_bytes(16, "big"): Acl(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(2500)}
    SecurityStore(os.fspath(tmp_path)).change([acl_record(*each) for each in acls.items()])
    assert SecurityStore(os.fspath(tmp_path)).image.acls == acls


def test_a_subscriber_gets_each_new_image(tmp_path: Path) -> None:
    store, seen = SecurityStore(os.fspath(tmp_path)), list[SecurityImage]()
    store.subscribe(seen.append)
    store.change([acl_record(ID, READS_ORDERS)])
    assert seen == [SecurityImage({}, {ID: READS_ORDERS})]


def test_only_the_owner_can_open_the_file_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SecurityStore(os.fspath(tmp_path))
        for _ in range(2):
            store.change([acl_record(ID, READS_ORDERS)])
            assert stat.S_IMODE((tmp_path / SECURITY_FILE).stat().st_mode) == 0o600
            (tmp_path / SECURITY_FILE).chmod(0o644)
    finally:
        os.umask(before)


def test_a_change_that_cannot_be_written_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, seen = SecurityStore(os.fspath(tmp_path)), list[SecurityImage]()
    store.subscribe(seen.append)
    monkeypatch.setattr(security_file, "BYTES_MAX", 10)
    with pytest.raises(InvalidSecurityFile, match="remove some ACLs"):
        store.change([acl_record(ID, READS_ORDERS)])
    assert store.image == SecurityImage() and not seen
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("damage", ["flip", "cut", "no footer", "empty", "other record"])
def test_a_damaged_file_is_an_error_that_names_the_path(tmp_path: Path, damage: str) -> None:
    path = tmp_path / SECURITY_FILE
    SecurityStore(os.fspath(tmp_path)).change([acl_record(ID, READS_ORDERS)])
    data = path.read_bytes()
    other = build([(None, cluster_metadata.write_record(FeatureLevelRecord("x", 1)), (), 0)], base_offset=1)
    begin = 12 + int.from_bytes(data[8:12], "big")
    footer = data.rindex(bytes([0] * 7) + b"\x02", begin)  # the base offset of the footer
    path.write_bytes(
        {
            "flip": data[: begin + 80] + bytes([data[begin + 80] ^ 1]) + data[begin + 81 :],
            "cut": data[:-1],
            "no footer": data[:footer],
            "empty": b"",
            "other record": data[:begin] + bytes(other) + data[footer:],
        }[damage]
    )
    with pytest.raises(InvalidSecurityFile) as caught:
        SecurityStore(os.fspath(tmp_path))
    assert caught.value.path == os.fspath(path)
    assert "restore the file from a copy, or move it away to start without credentials" in caught.value.reason
    findings: list[Finding] = []
    Verification(os.fspath(tmp_path), report=findings.append).run()
    assert [each.kind for each in findings if each.severity == DAMAGE] == ["security"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / SECURITY_FILE, "wb") as file:
        file.truncate(security_file.BYTES_MAX + 1)
    with pytest.raises(InvalidSecurityFile, match="larger than 67108864 bytes"):
        SecurityStore(os.fspath(tmp_path))


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / SECURITY_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a symbolic link"):
        SecurityStore(os.fspath(tmp_path))


def test_what_was_opened_for_reading_does_not_change(tmp_path: Path) -> None:
    store = SecurityStore(os.fspath(tmp_path), read_only=True)
    with pytest.raises(ReadOnlyLog):
        store.change([acl_record(ID, READS_ORDERS)])
    assert os.listdir(tmp_path) == []


def test_the_file_is_no_partition_and_verify_knows_it(tmp_path: Path) -> None:
    SecurityStore(os.fspath(tmp_path)).change([acl_record(ID, READS_ORDERS)])
    directory = LogDirectory.open(os.fspath(tmp_path))
    assert directory.partitions() == []
    directory.close()
    findings: list[Finding] = []
    Verification(os.fspath(tmp_path), report=findings.append).run()
    assert [each.kind for each in findings] == ["not-closed"]


# --- the cluster -----------------------------------------------------------------------------------------------------


def test_those_of_the_cluster_apply_as_well(tmp_path: Path) -> None:
    clock = FakeClock()
    known = credential_record("alice", SHA_256, ALICE), acl_record(ID, READS_ORDERS)
    directory, log = cluster_of(tmp_path, clock, *known)
    store = SecurityStore(os.fspath(tmp_path), log)
    assert store.follows_cluster and store.problem is None
    assert store.image == SecurityImage({("alice", SHA_256): ALICE}, {ID: READS_ORDERS})
    other = Acl(3, "billing", 3, "User:bob", "*", 3, 3)
    store.change([acl_record(b"o" * 16, other), credential_record("bob", SHA_256, ALICE)])
    assert store.image.acls == {ID: READS_ORDERS, b"o" * 16: other}
    assert SecurityStore(os.fspath(tmp_path)).image.acls == {b"o" * 16: other}
    seen: list[SecurityImage] = []
    store.subscribe(seen.append)
    changes = RemoveAccessControlEntryRecord(ID), credential_record("bob", SHA_256, NEWER)
    directory.append(cluster_metadata.write_record(each) for each in changes)
    clock.advance(1000 * metadata_log.CHECK_INTERVAL_S)
    store.refresh()
    assert store.image.acls == {b"o" * 16: other}
    assert store.image.credentials["bob", SHA_256] == NEWER  # the cluster has precedence
    assert seen == [store.image]


def test_those_of_the_cluster_are_read_only(tmp_path: Path) -> None:
    known = credential_record("alice", SHA_256, ALICE), acl_record(ID, READS_ORDERS)
    _, log = cluster_of(tmp_path, FakeClock(), *known)
    store = SecurityStore(os.fspath(tmp_path), log)
    for change in (
        RemoveAccessControlEntryRecord(ID),
        RemoveUserScramCredentialRecord("alice", SHA_256),
        credential_record("alice", SHA_256, NEWER),
    ):
        with pytest.raises(InheritedSecurity, match="in the metadata log of the cluster"):
            store.change([acl_record(b"o" * 16, READS_ORDERS), change])
    assert not (tmp_path / SECURITY_FILE).exists()


@pytest.mark.parametrize("frame", [b"\x01\x12\x09\xff", b"\x01\x13\x00\xff", b"\x02\x12\x00"])
def test_a_record_of_an_acl_that_cannot_be_read_denies_everything(tmp_path: Path, frame: bytes) -> None:
    clock = FakeClock()
    directory, log = cluster_of(tmp_path, clock)
    store = SecurityStore(os.fspath(tmp_path), log)
    before = len(store.image.acls)
    directory.append([frame])  # while a broker runs: of a newer version, damaged, in another frame
    clock.advance(1000 * metadata_log.CHECK_INTERVAL_S)
    store.refresh()
    assert store.problem is not None and len(store.image.acls) == before + 1
    assert UNREADABLE_ACL in store.image.acls.values()


def test_the_secret_of_logins_stays_and_is_private(tmp_path: Path) -> None:
    assert len(SecurityStore(os.fspath(tmp_path), read_only=True).login_secret()) == 32
    assert not (tmp_path / LOGIN_SECRET_FILE).exists()
    found = SecurityStore(os.fspath(tmp_path)).login_secret()
    assert stat.S_IMODE((tmp_path / LOGIN_SECRET_FILE).stat().st_mode) == 0o600 and len(found) == 32
    for read_only in (True, False):
        assert SecurityStore(os.fspath(tmp_path), read_only=read_only).login_secret() == found
    (tmp_path / LOGIN_SECRET_FILE).write_bytes(b"cut")
    assert len(SecurityStore(os.fspath(tmp_path)).login_secret()) == 32


def test_the_secret_of_logins_stays_where_nothing_can_be_written(tmp_path: Path) -> None:
    SecurityStore(os.fspath(tmp_path)).change([credential_record("alice", SHA_256, NEWER)])
    stores = [SecurityStore(os.fspath(tmp_path), read_only=True) for _ in range(2)]
    assert stores[0].login_secret() == stores[1].login_secret()


def test_a_damaged_metadata_log_is_a_problem(tmp_path: Path) -> None:
    directory, log = cluster_of(tmp_path, FakeClock())
    directory.append([b"\x01\x0b\x00\xff"])  # a credential without its fields
    assert "a metadata record" in str(SecurityStore(os.fspath(tmp_path), log).problem)
