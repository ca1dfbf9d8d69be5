"""What docs/use/semantics.md says of waiting for what comes, typed into a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pages.said import Said, run

pytestmark = pytest.mark.mount

POLL = """
import os, select, sys
partition, name = sys.argv[1:]
with open(f"{partition}/{name}", "rb", buffering=0) as file:
    poller = select.poll()
    poller.register(file, select.POLLIN)
    file.read() if name != "follow" else None
    before = poller.poll(0)
    with open(f"{partition}/append", "wb") as append:
        append.write(b"new\\n")
    print(len(before), len(poller.poll(5000)), b"new" in os.read(file.fileno(), 4096))
"""

INOTIFY = """
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, (sys.argv[1] + "/values").encode(), 0xfff & ~0x20 & ~0x10 & ~0x8 & ~0x1)
with open(sys.argv[1] + "/append", "wb") as append:
    append.write(b"new\\n")
while os.stat(sys.argv[1] + "/values").st_size != 4:
    pass
print(select.select([watch], [], [], 0)[0])
"""

WAITING = [
    Said(
        "`tail -f values` prints the existing records, and then new ones.",
        "echo old > $p/append; exec 3< <(exec tail -s 0.05 -n +1 -f $p/values); read -r line <&3; echo $line; "
        "echo new > $p/append; read -r line <&3; echo $line; kill $!",
        "old\nnew\n",
    ),
    Said(
        "`tail -f` and `tail -F` continue when old records are deleted; they miss no record and print none twice.",
        "seq 5 > $p/append; for how in f F; do tail -$how -n +1 -s 0.05 --max-unchanged-stats=1 $p/values "
        "> $s/$how 2>&1 & done; until [ $(cat $s/* | wc -l) = 10 ]; do :; done; "
        "echo 4 > $p/start; echo 6 > $p/append; until [ $(cat $s/* | wc -l) -ge 12 ]; do :; done; sleep 0.3; "
        "kill $(jobs -p); wait 2> /dev/null; cat $s/f $s/F | tr '\\n' ' '",
        "1 2 3 4 5 6 1 2 3 4 5 6 ",
    ),
    Said(
        "`follow` returns new records, each as soon as it is appended, and never ends.",
        "exec 3< <(exec cat $p/follow); until fuser -s $p/follow 2> /dev/null || ls -l /proc/$!/fd | grep -q follow; "
        "do :; done; echo new > $p/append; read -r line <&3; echo $line; kill $!",
        "new\n",
    ),
    Said(
        "`follow@A` starts at A: an offset, a time, or `-N` for the newest N records.",
        "for at in 10 -2 2026-11-21T13:08:15; do head -n 2 orders-0/follow@$at 2> /dev/null; echo; done",
        '{"id":10,"state":"paid"}\n{"id":11,"state":"refused"}\n\n' * 3,
    ),
    Said(
        "`cat follow` prints each new record; `tail -f follow` prints nothing, because it first seeks "
        "to the end; see `.offsetfs/errors`.",
        "timeout 5 cat orders-0/follow@-2 > $s/printed & until [ -s $s/printed ]; do :; done; kill %1; "
        "wc -l < $s/printed; "
        "exec 3< <(exec tail -f orders-0/follow@-2); until grep -q 'no end' .offsetfs/errors; do :; done; kill $!; "
        "cat <&3; tail -n 1 .offsetfs/errors | cut -d ' ' -f 2-",
        "2\n- open orders-0/follow@-2: tail prints nothing before the end of its input, and a stream has no end; use "
        "`cat follow`, or `tail -f values`; `follow@-10` begins with the newest ten records\n",
    ),
    Said(
        "`wc` and `sort` of `follow` print nothing, because it has no end; see `.offsetfs/errors`; "
        "`head -n 2 follow | wc` ends.",
        "for each in wc sort; do exec 3< <(exec $each orders-0/follow@-2); "
        'until grep -q "$each prints nothing" .offsetfs/errors; do :; done; kill $!; cat <&3; done; '
        "tail -n 1 .offsetfs/errors | cut -d ' ' -f 2-; head -n 2 orders-0/follow@-2 2> /dev/null | wc -l",
        "- open orders-0/follow@-2: sort prints nothing before the end of its input, and a stream has no end; use "
        "`values` for the records that exist, or `head -n 10 follow` for the next ten\n2\n",
    ),
    Said(
        "`grep refused follow` prints each match when it arrives; in a pipe with `--line-buffered`.",
        "exec 3< <(exec grep --line-buffered refused orders-0/follow@-2); read -r line <&3; kill $!; echo $line",
        '{"id":11,"state":"refused"}\n',
    ),
    Said(
        "`cat follow` of an idle partition is silent until Ctrl-C.",
        "timeout -s INT 1 cat orders-0/follow 2>&1; echo $?",
        "124\n",
    ),
    Said(
        "`head -n 3 follow@-3` prints three lines and ends; the next command with the same open file "
        "reads what `head` read and did not print.",
        "exec 3< orders-0/follow@-3; head -n 2 <&3 2>&1; echo; head -n 1 <&3 2>&1",
        '{"id":9,"state":"paid"}\n{"id":10,"state":"paid"}\n\n{"id":11,"state":"refused"}\n',
    ),
    Said(
        "`while read -r line; do …; done < follow` gets each new line.",
        "while read -r line; do echo $line; [ ${line:6:2} = 11 ] && break; done < orders-0/follow@-2",
        '{"id":10,"state":"paid"}\n{"id":11,"state":"refused"}\n',
    ),
    Said(
        "`follow.ndjson` and `follow@A.ndjson` return lines of JSON.",
        "head -n 1 orders-0/follow@-1.ndjson 2> /dev/null | jq -c '[.offset,.key]'",
        '[11,"k2"]\n',
    ),
    Said(
        "`topics/<topic>/follow[@A][.ndjson]` returns the records of all partitions, in order within each partition.",
        "mkdir both-0 both-1; seq 1 3 > both-0/append; seq 11 13 > both-1/append; "
        "head -n 6 topics/both/follow@-1h 2> /dev/null | sort -sn -k1.1,1.1 | tr '\\n' ' '; "
        "head -n 1 topics/both/follow@-1.ndjson 2> /dev/null | jq .topic; rmdir both-0 both-1",
        '1 11 12 13 2 3 "both"\n',
    ),
    Said(
        "There, A is a time, or `-N` for the newest N of each partition; an offset belongs to one "
        "partition and is “Invalid argument”.",
        "head -n 1 topics/orders/follow@-1 2> /dev/null; echo; cat topics/orders/follow@3 2>&1 | grep -o 'Invalid.*'; "
        "grep -c 'offset 3 belongs to one partition' .offsetfs/errors",
        '{"id":11,"state":"refused"}\n\nInvalid argument\n1\n',
    ),
    Said(
        "A partition that is added to the topic meanwhile joins that stream with all its records.",
        "mkdir both-0; exec 3< topics/both/follow; mkdir both-1; echo new > both-1/append; "
        "read -r line <&3; echo $line; exec 3<&-; rmdir both-0 both-1",
        "new\n",
    ),
    Said(
        "Ctrl-C, `kill` and `timeout` end a process that waits for a record at once.",
        "timeout 0.2 cat $p/follow; echo $?; for signal in INT TERM KILL; do "
        "(trap - INT; exec cat $p/follow) & until ls -l /proc/$!/fd | grep -q follow; do :; done; "
        "kill -$signal $!; wait $! 2> /dev/null; done; echo ended",
        "124\nended\n",
    ),
    Said(
        "With O_NONBLOCK, a read without new records is “Resource temporarily unavailable”.",
        "dd if=$p/follow iflag=nonblock count=1 2>&1 | grep -o 'Resource.*'",
        "Resource temporarily unavailable\n",
    ),
    Said(
        "`select`, `poll` and `epoll` report when `follow` has something to read.",
        f"python3 -c '{POLL}' $p follow",
        "0 1 True\n",
    ),
    Said(
        "`read -t` of bash does not time out, because bash takes `follow` for a regular file; use `timeout`.",
        "timeout 0.5 bash -c 'read -r -t 0.1 line < $p/follow'; echo $?",
        "124\n",
    ),
    Said(
        "`select`, `poll` and `epoll` also report when `values` or `records.ndjson` has more than was read.",
        f"python3 -c '{POLL}' $p values; python3 -c '{POLL}' $p records.ndjson",
        "0 1 True\n0 1 True\n",
    ),
    Said(
        "A reader that was overtaken by the deletion of records gets “Broken pipe” once, and continues at `start`.",
        "seq 5 > $p/append; exec 3< $p/follow@1; echo 3 > $p/start; cat <&3 2>&1 | grep -o 'Broken pipe'; "
        "head -n 2 <&3 2> /dev/null",
        "Broken pipe\n4\n5\n",
    ),
    Said(
        "inotify does not report appended records: use `follow`, `tail -f` or `poll`.",
        f"python3 -c '{INOTIFY}' $p",
        "[]\n",
    ),
]


@pytest.mark.parametrize("said", WAITING, ids=str)
def test_the_step_behaves_as_its_sentence_states(tree: Path, tmp_path: Path, said: Said) -> None:
    run(tree, tmp_path, said, f"w{WAITING.index(said)}-0")
