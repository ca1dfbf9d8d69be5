"""After a crash: what is cut, what is kept beside, what survives damage; and that appends go on."""

import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from offsetfs.storage import files
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, RECOVERY_POINTS, read_offsets, write_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)
BATCH_SIZE = 61 + 6 + 1 + 100 + 1  # header, record overhead (two bytes of length), value, headers count
COUNT = 20


def sealed(value: bytes, timestamp: int, key: bytes | None = None) -> SealedBatch:
    builder = BatchBuilder(1 << 16, Compression("none"))
    assert builder.append(key, value, (), timestamp)
    return builder.seal()


def value(number: int) -> bytes:
    return b"%05d" % number + b"v" * 95


def values_of(log: Log) -> list[bytes | None]:
    batches = (b for s in log.snapshot() for b in s.batches(on_damage=lambda error, position: None))
    return [record.value for batch in batches for record in batch.records()]


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A directory as `kill -9` leaves it: twenty batches, none synced, no mark of a clean shutdown."""
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(PARTITION, {"index.interval.bytes": "300"})
    for number in range(COUNT):
        log.append(sealed(value(number), 1000 + number))
    directory._lock.release()
    shutil.copytree(path, tmp_path / "crashed")
    return tmp_path / "crashed"


@pytest.fixture
def rolled(tmp_path: Path) -> Callable[..., Path]:
    """Call it with settings: four segments of five batches as `kill -9` leaves them, nothing synced by a flush."""

    def make(properties: Mapping[str, str] = MappingProxyType({}), key: bytes | None = None) -> Path:
        path = tmp_path / "rolled"
        path.mkdir()
        directory = LogDirectory.open(str(path))
        log = directory.create_partition(PARTITION, {"segment.bytes": "900", **properties})
        for number in range(COUNT):
            log.append(sealed(value(number), 1000 + number, key))
        assert len(log.snapshot()) == 4
        directory._lock.release()
        return path

    return make


def segment_file(path: Path, suffix: str = ".log") -> Path:
    return path / "orders-0" / f"{0:020d}{suffix}"


def overwrite(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def recovered(path: Path) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(str(path))
    log = directory.log(PARTITION)
    log.check()
    return directory, log


def goes_on(path: Path, log: Log, directory: LogDirectory) -> None:
    """Append, close, open again, and read everything once more."""
    before = values_of(log)
    log.append(sealed(b"later", 5000))
    directory.close()
    _, again = recovered(path)
    assert values_of(again) == [*before, b"later"]


def test_an_intact_log_is_recovered_whole(crashed: Path) -> None:
    directory, log = recovered(crashed)
    assert (log.next_offset, log.damage) == (COUNT, ())
    assert values_of(log) == [value(n) for n in range(COUNT)]
    goes_on(crashed, log, directory)


@dataclass(frozen=True)
class Corruption:
    """Something done to the log file, and how many records survive it."""

    name: str
    spoil: Callable[[Path, int], None]
    survivors: int


def _size(path: Path) -> int:
    return segment_file(path).stat().st_size


CORRUPTIONS = [
    Corruption("the last batch torn", lambda p, b: _truncate(p, _size(p) - 1), COUNT - 1),
    Corruption("only a header left of the last", lambda p, b: _truncate(p, (COUNT - 1) * b + 61), COUNT - 1),
    Corruption("a bit in the body of batch 15", lambda p, b: _flip(p, 15 * b + 100), 15),
    Corruption("a bit in the length of batch 15", lambda p, b: _flip(p, 15 * b + 9), 15),
    Corruption("a bit in the offset of batch 15", lambda p, b: _flip(p, 15 * b + 1), 15),
    Corruption("batch 15 all zeros", lambda p, b: overwrite(segment_file(p), 15 * b, bytes(b)), 15),
    Corruption("zeros after the end", lambda p, b: overwrite(segment_file(p), COUNT * b, bytes(5000)), COUNT),
    Corruption("garbage after the end", lambda p, b: overwrite(segment_file(p), COUNT * b, b"\xff" * 500), COUNT),
    Corruption("an empty file", lambda p, b: _truncate(p, 0), 0),
]


def _truncate(path: Path, size: int) -> None:
    with segment_file(path).open("r+b") as stream:
        stream.truncate(size)


def _flip(path: Path, position: int) -> None:
    file = segment_file(path)
    overwrite(file, position, bytes([file.read_bytes()[position] ^ 0x10]))


@pytest.mark.long
@pytest.mark.promise("Recovery removes data only beyond the recovery point, and keeps it in a file beside the log.")
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda c: c.name)
def test_the_log_is_cut_at_the_first_unsound_batch_and_what_is_cut_is_kept(
    crashed: Path, corruption: Corruption
) -> None:
    batch_size = _size(crashed) // COUNT
    corruption.spoil(crashed, batch_size)
    spoiled = segment_file(crashed).read_bytes()
    directory, log = recovered(crashed)
    assert values_of(log) == [value(n) for n in range(corruption.survivors)]
    rest = spoiled[corruption.survivors * batch_size :]
    kept = sorted((crashed / "orders-0").glob("*.cut-*"))
    assert [file.read_bytes() for file in kept] == ([rest] if rest.strip(b"\0") else [])
    assert len(log.damage) == (1 if rest else 0)
    goes_on(crashed, log, directory)


@pytest.mark.damages
@pytest.mark.promise("Recovery removes data only beyond the recovery point, and keeps it in a file beside the log.")
def test_damage_before_the_recovery_point_is_reported_and_never_cut(crashed: Path) -> None:
    batch_size = _size(crashed) // COUNT
    write_offsets(str(crashed / RECOVERY_POINTS), {PARTITION: COUNT})
    _flip(crashed, 5 * batch_size + 100)
    _flip(crashed, 9 * batch_size + 9)
    before = segment_file(crashed).read_bytes()
    directory, log = recovered_with_damage(crashed)
    assert segment_file(crashed).read_bytes() == before
    assert [(d.position, d.offset) for d in log.damage] == [(5 * batch_size, 5), (9 * batch_size, 9)]
    assert values_of(log) == [value(n) for n in range(COUNT) if n not in (5, 9)]
    with pytest.raises(CorruptBatch):
        log.batch_at(5)
    for number in (4, 6, 8, 10):
        batch = log.batch_at(number)
        record = batch.record(number) if batch else None
        assert record is not None and record.value == value(number)
    with pytest.raises(StorageError):
        log.batch_at(9)
    assert log.append(sealed(b"later", 5000)).base_offset == COUNT
    directory.close()


def recovered_with_damage(path: Path) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(str(path))
    return directory, directory.log(PARTITION)


@pytest.mark.damages
@pytest.mark.promise("Offsets that were on disk once are never assigned again.")
def test_offsets_below_the_recovery_point_are_never_given_out_again(crashed: Path) -> None:
    write_offsets(str(crashed / RECOVERY_POINTS), {PARTITION: COUNT})
    batch_size = _size(crashed) // COUNT
    overwrite(segment_file(crashed), (COUNT - 2) * batch_size, b"\xff" * (2 * batch_size))
    directory, log = recovered_with_damage(crashed)
    assert log.append(sealed(b"later", 5000)).base_offset == COUNT
    directory.close()


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.promise(
    "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer."
)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "zeros", "random", "odd length", "points into a batch", "points too far"])
@pytest.mark.parametrize("clean", [True, False])
def test_an_index_that_lies_costs_time_and_no_answer(tmp_path: Path, suffix: str, how: str, clean: bool) -> None:
    path = tmp_path
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(PARTITION, {"index.interval.bytes": "300", "segment.bytes": "3000"})
    for number in range(60):
        log.append(sealed(value(number), 1000 + number))
    directory.close()
    if not clean:
        (path / CLEAN_SHUTDOWN).unlink()
    for file in (path / "orders-0").glob(f"*{suffix}"):
        _spoil_index(file, how)
    for read_only in (True, False):
        again = LogDirectory.open(str(path), read_only=read_only)
        reader = again.log(PARTITION)
        for number in range(60):
            batch = reader.batch_at(number)
            assert batch is not None and batch.header.base_offset == number
            assert reader.find_timestamp(1000 + number) == (number, 1000 + number)
        assert reader.find_timestamp(1060) is None
    reader.append(sealed(b"later", 5000))
    again.close()
    assert values_of(recovered(path)[1])[-1] == b"later"


def _spoil_index(file: Path, how: str) -> None:
    data = file.read_bytes()
    entry = struct.Struct(">ii" if file.suffix == ".index" else ">qi")
    entries = [list(entry.unpack_from(data, at)) for at in range(0, len(data), entry.size)]
    match how:
        case "missing":
            file.unlink()
            return
        case "zeros":
            data = bytes(len(data))
        case "random":
            data = bytes((i * 197 + 31) % 256 for i in range(len(data)))
        case "odd length":
            data += b"\1\2\3"
        case "points into a batch":
            data = b"".join(entry.pack(a, b + (7 if file.suffix == ".index" else 0)) for a, b in entries)
        case "points too far":
            data = b"".join(entry.pack(a, b + (700 if file.suffix == ".index" else 2)) for a, b in entries)
    file.write_bytes(data)


def test_segments_after_a_cut_are_set_aside_whole(crashed: Path) -> None:
    directory, log = recovered(crashed)
    log.roll()
    log.append(sealed(b"second segment", 5000))
    directory._lock.release()
    _flip(crashed, 100)
    write_offsets(str(crashed / RECOVERY_POINTS), {PARTITION: 0})
    directory, log = recovered(crashed)
    assert (values_of(log), log.next_offset) == ([], 0)
    assert len(list((crashed / "orders-0").glob("*.cut-0"))) == 2
    goes_on(crashed, log, directory)


@pytest.mark.damages
def test_a_reader_of_a_crashed_directory_shows_what_is_sound(crashed: Path) -> None:
    _truncate(crashed, _size(crashed) - 1)
    before = {p: p.read_bytes() for p in crashed.rglob("*") if p.is_file()}
    log = LogDirectory.open(str(crashed), read_only=True).log(PARTITION)
    assert values_of(log) == [value(n) for n in range(COUNT - 1)]
    assert log.next_offset == COUNT - 1
    assert {p: p.read_bytes() for p in crashed.rglob("*") if p.is_file()} == before


def test_recovered_offsets_reach_the_checkpoint(crashed: Path) -> None:
    directory, _ = recovered(crashed)
    directory.close()
    assert read_offsets(str(crashed / RECOVERY_POINTS)) == {PARTITION: COUNT}
    assert (crashed / CLEAN_SHUTDOWN).exists()


# --- the end of a segment that is not the last one -------------------------------------------------------------------


def lose_the_end(path: Path, base: int, batches: int) -> None:
    """What a power cut leaves where the kernel had written later segments first: a whole batch ends the file."""
    file = path / "orders-0" / f"{base:020d}.log"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 5 * batches])


@pytest.mark.parametrize("batches", [0, 3])
def test_a_segment_that_lost_its_end_ends_the_log(rolled: Callable[..., Path], batches: int) -> None:
    path = rolled()
    lose_the_end(path, 5, batches)
    directory, log = recovered(path)
    assert values_of(log) == [value(n) for n in range(5 + batches)] and log.next_offset == 5 + batches
    assert [damage.offset for damage in log.damage] == [10, 15]
    assert sorted(path.glob("orders-0/*.cut-0")) == [path / "orders-0" / f"{base:020d}.cut-0" for base in (10, 15)]
    goes_on(path, log, directory)


@pytest.mark.damages
@pytest.mark.parametrize(
    ("suffix", "half"), [(".index", struct.pack(">ii", 99, 0)), (".timeindex", struct.pack(">qi", 1 << 42, 0))]
)
def test_an_index_with_half_an_entry_is_rebuilt_before_an_append(
    suffix: str, half: bytes, rolled: Callable[..., Path]
) -> None:
    path = rolled()
    directory, log = recovered(path)
    directory.close()
    index = path / "orders-0" / f"{15:020d}{suffix}"
    index.write_bytes(index.read_bytes() + half)
    directory = LogDirectory.open(str(path))
    log = directory.log(PARTITION)
    goes_on(path, log, directory)


@pytest.mark.damages
def test_a_segment_that_lost_its_end_is_reported_to_a_reader(rolled: Callable[..., Path]) -> None:
    path = rolled()
    write_offsets(str(path / RECOVERY_POINTS), {PARTITION: 0})
    lose_the_end(path, 5, 3)
    log = LogDirectory.open(str(path), read_only=True).log(PARTITION)
    (damage,) = log.damage
    assert (damage.position, damage.offset) == (Path(damage.path).stat().st_size, 8)
    assert damage.path.endswith("00000000000000000005.log") and "offsets 8 to 9 are missing" in damage.reason
    assert values_of(log) == [value(n) for n in range(COUNT) if n not in (8, 9)]


@pytest.mark.damages
@pytest.mark.parametrize(
    "recovery_point", [0, 10, None], ids=["whole", "compacted below", "a copy without checkpoints"]
)
def test_a_crashed_log_without_holes_reports_none_to_a_reader(
    rolled: Callable[..., Path], recovery_point: int | None
) -> None:
    path = rolled()
    if recovery_point is not None:
        write_offsets(str(path / RECOVERY_POINTS), {PARTITION: recovery_point})
    if recovery_point != 0:
        lose_the_end(path, 5, 3)
    assert LogDirectory.open(str(path), read_only=True).log(PARTITION).damage == ()


def test_a_gap_between_segments_of_a_compacted_log_is_no_damage(rolled: Callable[..., Path]) -> None:
    path = rolled({"cleanup.policy": "compact"}, b"key")
    lose_the_end(path, 5, 2)
    _, log = recovered(path)
    assert log.damage == () and log.next_offset == COUNT


def test_a_log_with_gaps_elsewhere_was_compacted_and_keeps_what_follows_a_gap(rolled: Callable[..., Path]) -> None:
    path = rolled()
    first = path / "orders-0" / f"{0:020d}.log"
    data, size = first.read_bytes(), first.stat().st_size // 5
    first.write_bytes(data[: 2 * size] + data[3 * size :])
    lose_the_end(path, 5, 3)
    _, log = recovered(path)
    assert log.damage == () and log.next_offset == COUNT


def test_a_compacted_log_is_on_disk_up_to_where_it_rolled(
    rolled: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    made, wrote = files.create_file, files.File.write

    def create_file(path: str, *, is_private: bool = False) -> files.File:
        happened.append(f"made {Path(path).name}")
        return made(path, is_private=is_private)

    def write(file: files.File, position: int, data: bytes) -> None:
        happened.append(f"wrote {Path(file.path).name}")
        wrote(file, position, data)

    monkeypatch.setattr(files, "create_file", create_file)
    monkeypatch.setattr(files.File, "write", write)
    monkeypatch.setattr(files.File, "sync", lambda file: happened.append(f"synced {Path(file.path).name}"))
    rolled({"cleanup.policy": "compact"}, b"key")
    for name, following in ((f"{base:020d}.log", f"{base + 5:020d}.log") for base in (0, 5, 10)):
        assert [each for each in happened if each in (f"wrote {name}", f"synced {name}", f"made {following}")][-2:] == [
            f"synced {name}",
            f"made {following}",
        ]
