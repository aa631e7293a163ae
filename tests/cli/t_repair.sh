#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode repair: whatever is damaged becomes the very bytes it was, from any
# source that has the content, or stays as it is and is named.
. "${srcdir:-.}/tests/cli/lib.sh"

source=$fixtures/kimi-linear-tiny-a
good=$tmp/good.lode
bad=$tmp/bad.lode
run 0 "$LODE" convert -q "$source" "$good"
"$LODE" info --blocks "$good" >"$tmp/blocks" || exit 99
last=$(($(wc -c <"$good") - 1))

offset_of() { # BLOCK NAME
    awk -v name="$1" 'index($0, name) { print $2; exit }' "$tmp/blocks"
}

harm() { # OFFSET...: a fresh bad.lode with these bytes changed
    cp "$good" "$bad"
    for at; do
        "$MUTATE" flip "$bad" "$at" || exit 99
    done
}

same() { # NAME
    cmp -s "$bad" "$good"
    ok $? "$1: byte for byte what it was"
}

run 0 "$LODE" repack -q --align 64K "$good" "$tmp/wide.lode"
packed=$tmp/packed.lode
"$LODE" repack -q --codec zstd "$good" "$packed" 2>"$err" || packed=
mkdir "$tmp/set"
run 0 "$LODE" repack -q --split 1M "$good" "$tmp/set/s.lode"

expert=$(offset_of "expert 3 of layer 5")
trunk=$(offset_of "trunk of layer 2")
config=$(offset_of "file config.json")

# Blocks, from each kind of source.
for from in "$source" "$tmp/wide.lode" "$packed" "$tmp/set/s.lode" "$good"; do
    if [ -z "$from" ]; then
        skip "from a packed container" "this build cannot pack"
        continue
    fi
    harm $((expert + 7)) $((trunk + 9)) $((config + 3))
    run 0 "$LODE" repair "$bad" --from "$from"
    like "$out" "3 of 3 damaged blocks repaired, 0 faults left" \
        "three blocks from ${from##*/}"
    same "from ${from##*/}"
done

# A dry run writes nothing.
harm $((expert + 7))
cp "$bad" "$tmp/before"
run 0 "$LODE" repair --dry-run "$bad" --from "$source"
like "$out" "expert 3 of layer 5: would be repaired" "--dry-run names the block"
check "--dry-run writes nothing" cmp "$bad" "$tmp/before"
run 0 "$LODE" repair --json "$bad" --from "$source"
like "$out" '"repaired_blocks": 1' "--json counts"
same "--json"

# Superblocks, padding, length.
harm 100
run 0 "$LODE" repair "$bad" --from "$source"
like "$out" "a superblock written again" "slot A"
same "slot A"
harm 65636 5000 $last
run 0 "$LODE" repair "$bad" --from "$source"
like "$out" "2 bytes of padding zeroed" "padding"
same "slot B and padding"
cp "$good" "$bad"
"$MUTATE" grow "$bad" 4096
run 0 "$LODE" repair "$bad" --from "$source"
same "something was appended"
head -c $((last / 2)) "$good" >"$bad"
run 0 "$LODE" repair "$bad" --from "$source"
same "cut in the middle, from the checkpoint"
head -c $((last / 2)) "$good" >"$bad"
run 0 "$LODE" repair "$bad" --from "$tmp/wide.lode"
same "cut in the middle, from another container"

run 0 "$LODE" convert -q --text-only "$fixtures/kimi-k3-tiny-a" "$tmp/text.lode"
"$LODE" info --blocks "$tmp/text.lode" >"$tmp/blocks"
cp "$tmp/text.lode" "$bad"
"$MUTATE" flip "$bad" $(($(offset_of "origin provenance.json") + 9)) || exit 99
run 3 "$LODE" repair "$bad" --from "$fixtures/kimi-k3-tiny-a"
like "$out" "origin provenance.json: not repaired: " \
    "the record of a conversion with options is not guessed"
run 0 "$LODE" repair "$bad" --from "$tmp/text.lode"

# The index: only from a container with this very index.
harm 131080
run 3 "$LODE" repair "$bad" --from "$source"
like "$err" "section GROUPS is damaged" "the section is named"
like "$err" "make the container again" "and what to do"
run 3 "$LODE" repair "$bad" --from "$tmp/wide.lode"
harm 131080 $((expert + 7))
run 0 "$LODE" repair "$bad" --from "$good"
same "index and block"
harm 100 65636
run 3 "$LODE" repair "$bad" --from "$good"
like "$err" "bad.lode: " "without any superblock nothing is known"

# What is no source for it.
run 0 "$MKCKPT" -o "$tmp/other" --preset tiny --layers 2 --vocab 600
run 0 "$LODE" convert -q "$tmp/other" "$tmp/other.lode"
harm $((expert + 7))
cp "$bad" "$tmp/before"
run 3 "$LODE" repair "$bad" --from "$tmp/other.lode"
like "$out" "expert 3 of layer 5: not repaired: " "another model's container"
check "nothing was written" cmp "$bad" "$tmp/before"
run 3 "$LODE" repair "$bad" --from "$tmp/other"
like "$out" "not repaired: the source has no tensor" "another checkpoint"
run 1 "$LODE" repair "$bad" --from "$tmp/nowhere"
run 2 "$LODE" repair "$bad"
like "$err" "--from SOURCE is missing" "no source"
run 0 "$LODE" repair "$good" --from "$source"
like "$out" "no fault, nothing to repair" "a good one"
run 3 "$LODE" repair "$good" --from "$source" --expect-root \
    0000000000000000000000000000000000000000000000000000000000000000

# A set: head and volumes, and volumes alone; they are sources, too.
cp -r "$tmp/set" "$tmp/whole"
for volume in "$tmp"/set/s?*.lode; do :; done
volume=${volume##*/}
"$MUTATE" flip "$tmp/set/$volume" 196700
"$MUTATE" flip "$tmp/set/$volume" 100
"$MUTATE" flip "$tmp/set/s.lode" 65600
run 3 "$LODE" verify "$tmp/set/s.lode"
run 0 "$LODE" repair "$tmp/set/s.lode" --from "$good"
check "the set is whole again" diff -r "$tmp/set" "$tmp/whole"
"$MUTATE" flip "$tmp/set/$volume" 196700
run 0 "$LODE" repair "$tmp/set/$volume" --from "$tmp/whole/s.lode"
check "a volume alone" diff -r "$tmp/set" "$tmp/whole"
"$MUTATE" flip "$tmp/set/$volume" 131080
run 0 "$LODE" repair "$tmp/set/s.lode" --from "$tmp/whole/s.lode"
check "a volume's index, from a copy of the set" diff -r "$tmp/set" "$tmp/whole"

# Packed blocks are copied from the same packing, or packed again.
if [ -n "$packed" ]; then
    cp "$packed" "$tmp/copy"
    at=$("$LODE" info --blocks "$packed" |
        awk 'index($0, "expert 3 of layer 5") { print $2; exit }')
    for from in "$tmp/copy" "$good" "$source" "$tmp/wide.lode"; do
        "$MUTATE" flip "$packed" $((at + 20)) || exit 99
        run 3 "$LODE" verify "$packed"
        run 0 "$LODE" repair "$packed" --from "$from"
        check "packed, from ${from##*/}" cmp "$packed" "$tmp/copy"
    done
else
    skip "packed blocks" "this build cannot pack"
fi
done_testing
