#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode extract: the original files, bit for bit, or none.

. "${srcdir:-.}/tests/cli/lib.sh"
. "$srcdir/tests/cli/checkpoint.sh"

for name in fixtures/kimi-k3-tiny-a fixtures/kimi-linear-tiny-a \
    models/k3-demo; do
    src=$srcdir/tests/$name
    rm -rf "$tmp/x"
    run 0 "$LODE" convert -q -f "$src" "$lode"
    run 0 "$LODE" extract "$lode" "$tmp/x"
    for f in "$src"/*; do
        check "$name: ${f##*/}" cmp "$f" "$tmp/x/${f##*/}"
    done
    check "$name: no file more" \
        test "$(ls "$src" | wc -l)" -eq "$(ls "$tmp/x" | wc -l)"
done

# And back again: the same container.
run 0 "$LODE" convert -q "$tmp/x" "$tmp/again.lode"
check "converted again, the same container" cmp "$lode" "$tmp/again.lode"

# A tensor larger than a block, and layers of several blocks.
"$MKCKPT" --out "$tmp/large" --preset tiny --layers 2 --experts 4 --hidden 1024 \
    --inter 8192 --vocab 4096 >/dev/null || exit 99
run 0 "$LODE" convert -q -f "$tmp/large" "$lode"
run 0 "$LODE" extract -q "$lode" "$tmp/y"
check "large tensors" diff -r "$tmp/large" "$tmp/y"
check "-q is quiet" test ! -s "$out"
rm -rf "$tmp/large" "$tmp/y"

# Files of no byte and of several blocks.
fresh linear
: >"$c/empty.txt"
head -c 40000001 /dev/zero | tr '\0' 'x' >"$c/large.txt"
run 0 "$LODE" convert -q "$c" "$lode"
run 0 "$LODE" extract -q "$lode" "$tmp/y"
check "an empty file and a large one" diff -r "$c" "$tmp/y"
run 0 "$LODE" verify -q "$lode"
rm -rf "$tmp/y"

fresh linear
run 0 "$LODE" convert -q "$c" "$lode"
run 0 "$LODE" extract --json "$lode" "$tmp/z"
like "$out" '"path": "config.json"' "--json lists files"
like "$out" '"sha256":' "--json has digests"

# Nothing is overwritten.
echo mine >"$tmp/z/config.json"
run 2 "$LODE" extract "$lode" "$tmp/z"
like "$err" "exists; --force replaces it" "existing files are kept"
check "untouched" grep -q mine "$tmp/z/config.json"
run 0 "$LODE" extract --force "$lode" "$tmp/z"
check "--force" diff -r "$c" "$tmp/z"
run 2 "$LODE" extract "$lode" "$c/config.json"
like "$err" "is not a folder" "a file as folder"

# Not through a link.
rm -rf "$tmp/z"
mkdir "$tmp/z"
echo outside >"$tmp/outside"
ln -s "$tmp/outside" "$tmp/z/config.json"
run 0 "$LODE" extract -q --force "$lode" "$tmp/z"
check "a link is replaced, not followed" grep -q outside "$tmp/outside"

# What was left out cannot come back.
run 0 "$LODE" convert -q -f --text-only "$fixtures/kimi-k3-tiny-a" "$lode"
rm -rf "$tmp/z"
run 4 "$LODE" extract "$lode" "$tmp/z"
like "$err" "2 of 8 shards cannot be restored" "left out shards: how many"
like "$err" "model-00007-of-000008.safetensors" "left out shards: which"
check "left out shards: nothing is written" test ! -e "$tmp/z"
fresh k3
no_index
change add model-00002-of-000005.safetensors vision_tower.a U8 8 '[3]'
run 0 "$LODE" convert -q -f --text-only "$c" "$lode"
run 4 "$LODE" extract "$lode" "$tmp/z"
like "$err" "1 of 5 shards cannot be restored" "left out tensors of a shard"
like "$err" "model-00002-of-000005.safetensors" "which shard"

# Damage is never passed on.
fresh linear
run 0 "$LODE" convert -q -f "$c" "$lode"
at=$("$LODE" info --blocks "$lode" | awk '/expert 3 of layer 2/ { print $2 }')
"$MUTATE" flip "$lode" $((at + 9))
rm -rf "$tmp/z"
run 3 "$LODE" extract "$lode" "$tmp/z"
like "$err" "expert 3 of layer 2" "a damaged block is named"
check "and its shard is not there" \
    test ! -e "$tmp/z/model-00002-of-00003.safetensors"
check "nor any unfinished file" sh -c "! ls '$tmp/z' | grep -q wip"

done_testing
