#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode verify: whatever byte is wrong is found and told by its place.

. "${srcdir:-.}/tests/cli/lib.sh"

lode=$tmp/k.lode
bad=$tmp/bad.lode
run 0 "$LODE" convert -q "$fixtures/kimi-linear-tiny-a" "$lode"
run 0 "$LODE" verify "$lode"
like "$out" "no fault in $(wc -c <"$lode") bytes" "a good one"
run 0 "$LODE" verify --json "$lode"
like "$out" '"ok": true' "a good one, --json"
like "$out" '"fault_count": 0' "no faults, --json"
run 0 "$LODE" verify -q "$lode"
check "-q is quiet" test ! -s "$out"

"$LODE" info --blocks "$lode" >"$tmp/blocks" || exit 99

offset_of() { # BLOCK NAME
    awk -v name="$1" 'index($0, name) { print $2; exit }' "$tmp/blocks"
}

damaged() { # OFFSET TEXT NAME
    cp "$lode" "$bad"
    "$MUTATE" flip "$bad" "$1" || exit 99
    run 3 "$LODE" verify "$bad"
    like "$out" "$2" "$3: says $2"
}

for block in "expert 3 of layer 5" "expert 0 of layer 1" "trunk of layer 2" \
    "file config.json" "file tiktoken.model"; do
    damaged $(($(offset_of "$block") + 20)) "$block" "a byte of $block"
done
damaged 100 "superblock A" "superblock A"
damaged 65636 "superblock B" "superblock B"
damaged 5000 "gap between superblocks" "behind superblock A"
damaged 131080 "index" "the index" # its groups
last=$(($(wc -c <"$lode") - 1))
damaged $last "padding" "the last byte"

# All faults, not the first only.
cp "$lode" "$bad"
for block in "expert 3 of layer 5" "expert 7 of layer 9" "trunk of layer 2"; do
    "$MUTATE" flip "$bad" $(($(offset_of "$block") + 7)) || exit 99
done
run 3 "$LODE" verify "$bad"
like "$out" "expert 3 of layer 5" "the first of three faults"
like "$out" "expert 7 of layer 9" "the second"
like "$out" "trunk of layer 2" "the third"
run 3 "$LODE" verify --json "$bad"
like "$out" '"ok": false' "--json says no"
like "$out" 'expert 7 of layer 9' "--json names the block"
run 3 "$LODE" verify -q "$bad"
check "-q leaves it to the status" test ! -s "$out"

# Cut short, and too long.
for cut in 0 100 4096 65536 131072 150000 $((last / 2)) $last; do
    head -c "$cut" "$lode" >"$bad"
    run 3 "$LODE" verify "$bad"
done
cp "$lode" "$bad"
"$MUTATE" grow "$bad" 4096
run 3 "$LODE" verify "$bad"

run 1 "$LODE" verify "$tmp/absent.lode"
like "$err" "No such file" "absent"

done_testing
