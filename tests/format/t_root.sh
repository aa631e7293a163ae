#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two readers, one of them written from docs/format.md alone, find the same
# content root (spec 8.2 to 8.8, 13).
. "$srcdir/tests/cli/lib.sh"
mktiny=$top/tests/format/mktiny
second="$srcdir/tests/format/check_root.py"

for kind in empty config; do
    run 0 "$mktiny" $kind "$tmp/$kind"
    like "$srcdir/docs/format.md" "    $(cat "$out")" \
        "the specification's example: $kind"
done

if ! python3 -c 'import hashlib, struct' >/dev/null 2>&1; then
    skip "a second reader" "no python3 with hashlib and struct"
    done_testing
fi

for kind in plain split wide index empty config; do
    run 0 "$mktiny" $kind "$tmp/t.lode"
    root=$(cat "$out")
    run 0 python3 "$second" "$tmp/t.lode"
    like "$out" "$root" "both readers find the same root: $kind"
done

# It does compute: one changed byte of an expert is seen.
run 0 "$mktiny" plain "$tmp/t.lode"
printf '\377' | dd of="$tmp/t.lode" bs=1 seek=196610 conv=notrunc 2>/dev/null
run 1 python3 "$second" "$tmp/t.lode"
like "$err" "content digest of block 0" "a changed byte is seen"

# What lode convert writes, with its ORIGIN files (spec 9.3, 9.4).
run 0 "$MKCKPT" --out "$tmp/ckpt"
run 0 "$LODE" convert --codec none "$tmp/ckpt" "$tmp/m.lode"
run 0 python3 "$second" "$tmp/m.lode" "$tmp/ckpt"
root=$(cat "$out")
run 0 "$LODE" info --json "$tmp/m.lode"
like "$out" "$root" "lode info says the root that the second reader found"
done_testing
