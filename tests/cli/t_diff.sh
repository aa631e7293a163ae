#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode diff, and lode verify --against a checkpoint.
. "${srcdir:-.}/tests/cli/lib.sh"

source=$fixtures/kimi-linear-tiny-a
a=$tmp/a.lode
run 0 "$LODE" convert -q "$source" "$a"
run 0 "$LODE" diff "$a" "$a"
like "$out" "same content, same index" "a file and itself"
run 0 "$LODE" repack -q --align 64K "$a" "$tmp/wide.lode"
run 0 "$LODE" diff "$a" "$tmp/wide.lode"
like "$out" "alignment     4096, 65536" "another alignment is no difference"
run 0 "$LODE" diff -q "$a" "$tmp/wide.lode"
check "-q is quiet" test ! -s "$out"
run 0 "$LODE" diff --json "$a" "$tmp/wide.lode"
like "$out" '"same": true' "--json"
mkdir "$tmp/set"
run 0 "$LODE" repack -q --split 1M "$a" "$tmp/set/s.lode"
run 0 "$LODE" diff "$a" "$tmp/set/s.lode"
like "$out" "files         1, " "a set of the same content"

# One value of one tensor: bf16 and f32, whatever the fixture has.
cp -r "$source" "$tmp/c"
chmod -R u+w "$tmp/c"
shard=$(ls "$tmp/c"/*.safetensors | head -n 1)
"$MUTATE" flip "$shard" $(($(wc -c <"$shard") - 1)) || exit 99
run 0 "$LODE" convert -q "$tmp/c" "$tmp/c.lode"
run 1 "$LODE" diff "$a" "$tmp/c.lode"
like "$out" "block of " "the block is named"
like "$out" "1 values differ, first at element" "one value of one tensor"
like "$out" "relative error" "and how much that is"
# Two files tell of the shard: its digest is in both.
like "$out" "file provenance.json: bytes differ" "the provenance differs"
run 1 "$LODE" diff --json "$a" "$tmp/c.lode"
like "$out" '"relative_error"' "--json has the error"
like "$out" '"same": false' "--json says no"
run 3 "$LODE" diff --expect-root \
    0000000000000000000000000000000000000000000000000000000000000000 "$a" "$a"

# Other models.
run 0 "$MKCKPT" -o "$tmp/two" --preset tiny --layers 2 --vocab 600
run 0 "$LODE" convert -q "$tmp/two" "$tmp/two.lode"
run 1 "$LODE" diff "$a" "$tmp/two.lode"
like "$out" "only in the first: " "tensors of one only"

# Weights that are not here.
run 0 "$LODE" convert -q --index-only "$source" "$tmp/index.lode"
run 1 "$LODE" diff "$a" "$tmp/index.lode"
like "$out" "not here: " "what cannot be compared is said"
run 1 "$LODE" diff "$a" "$tmp/none.lode"
head -c 5000 "$a" >"$tmp/cut.lode"
run 3 "$LODE" diff "$a" "$tmp/cut.lode"
run 2 "$LODE" diff "$a"

# Against the checkpoint.
run 0 "$LODE" verify "$a" --against "$source"
like "$out" "0 differences" "the checkpoint it was made from"
run 0 "$LODE" verify "$tmp/set/s.lode" --against "$source"
run 3 "$LODE" verify "$a" --against "$tmp/c"
like "$out" "1 values differ, first at element" "one value"
like "$out" "1 differences" "and no more"
run 3 "$LODE" verify --json "$a" --against "$tmp/c"
like "$out" '"difference_count": 1' "--json counts"
echo >>"$tmp/c/config.json"
run 3 "$LODE" verify "$a" --against "$tmp/c"
like "$out" "file config.json: bytes differ" "a file that differs"
run 3 "$LODE" verify "$a" --against "$tmp/two"
like "$out" "only in the first: " "another checkpoint"
run 1 "$LODE" verify "$a" --against "$tmp/nowhere"
run 2 "$LODE" verify "$a" --fast --against "$source"
done_testing
