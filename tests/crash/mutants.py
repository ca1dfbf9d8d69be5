"""Known mistakes, as small changes of our own code, each with the test that is there to catch it.

A change is text of one file that is replaced by other text; the text must be there, and once. docs/evidence/mutants.md
counts them by subject.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake: `name` says what the code does then, `test` is the pytest id of the test that fails of it."""

    name: str
    file: str
    test: str
    changes: tuple[tuple[str, str], ...]

    def applied(self, source: str) -> str:
        """Return `source` with the mistake in it; AssertionError where the code is no longer as the change knows it."""
        for old, new in self.changes:
            assert source.count(old) == 1, f"mutant “{self.name}” does not fit {self.file} any more: {old!r}"
            source = source.replace(old, new)
        return source


_SYNC = "tests/storage/test_sync_promises.py::"
_POWER = "tests/storage/test_after_power_loss.py::"
_LOG = "tests/storage/test_log.py::"
_DIRECTORY = "tests/storage/test_directory.py::"
_MARKERS = "tests/storage/test_compaction_transactions.py::"
_BROKER = "tests/broker/"

MUTANTS = (
    Mutant(
        "a flush does not sync the log file",
        "storage/segments/segment.py",
        _SYNC + "test_what_was_flushed_is_there_after_a_power_cut",
        (("        opened.log.sync()\n        opened.index.sync()\n", "        opened.index.sync()\n"),),
    ),
    Mutant(
        "a flush does not sync the log files that rolled",
        "storage/segments/segment.py",
        _SYNC + "test_what_was_flushed_is_there_after_a_power_cut",
        (
            (
                "            with self.names_lock:\n                if not self.is_removed:\n"
                "                    segment_files.sync_closed(self)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "no directory is ever synced",
        "storage/files.py",
        _SYNC + "test_what_was_flushed_is_there_after_a_power_cut",
        (("        try:\n            os.fsync(fd)\n", "        try:\n            pass\n"),),
    ),
    Mutant(
        "a new partition's name is not synced",
        "storage/directory/partition_directories.py",
        _SYNC + "test_what_was_flushed_is_there_after_a_power_cut",
        (("    files.sync_directory(directory)\n", ""),),
    ),
    Mutant(
        "a new partition has its name before all in it is on disk",
        "storage/directory/partition_directories.py",
        _POWER + "test_partitions_made_together_survive_a_power_cut_whole_or_not_at_all",
        (("    files.sync_directory(path)\n", ""),),
    ),
    Mutant(
        "records count as synced before the sync",
        "storage/partition/log.py",
        _LOG + "test_a_failed_sync_ends_writing_to_the_log",
        (
            ("                self._state = self._state.synced_to(target)\n", ""),
            (
                "            try:\n                for segment in dirty:\n",
                "            self._state = self._state.synced_to(target)\n"
                "            try:\n                for segment in dirty:\n",
            ),
        ),
    ),
    Mutant(
        "a failed sync is tried again",
        "storage/partition/log.py",
        _LOG + "test_a_failed_sync_ends_writing_to_the_log",
        (
            (
                "                    self.failure = error\n                raise\n",
                "                    self._dirty, self._names_dirty = dirty, names\n                raise\n",
            ),
        ),
    ),
    Mutant(
        "a torn write is not undone",
        "storage/segments/segment.py",
        _LOG + "test_a_full_disk_leaves_the_log_as_it_was_and_usable_afterwards",
        (("            opened.log.truncate(position)\n", "            pass\n"),),
    ),
    Mutant(
        "the checksum is not verified on a read",
        "storage/records/format/batch.py",
        "tests/storage/test_recovery.py::test_damage_before_the_recovery_point_is_reported_and_never_cut",
        (("    if checksum != header.crc:\n", "    if False:\n"),),
    ),
    Mutant(
        "an index entry names the next batch",
        "storage/segments/segment.py",
        _LOG + "test_an_index_entry_names_the_last_offset_and_the_place_of_its_batch",
        (
            (
                "self._index(opened, last_offset, position)\n        self",
                "self._index(opened, last_offset, position + batch.size)\n        self",
            ),
        ),
    ),
    Mutant(
        "a swap retires the old segments before the new ones are `.swap`",
        "storage/partition/changes.py",
        "tests/storage/test_compaction_crash.py::"
        "test_a_crash_at_any_step_shows_the_old_segments_or_the_new_ones[one group]",
        (
            ("        swap.prepare(log.path, [segment.base_offset for segment in new])\n", ""),
            ("            swap.install(", "            swap.prepare(log.path, bases)\n            swap.install("),
        ),
    ),
    Mutant(
        "the undo of a swap removes `.swap` files while a crash would complete it",
        "storage/partition/swap.py",
        "tests/storage/test_swap_on_a_full_disk.py::"
        "test_a_crash_at_any_step_of_the_undo_shows_the_old_segments_or_the_new_ones[several segments]",
        (
            (
                "    files.rename(last, last.removesuffix(SWAP) + CLEANED)\n    files.sync_directory(directory)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "the clean mark is written although a log has failed",
        "storage/directory/directory.py",
        _SYNC + "test_no_mark_of_a_clean_end_is_left_where_a_log_has_failed",
        (
            (
                "                errors += [log.failure for log in self.open_logs() if log.failure is not None]\n",
                "",
            ),
        ),
    ),
    Mutant(
        "the clean mark is written before the logs are closed",
        "storage/directory/directory.py",
        _SYNC + "test_a_mark_of_a_clean_end_is_never_on_disk_before_what_was_appended",
        (
            (
                "                errors += self._close_logs()\n",
                "                self._mark.restore()\n                errors += self._close_logs()\n",
            ),
        ),
    ),
    Mutant(
        "the clean mark stays when the first change comes",
        "storage/directory/directory_checkpoints.py",
        _DIRECTORY + "test_the_first_write_takes_the_clean_mark_away_and_closing_brings_it_back",
        (("                    CleanShutdown.remove(self._path)\n", "                    pass\n"),),
    ),
    Mutant(
        "the clean mark is removed, but not on disk",
        "storage/checkpoint.py",
        _SYNC + "test_a_mark_of_a_clean_end_is_gone_before_an_append_is_on_disk",
        (
            (
                "            files.remove_file(path)\n        files.sync_directory(directory)",
                "            files.remove_file(path)",
            ),
        ),
    ),
    Mutant(
        "the lock is not taken",
        "storage/lock.py",
        _DIRECTORY + "test_a_second_writer_is_refused_with_the_pid_of_the_first",
        (
            ("                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", ""),
            ("                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "                pass\n"),
        ),
    ),
    Mutant(
        "the lock that a broker sees is not taken",
        "storage/lock.py",
        _SYNC + "test_a_brokers_request_for_the_lock_is_refused",
        (("                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", ""),),
    ),
    Mutant(
        "recovery cuts before the recovery point",
        "storage/recovery/recovery.py",
        "tests/storage/test_recovery.py::test_damage_before_the_recovery_point_is_reported_and_never_cut",
        (("                if self.next_offset >= self._recovery_point:\n", "                if True:\n"),),
    ),
    Mutant(
        "recovery keeps what follows a hole",
        "storage/recovery/recovery.py",
        "tests/storage/test_recovery.py::test_a_segment_that_lost_its_end_ends_the_log",
        (("            if last is not None and self._is_after_gap(segment):\n", "            if False:\n"),),
    ),
    Mutant(
        "files go before the log start is in the checkpoint",
        "storage/directory/directory.py",
        "tests/storage/test_retention.py::test_the_new_start_is_on_disk_before_any_file_goes",
        (("        self.checkpoints.raise_log_starts(starts)\n", ""),),
    ),
    Mutant(
        "retention takes the active segment without a roll",
        "storage/partition/retention.py",
        "tests/storage/test_retention.py::test_an_expired_active_segment_is_rolled_and_then_goes",
        (("    if expiry.segments and expiry.segments[-1] is log.snapshot().active:\n", "    if False:\n"),),
    ),
    Mutant(
        "a tombstone has no horizon, and goes at once",
        "storage/compaction/compaction.py",
        "tests/storage/test_compaction.py::test_a_tombstone_stays_for_delete_retention_from_its_first_round",
        (("min(now_ms + log.config.delete_retention_ms, I64_MAX)", "now_ms"),),
    ),
    Mutant(
        "the marker of a transaction goes at once",
        "storage/compaction/batch_filter.py",
        _MARKERS + "test_the_marker_of_an_abort_goes_a_time_after_the_data",
        (("        if (is_discardable and is_due) or", "        if is_discardable or"),),
    ),
    Mutant(
        "the last batch of a producer goes",
        "storage/compaction/compaction.py",
        _MARKERS + "test_the_last_batch_of_a_producer_stays_empty_until_it_writes_again",
        (("{producer_id: entry.last_offset for producer_id, entry in producers.items()}", "dict[int, int]()"),),
    ),
    Mutant(
        "compaction leaves records out for later ones that are not on disk",
        "storage/compaction/compaction.py",
        _POWER + "test_compaction_leaves_nothing_out_for_a_record_that_a_power_cut_takes",
        (("        log.flush()\n        log.context.before_change()\n", "        log.context.before_change()\n"),),
    ),
    Mutant(
        "a kept map of values is used although the log is another",
        "storage/views/line_index.py",
        "tests/storage/test_line_index.py::test_a_map_of_another_log_is_dropped",
        (("        return loaded if loaded._describes(segment) else None\n", "        return loaded\n"),),
    ),
    Mutant(
        "a compacted topic takes a record without a key",
        "fs/appends/accumulator.py",
        "tests/fs/test_accumulator.py::test_a_compacted_log_takes_no_record_without_a_key",
        (("        if self.log.is_compacted and not has_key:\n", "        if False:\n"),),
    ),
    Mutant(
        "what gzip inflates to has no bound",
        "storage/records/compression/gzip_stream.py",
        "tests/storage/test_compression.py::test_the_bound_is_on_the_byte",
        (
            ("inflater.decompress(source, min(_STEP_BYTES, bytes_left))", "inflater.decompress(source)"),
            ("        inflation.check(len(inflated))\n", ""),
        ),
    ),
    Mutant(
        "a batch that was produced with acks=all is answered before it is on disk",
        "kafka/broker/batches/produce.py",
        _BROKER + "test_answered_batches.py::test_a_power_cut_leaves_what_was_answered_with_acks_all",
        (
            (
                "            await self._commits.sync(last.log, last.last_offset + 1, is_forced=is_forced)\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "a sync that had begun before a batch was appended answers it",
        "kafka/broker/log_sync.py",
        _BROKER + "test_log_sync.py::test_a_sync_that_began_before_an_append_does_not_answer_it",
        (("                continue\n", "                return\n"),),
    ),
    Mutant(
        "the checksum of a produced batch is not verified",
        "kafka/broker/batches/client_batches.py",
        _BROKER + "test_produce.py::test_a_wrong_batch_is_refused_and_leaves_nothing[a wrong checksum]",
        (("        batch.check()\n", ""),),
    ),
    Mutant(
        "a compacted topic takes a produced record without a key",
        "kafka/broker/batches/client_batches.py",
        _BROKER + "test_produce.py::test_a_compacted_topic_takes_records_with_a_key_only",
        (("    if log.is_compacted and survey.keyless:\n", "    if False:\n"),),
    ),
    Mutant(
        "a produced batch that is sent again is appended again",
        "kafka/broker/batches/produce.py",
        _BROKER + "test_idempotent_producers.py::test_repeats_are_answered_with_their_offsets_and_gaps_are_refused",
        (("checks_producer=True", "checks_producer=False"),),
    ),
    Mutant(
        "a committed read goes beyond the last stable offset",
        "kafka/broker/batches/fetch.py",
        _BROKER + "test_fetch.py::test_a_committed_read_ends_at_the_last_stable_offset",
        (("    end = stable if is_committed else end\n", ""),),
    ),
    Mutant(
        "an append wakes no fetch",
        "kafka/broker/topics/partitions.py",
        _BROKER + "test_fetch.py::test_an_append_wakes_a_request",
        (("            watcher.wake(partition)\n", "            pass\n"),),
    ),
    Mutant(
        "the changes of other threads do not arrive on the event loop",
        "common/change_feed.py",
        "tests/common/test_change_feed.py::test_changes_of_any_thread_arrive_on_the_event_loop",
        (
            (
                "                self._token.run_sync_soon(self._publish, partition, change, idempotent=True)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "a member of an earlier generation may commit",
        "kafka/broker/groups/group.py",
        _BROKER + "test_group_membership.py::test_requests_of_an_earlier_generation_are_refused",
        (("        if generation != self.generation:\n", "        if False:\n"),),
    ),
    Mutant(
        "a commit that could not be stored is returned",
        "kafka/broker/coordinator_log.py",
        _BROKER + "test_group_membership.py::test_a_commit_that_could_not_be_stored_is_not_returned",
        (
            (
                "        first = await in_thread(write, limiter=self._appends)\n",
                "        for change in changes:\n            self._apply(shard, change, own_offset=0)\n"
                "        first = await in_thread(write, limiter=self._appends)\n",
            ),
        ),
    ),
    Mutant(
        "the control server does not run beside the broker",
        "kafka/broker/server.py",
        _BROKER + "test_connection_limits.py::test_what_runs_beside_a_broker_runs_as_long_as_it",
        ((", ready, beside=beside)", ", ready)"),),
    ),
)
