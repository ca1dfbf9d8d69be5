"""What docs/use/semantics.md says of writing, typed into a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pages.said import Said, run

pytestmark = pytest.mark.mount

DAMAGED_LINE = '{"value":"1"}\n{"value":"2"}\nno JSON\n{"value":"4"}\n'

LINES = [
    Said("Each line written to `append` becomes a record.", "echo hello >> $p/append; cat $p/0", "hello"),
    Said(
        "Each line written to `append` becomes a record.",
        "echo hello >> $p/append; cat $p/values",
        "hello\n",
        shell="dash",
    ),
    Said(
        "`>` and `>>` do the same: both append, and neither truncates.",
        "echo one > $p/append; echo two > $p/append; cat $p/values",
        "one\ntwo\n",
    ),
    Said(
        "`>` and `>>` do the same: both append, and neither truncates.",
        "echo one > $p/append; echo two >> $p/append; cat $p/values",
        "one\ntwo\n",
        shell="dash",
    ),
    Said(
        "`cat`, `cp`, `dd`, `tee`, `sed`, `awk`, `sort`, `jq`, here-documents and other programs "
        "append as to any file.",
        "cat orders-0/values > $p/append; cp orders-0/values $p/append; "
        "dd if=orders-0/values of=$p/append status=none; "
        "tee $p/append < orders-0/values | tee -a $p/append > /dev/null; "
        "sed 's/paid/free/' orders-0/values > $p/append; "
        "awk '{print NR}' orders-0/values > $p/append; sort orders-0/values > $p/append; "
        "jq .id orders-0/values > $p/append; cat > $p/append <<< here; "
        'python3 -c \'print("from", "Python")\' > $p/append; wc -l < $p/values; tail -n 2 $p/values',
        "110\nhere\nfrom Python\n",
    ),
    Said(
        "The boundaries of `write` calls do not matter; only newlines separate records.",
        "exec 3>$p/append; printf he >&3; printf 'llo\\nwor' >&3; printf 'ld\\n' >&3; exec 3>&-; cat $p/values",
        "hello\nworld\n",
    ),
    Said(
        "A last line without a newline becomes a record when the file is closed.",
        "printf 'one\\ntwo' > $p/append; until [ -e $p/1 ]; do :; done; cat $p/values",
        "one\ntwo\n",
    ),
    Said("An empty line is an empty record.", "printf 'a\\n\\nb\\n' > $p/append; cat $p/next; wc -c < $p/1", "3\n0\n"),
    Said(
        "A carriage return before the newline stays in the value.",
        "printf 'a\\r\\n' > $p/append; od -An -c $p/0",
        "   a  \\r\n",
    ),
    Said(
        "Lines of several writers never mix: each line is a record, in the order of its writer.",
        "for w in a b c d; do (for n in $(seq 50); do echo $w$n; done > $p/append) & done; wait; cat $p/next; "
        "for w in a b c d; do grep $w $p/values | tr -d $w | sort -nc && echo $w; done",
        "200\na\nb\nc\nd\n",
    ),
    Said(
        "If a writer closes one file before it opens the next, its records are in that order.",
        "for n in $(seq 1 3 150); do printf $n >> $p/append; echo $((n + 1)) >> $p/append; "
        "printf $((n + 2)) > $p/append.raw; done; sync $p/append; seq 150 | cmp - $p/values && echo same",
        "same\n",
    ),
    Said(
        "Written records are visible in every view as soon as the file is closed.",
        "for n in $(seq 20); do echo $n >> $p/append; [ $(cat $p/latest) = $n ] || echo late; done; wc -l < $p/values",
        "20\n",
    ),
    Said(
        "A file opened for reading and writing (`exec 3<>append`) returns offset and timestamp of each "
        "record written through it.",
        "exec 3<>$p/append; echo hi >&3; echo ho >&3; read -r a when <&3; read -r b when <&3; echo $a $b; "
        "[ $(getfattr --only-values -n user.kafka.timestamp $p/1) = $when ] && echo then",
        "0 1\nthen\n",
    ),
    Said("Reading `append` otherwise returns nothing.", "cat $p/append | wc -c; stat -c %s $p/append", "0\n0\n"),
    Said(
        "`truncate` to size 0, or to the size that was written to the open file (`rsync --inplace`), "
        "does nothing; others are refused.",
        "echo a > $p/append; truncate -s 0 $p/append; cat $p/values; truncate -s 5 $p/append 2>&1 | grep -o Invalid.*",
        "a\nInvalid argument\n",
    ),
    Said(
        "`truncate` to size 0, or to the size that was written to the open file (`rsync --inplace`), "
        "does nothing; others are refused.",
        "printf 'one\\ntwo\\n' > $s/lines; for option in inplace append append-verify write-devices; do "
        "rsync --$option $s/lines $p/append && cat $p/next; done; head -n 2 $p/values",
        "2\n4\n6\n8\none\ntwo\n",
    ),
    Said(
        "`cp -p`, `cp -a`, `rsync -aAX --inplace` and Python's `shutil.copy2` onto `append` succeed; "
        "mode, owner, times and attributes of `append` do not change.",
        "echo one > $s/lines; touch -d @1000000000 $s/lines; chmod 751 $s/lines; "
        "setfattr -n user.origin -v here $s/lines; "
        "before=$(stat -c '%a %u %g' $p/append); "
        "cp -p $s/lines $p/append && cp -a $s/lines $p/append && rsync -aAX --inplace $s/lines $p/append && "
        """python3 -c "import shutil; shutil.copy2('$s/lines', '$p/append')" && cat $p/values; """
        '[ "$before" = "$(stat -c \'%a %u %g\' $p/append)" ] && [ $(stat -c %Y $p/append) != 1000000000 ] && echo same',
        "one\none\none\none\nsame\n",
    ),
    Said(
        "`install`, `tar` and `rsync` without `--inplace` are refused before a line is stored.",
        "echo one > $s/lines; cp $s/lines $s/append; tar -C $s -c append | tar -C $p -x 2>&1 | grep -o 'File exists'; "
        "install $s/lines $p/append 2>&1 | grep -o 'cannot remove'; "
        "rsync -a $s/lines $p/append 2>&1 | grep -o mkstemp; cat $p/next",
        "File exists\ncannot remove\nmkstemp\n0\n",
    ),
    Said(
        "A record longer than `max.message.bytes` is refused during the write with “Message too long”.",
        "head -c 1100000 /dev/zero | tr '\\0' x | cat 2>&1 > $p/append | grep -o 'Message too long'; cat $p/next",
        "Message too long\n0\n",
    ),
    Said(
        "`sync append` and `dd conv=fsync` return when the records are on disk; `sync` without a "
        "file does not reach a FUSE file system.",
        "echo a > $p/append; sync $p/append && echo b | dd of=$p/append conv=fsync status=none; cat $p/next",
        "2\n",
    ),
]

JSON = [
    Said(
        "Each line of JSON written to `append.ndjson` becomes a record with key, value, headers and timestamp.",
        'echo \'{"key":"k","value":"v","headers":[{"key":"h","value":"x"}],"timestamp":1000}\' > $p/append.ndjson; '
        "cat $p/0; jq -c '[.key,.value,.headers,.timestamp]' $p/0.json; stat -c %Y $p/0",
        'v["k","v",[{"key":"h","value":"x"}],1000]\n1\n',
    ),
    Said(
        "A field that is omitted is null; an omitted timestamp is the time of writing.",
        "echo '{}' > $p/append.ndjson; jq -c '[.key,.value]' $p/0.json; [ $(stat -c %Y $p/0) -gt 1700000000 ] && "
        "echo now",
        "[null,null]\nnow\n",
    ),
    Said(
        "Any other line is refused with “Invalid argument”; the lines before it are records.",
        f"printf '{DAMAGED_LINE}' | cat 2>&1 > $p/append.ndjson | grep -o 'Invalid.*'; cat $p/values; "
        "grep -q $p/append.ndjson .offsetfs/errors && echo reported",
        "Invalid argument\n1\n2\nreported\n",
    ),
    Said(
        "A field that `records.ndjson` does not have is refused with “Invalid argument”, and "
        "`.offsetfs/errors` names it.",
        'echo \'{"key":"a","vlue":"b"}\' | cat 2>&1 > $p/append.ndjson | grep -o "Invalid.*"; cat $p/next; '
        "grep -o 'unknown field .vlue.' .offsetfs/errors",
        'Invalid argument\n0\nunknown field "vlue"\n',
    ),
    Said(
        "A value that is a number, an object or a list is refused with “Invalid argument”.",
        "for v in 5 '{\"a\":1}' '[1]'; do echo '{\"value\":'$v'}' | cat 2>&1 > $p/append.ndjson | grep -o 'Invalid.*'; "
        "done; cat $p/next; grep -o 'use -o json-values=text' .offsetfs/errors | tail -n 1",
        "Invalid argument\n" * 3 + "0\nuse -o json-values=text\n",
    ),
    Said(
        "`append.ndjson` accepts the output of `records.ndjson` and restores the same keys, values, "
        "headers and timestamps.",
        "cat orders-0/records.ndjson mixed-0/records.ndjson > $p/append.ndjson; "
        "jq -c 'del(.topic,.partition,.offset)' $p/records.ndjson > $s/copy; "
        "jq -c 'del(.topic,.partition,.offset)' orders-0/records.ndjson mixed-0/records.ndjson | cmp - $s/copy && "
        "echo same",
        "same\n",
    ),
    Said(
        "`append` accepts the output of `values` if the values are text without newlines.",
        "cat orders-0/values > $p/append; cmp $p/values orders-0/values && echo same",
        "same\n",
    ),
    Said(
        "A compacted topic accepts only records with a key, so no lines.",
        "echo x 2>&1 >> users-0/append | grep -o 'Invalid.*'; (echo x >> users-0/append) 2>&1 | grep -o 'Invalid.*'; "
        'echo \'{"key":"k"}\' >> users-0/append.ndjson && tail -n 1 users-0/records.ndjson | jq -c "[.key,.value]"',
        'Invalid argument\nInvalid argument\n["k",null]\n',
    ),
]

RAW = [
    Said(
        "Everything written to `append.raw` between open and close is one record: `cp photo.jpg photos-0/append.raw`.",
        "head -c 100000 /dev/urandom > $s/photo; cp $s/photo $p/append.raw; until [ -e $p/0 ]; do :; done; "
        "cmp $p/0 $s/photo && echo same; cat $p/next",
        "same\n1\n",
    ),
    Said(
        "Opening and closing it without a write creates no record.",
        ": > $p/append.raw; : > $p/append; : > $p/append.ndjson; cat $p/next",
        "0\n",
    ),
]

TOPICS = [
    Said(
        "`topics/orders/append` and `append.ndjson` choose the partition by the key, as Kafka's producer does.",
        "mkdir many-0 many-1 many-2; seq 30 | jq -c '{key: tostring, value: tostring}' > topics/many/append.ndjson; "
        "cat many-*/values | sort -n | tr '\\n' ' '; "
        "jq -r '.key + \" \" + (.partition|tostring)' many-*/records.ndjson | "
        "grep -E '^(1|2|3) '; rmdir many-0 many-1 many-2",
        " ".join(map(str, range(1, 31))) + " 1 0\n2 2\n3 2\n",
    ),
    Said(
        "A line of JSON with a field `partition` goes to that partition; if the topic lacks it, "
        "“Invalid argument” refuses the line.",
        "mkdir named-0 named-1; f=topics/named/append.ndjson; "
        'jq -nc \'{key: "k", value: "v", partition: (1, 0, 1)}\' > $f; cat named-0/next named-1/next; '
        "cat named-1/records.ndjson > $f; cat named-0/next named-1/next; "
        "echo '{\"partition\":2}' | cat 2>&1 > $f | grep -o 'Invalid.*'; rmdir named-0 named-1",
        "1\n2\n1\n4\nInvalid argument\n",
    ),
]

GROUPS = [
    Said(
        "An offset written to `groups/<group>/<partition>` is committed for that group; `rm` deletes the commit.",
        "mkdir groups/billing; echo 7 > groups/billing/orders-0; cat groups/billing/orders-0; "
        "tail -n 1 groups/billing/lag | awk '{print $1,$2,$3,$4}'; rm groups/billing/orders-0; "
        "test -e groups/billing/orders-0 || echo none",
        "7\norders-0 7 12 5\nnone\n",
    ),
    Said(
        "The seconds of `lag` are the time from the next record that the group reads to the newest one; `-` if it is "
        "not known.",
        """mkdir timed-0 groups/timed; printf '{"value":"a","timestamp":4102444800000}\\n"""
        """{"value":"b","timestamp":4102444861500}\\n' > timed-0/append.ndjson; """
        "echo 0 > groups/timed/timed-0; tail -n 1 groups/timed/lag | awk '{print $4, $5}'; "
        "test $(wc -c < groups/timed/lag) = $(stat -c %s groups/timed/lag) && rm groups/timed/timed-0; rmdir timed-0",
        "2 61.500\n",
    ),
    Said(
        "In the name of a key, `/`, `%` and control characters are written `%2F`, `%25` and so on; "
        "the empty key is `%`.",
        """mkdir keys-0; printf '{"key":"","value":"a"}\\n{"key":"x/y%%","value":"b"}\\n' > keys-0/append.ndjson; """
        "cat keys-0/by-key/% keys-0/by-key/x%2Fy%25; rmdir keys-0",
        "ab",
    ),
    Said(
        "Bytes from 128 on may also be written as `%80` to `%FF`.",
        """mkdir keys-0; printf '{"key_b64":"/w==","value":"c"}\\n' > keys-0/append.ndjson; """
        "cat keys-0/by-key/%FF; rmdir keys-0",
        "c",
    ),
    Said(
        "A key of more than 80 bytes also has the name `%sha256-` and its SHA-256 in hexadecimal.",
        'key=$(printf %0400d 7); mkdir keys-0; echo \'{"key":"\'$key\'","value":"d"}\' > keys-0/append.ndjson; '
        "sum=$(jq -j .key keys-0/records.ndjson | sha256sum | cut -d' ' -f1); cat keys-0/by-key/%sha256-$sum; "
        "jq -c .offset keys-0/by-key/%sha256-$sum.json; rmdir keys-0",
        "d0\n",
    ),
    Said(
        "A commit for a partition that does not exist is “Invalid argument”, one beyond its end "
        "“Numerical result out of range”.",
        "mkdir groups/late; (echo 0 > groups/late/orders-99) 2>&1 | grep -o 'Invalid.*'; "
        "(echo 99999 > groups/late/orders-0) 2>&1 | grep -o 'Numerical.*'",
        "Invalid argument\nNumerical result out of range\n",
    ),
]

