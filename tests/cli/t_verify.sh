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
    run 3 "$LODE" verify --strict "$bad"
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

# The report does not depend on the number of threads.
"$LODE" verify --strict -j 1 "$bad" >"$tmp/one"
for jobs in 2 5 8; do
    run 3 "$LODE" verify --strict -j $jobs "$bad"
    cp "$out" "$tmp/many"
    check "-j $jobs says the same" cmp "$tmp/many" "$tmp/one"
done
run 2 "$LODE" verify -j 0 "$bad"
run 2 "$LODE" verify --fast --strict "$bad"
like "$err" "exclude each other" "--fast and --strict"

# Levels: padding is strict's, digests are the default's.
cp "$lode" "$bad"
"$MUTATE" flip "$bad" $last || exit 99
run 0 "$LODE" verify "$bad"
run 0 "$LODE" verify --fast "$bad"
run 0 "$LODE" verify --fast "$lode"
cp "$lode" "$bad"
"$MUTATE" flip "$bad" $(($(offset_of "expert 3 of layer 5") + 7)) || exit 99
run 3 "$LODE" verify --fast "$bad"
like "$out" "expert 3 of layer 5: checksum" "--fast compares checksums"
unlike "$out" "SHA-256" "--fast computes no digest"

# The root one expects.
root=$("$LODE" info --json "$lode" | sed -n 's/.*"root": "\(.*\)".*/\1/p')
zero=0000000000000000000000000000000000000000000000000000000000000000
run 0 "$LODE" verify --expect-root "$root" "$lode"
run 3 "$LODE" verify --expect-root $zero "$lode"
like "$out" "content root" "another root is a fault"
run 0 "$LODE" info --expect-root "$root" "$lode"
run 3 "$LODE" info --expect-root $zero "$lode"
like "$err" "$root" "info names the root that was found"
run 3 "$LODE" extract --expect-root $zero "$lode" "$tmp/none"
check "extract made nothing" test ! -e "$tmp/none"

# A set: volumes are verified, found elsewhere, or missed.
set=$tmp/set/k.lode
mkdir "$tmp/set" "$tmp/far"
run 0 "$LODE" repack -q --split 1M "$lode" "$set"
for volume in "$tmp"/set/k?*.lode; do :; done
volume=${volume##*/}
check "there is a volume" test -n "$volume"
run 0 "$LODE" verify --strict "$set"
like "$out" "no fault in" "a good set"
run 0 "$LODE" verify --strict --expect-root "$root" "$set"
run 0 "$LODE" info "$set"
like "$out" "of them here" "info counts volumes"
run 0 "$LODE" verify --strict "$tmp/set/$volume"
like "$out" "blocks are not in this file" "a volume alone"
mv "$tmp/set/$volume" "$tmp/far/"
run 3 "$LODE" verify "$set"
like "$out" "volume $volume: is missing" "a missing volume is named"
run 0 "$LODE" verify --dir /nowhere --dir "$tmp/far" "$set"
run 0 "$LODE" info "$set"
like "$out" "missing    volume $volume" "info names it"
run 1 "$LODE" extract -q "$set" "$tmp/x"
like "$err" "$volume" "extract names it"
run 0 "$LODE" extract -q --dir "$tmp/far" "$set" "$tmp/x"
cp "$tmp/far/$volume" "$tmp/whole"
"$MUTATE" flip "$tmp/far/$volume" 196700 || exit 99
run 3 "$LODE" verify --dir "$tmp/far" "$set"
like "$out" "volume $volume: " "a fault in a volume"
head -c 5000 "$tmp/whole" >"$tmp/far/$volume"
run 3 "$LODE" verify --dir "$tmp/far" "$set"
like "$out" "volume $volume: " "a volume that is cut short"

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
