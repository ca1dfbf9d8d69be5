"""What docs/use/semantics.md says of reading, typed into a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fixtures.pages.said import Said, run

pytestmark = pytest.mark.mount

ALL = "".join(f'{{"id":{n},"state":"{"refused" if n % 4 == 3 else "paid"}"}}\n' for n in range(12))
LINES = ALL.splitlines(keepends=True)

PARTS = (
    "t=$(($(date +%s) - 100)); mkdir parts-0 parts-1; for each in 0:a:0 1:c:0 0:b:1 1:d:1; do "
    "IFS=: read -r q v n <<< $each; "
    'echo "{\\"value\\":\\"$v\\",\\"timestamp\\":$((t + n))000}" > parts-$q/append.ndjson; done; '
)
"""Makes a topic of two partitions with a record in each of the seconds `t` and `t` + 1."""

RECORDS = [
    Said(
        "A record is a file named by its offset; its content is the value of the record.",
        "cat orders-0/4",
        LINES[4][:-1],
    ),
    Said(
        "Its size is the size of the value, its modification time the timestamp of the record.",
        "stat -c '%s %Y' orders-0/4; wc -c < orders-0/4",
        "23 1795266380\n23\n",
    ),
    Said(
        "`00000000000000000004` is the same file as `4`.",
        "[ orders-0/4 -ef orders-0/00000000000000000004 ] && echo same",
        "same\n",
    ),
    Said(
        "An offset that does not exist (beyond the end, deleted or compacted away) is “No such file or directory”.",
        "cat orders-0/99 2>&1; test -e orders-0/99 || echo none",
        "cat: orders-0/99: No such file or directory\nnone\n",
    ),
    Said(
        "A null value is an empty file whose attribute `user.kafka.null` is 1.",
        "wc -c < mixed-0/0; getfattr --only-values -n user.kafka.null mixed-0/0; "
        "getfattr --only-values -n user.kafka.null mixed-0/1",
        "0\n10",
    ),
    Said(
        "`getfattr -d` shows key, headers, timestamp, and the batch and producer of the record.",
        "getfattr -d orders-0/4 | grep -c user.kafka; for each in key timestamp offset codec; "
        "do getfattr --only-values -n user.kafka.$each orders-0/4; echo; done; "
        "getfattr --only-values -n user.kafka.headers orders-0/4",
        "14\nk1\n1795266380000\n4\nnone\nsource: web\n",
    ),
    Said(
        "Key and headers are listed while all listed attributes have at most 3 KiB; by name they are "
        "read up to 64 KiB.",
        "mkdir wide-0; for bytes in 2000 4000 60000; do key=$(head -c $bytes /dev/zero | tr '\\0' k); "
        """printf '{"key":"%s","headers":[{"key":"h","value":"x"}]}\\n' $key > wide-0/append.ndjson; done; """
        "for n in 0 1 2; do getfattr -d wide-0/$n | grep -c 'kafka.key\\|kafka.headers'; "
        "getfattr --only-values -n user.kafka.key wide-0/$n | wc -c; done; rmdir wide-0",
        "2\n2000\n1\n4000\n1\n60000\n",
    ),
    Said(
        "`<offset>.key`, `<offset>.headers` and `<offset>.json` are its other parts; they open by "
        "name and are not listed.",
        "cat orders-0/4.key; echo; cat orders-0/4.headers; jq -c '[.key,.value,.headers]' orders-0/4.json; "
        "ls orders-0 | grep -c '[0-9][.]'",
        'k1\nsource: web\n["k1","{\\"id\\":4,\\"state\\":\\"paid\\"}",[{"key":"source","value":"web"}]]\n0\n',
    ),
    Said(
        "`first` and `latest` are symbolic links to the oldest and the newest record.",
        "readlink orders-0/first orders-0/latest; cat orders-0/latest",
        "0\n11\n" + LINES[11][:-1],
    ),
    Said(
        "`start` holds the log start offset, `next` the next offset, and `info` all other state as JSON.",
        "cat orders-0/start orders-0/next; jq -c '[.topic,.next_offset,.read_only]' orders-0/info",
        '0\n12\n["orders",12,false]\n',
    ),
]

TIMES = [
    Said(
        "`by-time/T` is a symbolic link to the first record at or after T.",
        "readlink orders-0/by-time/2026-11-21T13:05 orders-0/by-time/2026-11-21T13:05:21 orders-0/by-time/@1795266380; "
        "cat orders-0/by-time/2026-11-21T14:06:00+01:00",
        "../0\n../2\n../4\n" + LINES[3][:-1],
    ),
    Said(
        "T is a date, a time in UTC or in another zone, `@` and seconds since 1970, or relative to "
        "now: `-15m`, `-1h30m`, `-1w`.",
        "cd orders-0/by-time; readlink 2026-11-21 2026-11-21T14:05+01:00 @1795266300.000 ./-9999d ./-1400w1h30m",
        "../0\n../0\n../0\n../0\n../0\n",
    ),
    Said(
        "A space may separate date and time: `2026-11-21 13:05`.",
        "readlink 'orders-0/by-time/2026-11-21 13:05'",
        "../0\n",
    ),
    Said(
        "`ls by-time/2026/11/21/13` lists the minutes that have records.",
        "ls orders-0/by-time/2026/11/21/13; readlink orders-0/by-time/2026/11/21/13/06",
        "05\n06\n07\n08\n../../../../../3\n",
    ),
    Said(
        "A time after the last record is “No such file or directory”; a name that is not a time from 1970 on is "
        "“Invalid argument”.",
        "test -e orders-0/by-time/2199-01-01 || echo none; "
        "stat orders-0/by-time/today orders-0/by-time/1969-12-31 2>&1 | grep -o 'Invalid.*'",
        "none\nInvalid argument\nInvalid argument\n",
    ),
]

VIEWS = [
    Said("`values` is one file with all values, each followed by a newline.", "cat orders-0/values", ALL),
    Said(
        "Its size is exact: `wc -c`, `tail`, `dd skip=` and all programs that seek work.",
        "stat -c %s orders-0/values; wc -c < orders-0/values; tail -n 1 orders-0/values; "
        "dd if=orders-0/values bs=24 skip=2 count=1 status=none | head -c 9; echo; head -c 8 orders-0/values",
        f"{len(ALL)}\n{len(ALL)}\n{LINES[11]}{ALL[48:57]}\n{ALL[:8]}",
    ),
    Said(
        "`head`, `tail`, `grep`, `sed`, `awk`, `sort`, `less` and `jq` work on it as on other files.",
        "head -n 1 orders-0/values; grep -c refused orders-0/values; sed -n 3p orders-0/values; "
        "awk 'END {print NR}' orders-0/values; sort -r orders-0/values | head -n 1; "
        "less orders-0/values | wc -l; jq -r .state orders-0/values | sort | uniq -c | tr -s ' '",
        f"{LINES[0]}3\n{LINES[2]}12\n{LINES[9]}12\n 9 paid\n 3 refused\n",
    ),
    Said(
        "Python can read it, seek in it and map it privately; a growing file has no shared mapping, `range/0..` has.",
        'python3 -c \'import mmap; f = open("orders-0/values", "rb"); r = open("orders-0/range/0..", "rb"); '
        "m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ); "
        "s = mmap.mmap(r.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ); "
        'f.seek(-5, 2); print(len(m), m[:6].decode(), m[:] == s[:], f.read().decode(), end="")\'; '
        'python3 -c \'import mmap; f = open("orders-0/values", "rb"); mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\' '
        "2>&1 | tail -n 1",
        f"{len(ALL)} {ALL[:6]} True {ALL[-5:]}OSError: [Errno 19] No such device\n",
    ),
    Said(
        "`records.ndjson` has each record as a line of JSON, with key, headers, offset and timestamp.",
        "wc -l < orders-0/records.ndjson; sed -n 5p orders-0/records.ndjson | "
        "jq -c '[.offset,.timestamp,.key,.headers]'; "
        "jq -r 'select(.key == \"k0\") | .value | fromjson | .id' orders-0/records.ndjson | tr '\\n' ' '",
        '12\n[4,1795266380000,"k1",[{"key":"source","value":"web"}]]\n0 3 6 9 ',
    ),
    Said(
        "There, bytes that are not UTF-8 are in base64, in the field `value_b64`; null is null.",
        "jq -c '[.value, .value_b64]' mixed-0/records.ndjson | head -n 3",
        '[null,null]\n["",null]\n[null,"//4="]\n',
    ),
    Said(
        "With `-o json-bytes=base64`, all keys, values and headers there are in base64, in `key_b64` and `value_b64`.",
        f"for o in text base64; do {sys.executable} -m offsetfs cat ../log orders-0/4.json -o json-bytes=$o | "
        "jq -r '.key // .key_b64, .headers[0].value // .headers[0].value_b64'; done",
        "k1\nweb\nazE=\nd2Vi\n",
    ),
    Said(
        "`range/A..B` has the records from A up to, but not including, B; `range/A..B.ndjson` has "
        "them as JSON; both open by name only.",
        "cat orders-0/range/2..4; jq .offset orders-0/range/2..4.ndjson; ls orders-0/range | wc -l",
        f"{LINES[2]}{LINES[3]}2\n3\n0\n",
    ),
    Said(
        "A and B are offsets or times; one of them may be omitted.",
        "cat orders-0/range/10..; cat orders-0/range/..1; cat orders-0/range/2026-11-21T13:08..2026-11-21T13:08:15; "
        "wc -l < orders-0/range/0..",
        f"{LINES[10]}{LINES[11]}{LINES[0]}{LINES[9]}12\n",
    ),
    Said(
        "A range is limited to the records that exist; a name with two dots that is not a range is “Invalid argument”.",
        "wc -l < orders-0/range/10..99; stat orders-0/range/soon.. 2>&1 | grep -o 'Invalid.*'",
        "2\nInvalid argument\n",
    ),
    Said(
        "`last/N` and `last/N.ndjson` have the newest N records.",
        "cat orders-0/last/2; jq .offset orders-0/last/1.ndjson",
        f"{LINES[10]}{LINES[11]}11\n",
    ),
    Said(
        "`by-key/<key>` is the latest value of a key; it opens by name only, and a deleted key does not exist.",
        "cat orders-0/by-key/k1; echo; test -e orders-0/by-key/none || echo none; ls orders-0/by-key | wc -l",
        f"{LINES[10]}none\n0\n",
    ),
    Said(
        "`by-key/<key>.json` is its record as a line of JSON; a key that itself ends in `.json` has precedence.",
        "jq -c '[.offset,.key]' orders-0/by-key/k1.json; cmp orders-0/by-key/k1.json orders-0/10.json && echo same",
        '[10,"k1"]\nsame\n',
    ),
    Said(
        "`topics/<topic>/by-key/<key>` looks in the partition of Kafka's partitioner, else in all "
        "others for the latest timestamp.",
        "cat topics/orders/by-key/k1; echo; jq .offset topics/orders/by-key/k1.json; "
        "test -e topics/orders/by-key/none || echo none",
        f"{LINES[10]}10\nnone\n",
    ),
    Said(
        "`topics/<topic>/values` and `records.ndjson` are the files of all partitions in partition order.",
        "mkdir parts-0 parts-1; echo b > parts-1/append; echo a > parts-0/append; cat topics/parts/values; "
        "cat parts-0/records.ndjson parts-1/records.ndjson | cmp - topics/parts/records.ndjson && echo same; "
        "ls topics/parts; rmdir parts-0 parts-1",
        "a\nb\nsame\nappend\nappend.ndjson\nby-time\nfirst\nlast\nlatest\nrange\nrecords.ndjson\nvalues\n",
    ),
    Said(
        "They are a snapshot at the look-up, with an exact size; the next look-up includes new records and partitions.",
        "mkdir parts-0; echo a > parts-0/append; exec 3< topics/parts/values; mkdir parts-1; echo b > parts-1/append; "
        "echo c > parts-0/append; cat <&3; exec 3<&-; stat -c %s topics/parts/values; cat topics/parts/values; "
        "rmdir parts-0 parts-1",
        "a\n6\na\nc\nb\n",
    ),
    Said(
        "`tail -f` of such a snapshot prints no later records; `follow` of the topic does.",
        # tail looks once more after the process that it waits for has ended.
        "mkdir parts-0; echo a > parts-0/append; sleep 1000 & waited=$!; "
        "tail -s 0.05 --pid=$waited -f topics/parts/values > $s/tail & "
        "until [ -s $s/tail ]; do :; done; exec 3< topics/parts/follow; echo b > parts-0/append; read -r line <&3; "
        "kill $waited; wait %2; cat $s/tail; echo $line; exec 3<&-; rmdir parts-0",
        "a\nb\n",
    ),
    Said(
        "`topics/<topic>/range/A..B` and `last/N` merge the partitions by timestamp, then partition, then offset; A "
        "and B are times.",
        f"{PARTS}cat topics/parts/range/@$t..@$((t + 2)) topics/parts/last/2; "
        "cat topics/parts/range/0..2 2>&1 | grep -o 'Inv.*'; rmdir parts-0 parts-1",
        "a\nc\nb\nd\nb\nd\nInvalid argument\n",
    ),
    Said(
        "Each partition stays in offset order: a record counts as late as the latest before it.",
        f'{PARTS}echo \'{{"value":"e","timestamp":\'$t\'000}}\' > parts-0/append.ndjson; cat topics/parts/last/9; '
        "rmdir parts-0 parts-1",
        "a\nc\nb\ne\nd\n",
    ),
    Said(
        "`topics/<topic>/first`, `latest` and `by-time` are links to the records of its partitions.",
        f"{PARTS}cd topics/parts; "
        "for link in first latest by-time/@$((t + 1)) by-time/$(date -ud @$t +%Y/%m/%d/%H/%M); do cat $link; echo; "
        "readlink $link; done; cd ../..; rmdir parts-0 parts-1",
        "a\n../../parts-0/0\nd\n../../parts-1/1\nb\n../../../parts-0/1\na\n../../../../../../../parts-0/0\n",
    ),
    Said(
        "A read-only mount lists no `append` in `topics/<topic>`.",
        f"mkdir $s/ro; {sys.executable} -m offsetfs mount ../log $s/ro -o ro > $s/out; "
        "ls $s/ro/topics/orders | head -n 1; "
        f"{sys.executable} -m offsetfs umount $s/ro > $s/out",
        "by-time\n",
    ),
    Said(
        "`segments` contains the files on disk, byte for byte.",
        "ls orders-0/segments | grep -v snapshot; "
        "cmp orders-0/segments/00000000000000000000.log ../log/orders-0/00000000000000000000.log "
        "&& echo same",
        "00000000000000000000.index\n00000000000000000000.log\n00000000000000000000.timeindex\nsame\n",
    ),
]

SCHEMAS = (
    'mkdir _schemas-0 people-0; for f in key value; do jq -nc --arg s people-$f \'{key: ({keytype: "SCHEMA", '
    "subject: $s, version: 1, magic: 1} | tojson), value: ({subject: $s, version: 1, id: 1, schema: "
    '"\\"string\\"", deleted: false} | tojson)}\' > _schemas-0/append.ndjson; done; '
    'echo \'{"key_b64":"AAAAAAEEaGk=","value_b64":"AAAAAAEEaGk="}\' > people-0/append.ndjson; '
)
"""Makes a topic whose only record has the key and the value "hi", by a schema."""

DECODED = [
    Said(
        "`decoded/` of a partition or topic has the names of records: an offset, `first`, `latest`, `by-time/T`, "
        "`range/`, `last/`, `values`, `records.ndjson`, `follow`, `by-key/KEY`.",
        SCHEMAS + "cd people-0/decoded; cat 0 first latest by-time/-1h range/0.. last/1 values by-key/hi | uniq -c; "
        "cd ../../topics/people/decoded; cat first latest by-time/-1h range/-1h.. last/1 values by-key/hi | uniq -c; "
        "cat records.ndjson | jq -c '[.key,.value]'; head -n 1 follow@-1; "
        "cd ../../..; rmdir people-0 _schemas-0",
        '      8 "hi"\n      7 "hi"\n["hi","hi"]\n"hi"\n',
    ),
    Said(
        "Lines of records have `key_schema` and `value_schema`; what is not decoded has its bytes, and `key_error` or "
        "`value_error`.",
        SCHEMAS + 'echo \'{"key":"k","value":"v"}\' > people-0/append.ndjson; '
        "jq -c '[.key,.value,.key_schema.id,.value_schema.version,.key_error,.value_error]' "
        "people-0/decoded/records.ndjson; rmdir people-0 _schemas-0",
        '["hi","hi",1,1,null,null]\n["k","v",null,null,"the record names no schema","the record names no schema"]\n',
    ),
    Said(
        "The files beside `decoded/` stay exact, byte for byte.",
        SCHEMAS + "cat people-0/decoded/values; base64 people-0/0; base64 people-0/0.key; rmdir people-0 _schemas-0",
        '"hi"\nAAAAAAEEaGk=\nAAAAAAEEaGk=\n',
    ),
]

WHOLE = [
    Said(
        "Every listed file is finite, has its exact size, never blocks, and changes nothing when it is read.",
        "before=$(cat orders-0/next mixed-0/next); find orders-0 mixed-0 -type f | while read -r f; do "
        "[ $(cat $f | wc -c) = $(stat -c %s $f) ] || echo $f; done; "
        '[ "$before" = "$(cat orders-0/next mixed-0/next)" ] && echo unchanged',
        "unchanged\n",
    ),
    Said(
        "Therefore `grep -r`, `cp -r`, `tar`, `rsync`, `find`, `du` and `wc *` are safe on the whole mount.",
        "grep -rl refused orders-0/[0-9]* | tr '\\n' ' '; cp -r orders-0 $s/copy && diff -r orders-0 $s/copy && "
        "echo copied; "
        "tar cf - mixed-0 | tar tf - | grep -c values$; rsync -rl orders-0 $s/synced && "
        "cmp $s/synced/orders-0/values orders-0/values; find orders-0 -name '1*' -size -2 -type f | wc -l; "
        "wc -c orders-0/[0-9] | tail -n 1",
        f"orders-0/11 orders-0/3 orders-0/7 copied\n1\n3\n{sum(map(len, LINES[:10])) - 10} total\n",
    ),
    Said(
        "`cp -a` and `rsync -a` preserve the timestamps of the records.",
        "cp -a orders-0/4 $s/4; rsync -a orders-0/5 $s/5; stat -c %Y $s/4 $s/5",
        "1795266380\n1795266400\n",
    ),
    Said(
        "`du` counts what is on disk, the segments, and counts nothing twice.",
        "du -s --block-size=512 orders-0 | cut -f1 > $s/du; stat -c %b orders-0/segments/* | "
        "awk '{n += $1} END {print n}' > $s/sum; "
        "cmp $s/du $s/sum && echo same",
        "same\n",
    ),
    Said(
        "`df` shows the file system of the log directory.",
        "a=$(df --output=size . | tail -n 1); b=$(df --output=size ../log | tail -n 1); [ $a = $b ] && echo same",
        "same\n",
    ),
    Said(
        "Files that block, follow or answer a query are never listed.",
        "ls orders-0 | grep -E 'follow|[0-9].(json|key|headers)$' | wc -l; ls .offsetfs | wc -l; ls -A | "
        "grep -c offsetfs",
        "0\n0\n0\n",
    ),
]


@pytest.mark.parametrize("said", RECORDS + TIMES + VIEWS + DECODED + WHOLE, ids=str)
def test_the_step_behaves_as_its_sentence_states(tree: Path, tmp_path: Path, said: Said) -> None:
    run(tree, tmp_path, said, "")
