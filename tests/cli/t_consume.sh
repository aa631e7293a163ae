#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --consume: a conversion on a drive without room for source and container.
. "${srcdir:-.}/tests/cli/lib.sh"

"$MKCKPT" --out "$tmp/src" --preset medium --layers 4 --experts 8 --vocab 1024 \
    --inter 1024 --shards 8 >/dev/null || exit 99
"$LODE" convert -q "$tmp/src" "$tmp/ref.lode" || exit 99
bytes=$(du -sk "$tmp/src" | awk '{ print $1 * 1024 }')

shards() {
    find "$1" -name '*.safetensors' -o -name '*.safetensors.consumed' | wc -l
}

# With room, and what is left of the folder.
cp -r "$tmp/src" "$tmp/c"
run 0 "$LODE" convert --consume --dry-run "$tmp/c" "$tmp/c.lode"
like "$out" "CONSUME" "the plan says what will be lost"
check "the dry run leaves all shards" diff -r "$tmp/src" "$tmp/c"
run 0 "$LODE" convert --consume "$tmp/c" "$tmp/c.lode"
like "$out" "CONSUME" "so does the run"
check "the container is that of a usual run" cmp "$tmp/ref.lode" "$tmp/c.lode"
check "no shard is left" test "$(shards "$tmp/c")" -eq 0
check "the small files are" test -s "$tmp/c/config.json"
run 0 "$LODE" convert --consume "$tmp/c" "$tmp/c.lode"
like "$out" "was complete" "once more: it was complete"
check "extraction gives the shards back" "$LODE" extract -q "$tmp/c.lode" "$tmp/x"
check "bit for bit" diff -r "$tmp/src" "$tmp/x"
rm -rf "$tmp/c" "$tmp/c.lode" "$tmp/x"

# Killed again and again.
cp -r "$tmp/src" "$tmp/c"
tries=0
while [ $tries -lt 12 ]; do
    "$LODE" convert -q --consume "$tmp/c" "$tmp/c.lode" >"$out" 2>"$err" &
    pid=$!
    sleep "0.$((tries * 7 % 10))$((tries * 3 % 10))"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    zeros=none
    for shard in "$tmp"/c/*.safetensors; do
        [ -e "$shard" ] || continue
        cmp -s "$shard" "$tmp/src/${shard##*/}" || zeros=bad
    done
    [ "$zeros" = bad ] && break
    tries=$((tries + 1))
done
check "what still has a shard's name is that shard" test "$zeros" != bad
if [ "$(find "$tmp/c" -name '*.consumed' | wc -l)" -gt 0 ]; then
    run 2 "$LODE" convert "$tmp/c" "$tmp/other.lode"
    like "$err" "was given up by an unfinished conversion" \
        "without --consume: says what happened"
fi
run 0 "$LODE" convert -q --consume "$tmp/c" "$tmp/c.lode"
check "killed: the container is that of a usual run" \
    cmp "$tmp/ref.lode" "$tmp/c.lode"
check "killed: no shard is left" test "$(shards "$tmp/c")" -eq 0
check "killed: no work is left" test ! -e "$tmp/c.lode.wip" \
    -a ! -e "$tmp/c.lode.wip.journal"
rm -rf "$tmp/c" "$tmp/c.lode"

# On a drive too small for both.
image=$tmp/image
mkdir "$tmp/drive"
dd if=/dev/zero of="$image" bs=1 count=0 \
    seek=$((bytes * 160 / 100 + 24000000)) 2>/dev/null
if mkfs.ext4 -q -m 0 "$image" 2>/dev/null &&
    mount -o loop "$image" "$tmp/drive" 2>/dev/null; then
    cp -r "$tmp/src" "$tmp/drive/c"
    run 1 "$LODE" convert --codec none "$tmp/drive/c" "$tmp/drive/c.lode"
    like "$err" "are missing" "small drive: the missing bytes are named"
    like "$err" "--consume gives up the shards on the way and fits" \
        "small drive: and what to do"
    check "small drive: nothing is written" \
        test "$(ls "$tmp/drive")" = "$(printf 'c\nlost+found')"
    run 0 "$LODE" convert -q --codec none --consume "$tmp/drive/c" \
        "$tmp/drive/c.lode"
    "$LODE" convert -q --codec none "$tmp/src" "$tmp/none.lode"
    check "small drive: the container is that of a usual run" \
        cmp "$tmp/none.lode" "$tmp/drive/c.lode"
    # And the container by another, on the same drive.
    run 1 "$LODE" repack --align 8K "$tmp/drive/c.lode" "$tmp/drive/d.lode"
    like "$err" "are missing" "small drive: repack names the missing bytes"
    run 0 "$LODE" repack -q --consume --align 8K "$tmp/drive/c.lode" \
        "$tmp/drive/d.lode"
    "$LODE" repack -q --align 8K "$tmp/none.lode" "$tmp/d.lode"
    check "small drive: the repacked container, too" \
        cmp "$tmp/d.lode" "$tmp/drive/d.lode"
    check "small drive: nothing is left of the old one" \
        test ! -e "$tmp/drive/c.lode" -a ! -e "$tmp/drive/c.lode.consumed"
    umount "$tmp/drive"
else
    skip "small drive" "cannot mount a loop device"
fi
rm -f "$image"

# What must not be given up.
cp -r "$tmp/src" "$tmp/c"
one=model-00003-of-000008.safetensors
mv "$tmp/c/$one" "$tmp/c/blob" && ln -s blob "$tmp/c/$one"
run 2 "$LODE" convert --consume "$tmp/c" "$tmp/c.lode"
like "$err" "is a symbolic link" "a symbolic link is refused"
rm "$tmp/c/$one" && mv "$tmp/c/blob" "$tmp/c/$one"
ln "$tmp/c/$one" "$tmp/hard"
run 2 "$LODE" convert --consume "$tmp/c" "$tmp/c.lode"
like "$err" "has other names" "a file with two names is refused"
rm "$tmp/hard"
run 2 "$LODE" convert --consume --text-only "$tmp/c" "$tmp/c.lode"
like "$err" "exclude each other" "--text-only is refused"
run 2 "$LODE" convert --consume --index-only "$tmp/c" "$tmp/c.lode"
like "$err" "exclude each other" "--index-only is refused"
check "all of that touched nothing" diff -r "$tmp/src" "$tmp/c"
cp "$tmp/c/$one" "$tmp/c/$one.consumed"
run 2 "$LODE" convert --consume "$tmp/c" "$tmp/c.lode"
like "$err" "are there" "a shard that is there twice is refused"
rm "$tmp/c/$one.consumed"

# A file system that cannot give space back.
dd if=/dev/zero of="$image" bs=1 count=0 seek=$((bytes * 3)) 2>/dev/null
if mkfs.vfat "$image" >/dev/null 2>&1 &&
    mount -o loop "$image" "$tmp/drive" 2>/dev/null; then
    cp -r "$tmp/src" "$tmp/drive/c"
    run 4 "$LODE" convert --consume "$tmp/drive/c" "$tmp/drive/c.lode"
    like "$err" "--consume is not possible" "no holes: says so at once"
    check "no holes: touches nothing" diff -r "$tmp/src" "$tmp/drive/c"
    umount "$tmp/drive"
else
    skip "a file system without holes" "cannot make or mount a vfat"
fi

done_testing