REFUSED = [
    Said(
        "Records cannot be changed, removed or renamed: “Operation not permitted”.",
        "(echo x > orders-0/4) 2>&1 | grep -o 'Operation.*'; for each in 'rm -f' 'truncate -s 0' 'chmod 600' touch; do "
        "$each orders-0/4 2>&1 | grep -o 'Operation not permitted'; done; mv orders-0/4 orders-0/99 2>&1 | "
        "grep -o 'Op.*'; "
        "cat orders-0/4",
        "Operation not permitted\n" * 6 + '{"id":4,"state":"paid"}',
    ),
    Said(
        "Writing to a new name creates no file: “Operation not permitted”.",
        "(echo x > orders-0/new) 2>&1 | grep -o 'Operation.*'; touch orders-0/12 2>&1 | grep -o 'Operation.*'",
        "Operation not permitted\nOperation not permitted\n",
    ),
]

PARTITIONS = [
    Said(
        "`mkdir orders-1` creates a partition, with the mount option `create`; a name that is not "
        "TOPIC-PARTITION is refused.",
        "mkdir made-0; ls made-0 | head -n 1; mkdir 'no name' 2>&1 | grep -o 'Invalid.*'; rmdir made-0",
        "append\nInvalid argument\n",
    ),
    Said(
        "`cp -r` of a partition into a mount is refused before it makes one; "
        "`cat OLD/records.ndjson > NEW/append.ndjson` copies records.",
        "cp -r orders-0 copied-0 2>&1 | grep -o 'Operation.*'; ls -d copied-0 2>&1 | grep -o 'No such.*'; "
        "grep -c 'cp cannot fill a partition.*cat OLD/records.ndjson > copied-0/append.ndjson' .offsetfs/errors; "
        "mkdir copied-0; cat orders-0/records.ndjson > copied-0/append.ndjson; cmp orders-0/values copied-0/values && "
        "echo same; rmdir copied-0",
        "Operation not permitted\nNo such file or directory\n1\nsame\n",
    ),
    Said(
        "`rmdir orders-1` deletes a partition with its records, with the mount option `delete`.",
        "mkdir gone-0; echo x > gone-0/append; rmdir gone-0; ls -d gone-0 2>&1 | grep -o 'No such.*'",
        "No such file or directory\n",
    ),
    Said(
        "An offset written to `start` deletes the records below it, with the mount option `delete-records`.",
        "seq 5 > $p/append; echo 3 > $p/start; cat $p/start $p/values; ls $p | head -n 2; test -e $p/2 || echo none",
        "3\n4\n5\n3\n4\nnone\n",
    ),
]


@pytest.mark.parametrize("said", LINES + JSON + RAW + TOPICS + GROUPS + REFUSED + PARTITIONS, ids=str)
def test_the_step_behaves_as_its_sentence_states(
    tree: Path, tmp_path: Path, said: Said, request: pytest.FixtureRequest
) -> None:
    place = (LINES + JSON + RAW + TOPICS + GROUPS + REFUSED + PARTITIONS).index(said)
    run(tree, tmp_path, said, f"p{place}-0")
