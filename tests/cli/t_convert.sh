#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode convert: the same bytes however it is run, and nothing but a whole file
# under the final name.

. "${srcdir:-.}/tests/cli/lib.sh"
. "$srcdir/tests/cli/checkpoint.sh"

for name in fixtures/kimi-k3-tiny-a fixtures/kimi-linear-tiny-a \
    models/k3-demo; do
    src=$srcdir/tests/$name
    for jobs in 1 2 3; do
        run 0 "$LODE" convert -q --jobs $jobs "$src" "$tmp/$jobs.lode"
    done
    check "$name: --jobs 2 gives the same bytes" cmp "$tmp/1.lode" "$tmp/2.lode"
    check "$name: --jobs 3 gives the same bytes" cmp "$tmp/1.lode" "$tmp/3.lode"
    rm "$tmp"/*.lode
done

# Where the folder lies does not matter.
fresh linear
run 0 "$LODE" convert -q "$c" "$tmp/a.lode"
run 0 "$LODE" convert -q "$tmp/linear/" "$tmp/b.lode"
check "same bytes from another place" cmp "$tmp/a.lode" "$tmp/b.lode"

# An existing file.
run 2 "$LODE" convert "$c" "$tmp/a.lode"
like "$err" "a.lode exists; --force replaces it" "says so"
cmp -s "$tmp/a.lode" "$tmp/b.lode"
ok $? "and leaves it alone"
echo old >"$tmp/a.lode"
run 0 "$LODE" convert -q --force "$c" "$tmp/a.lode"
check "--force replaces it" cmp "$tmp/a.lode" "$tmp/b.lode"
echo precious >"$tmp/a.lode"
change prefix model-00001-of-00003.safetensors 0
run 3 "$LODE" convert -q --force "$c" "$tmp/a.lode"
check "--force keeps the old file when it fails" grep -q precious "$tmp/a.lode"

# Not over its own source, by whatever name.
fresh linear
ln "$c/config.json" "$tmp/hard"
ln -s "$c/model-00001-of-00003.safetensors" "$tmp/soft"
for name in "$c/config.json" "$c/model-00001-of-00003.safetensors" \
    "$tmp/hard" "$tmp/soft"; do
    run 2 "$LODE" convert --force "$c" "$name"
    like "$err" "is a file of the checkpoint itself" "C47: refused"
done
check "C47: the source is whole" diff -r "$tmp/linear" "$c"

# Bad places.
fresh linear
run 2 "$LODE" convert "$c" "$tmp/no/such.lode"
like "$err" "there is no directory" "a missing folder"
run 2 "$LODE" convert "$c" "$c"
like "$err" "is a directory" "a folder"
run 2 "$LODE" convert "$c/config.json" "$lode"
like "$err" "expected the folder of a checkpoint, found a file" "a file as source"

# The plan.
run 0 "$LODE" convert --dry-run "$c" "$lode"
like "$out" "experts" "plan: experts"
like "$out" " needed" "plan: drive"
like "$out" "memory" "plan: memory"
nothing
ok $? "plan: nothing is written"
run 0 "$LODE" convert --dry-run --codec none --json "$c" "$lode"
for key in source output family parameters tensors shards parts blocks \
    index_bytes file_bytes disk_peak_bytes free_bytes memory_bytes notes; do
    like "$out" "\"$key\":" "plan: key $key"
done
planned=$(sed -n 's/^  "file_bytes": \([0-9]*\),/\1/p' "$out")
run 0 "$LODE" convert --codec none --json "$c" "$lode"
like "$out" '"root":' "result: key root"
check "the file has the planned size" test "$(wc -c <"$lode")" -eq "$planned"
rm "$lode"
run 0 "$LODE" convert "$c" "$lode"
like "$out" "Next: lode run $lode" "says what to do next"
rm "$lode"
run 0 "$LODE" convert -q "$c" "$lode"
check "-q is quiet" test ! -s "$out"

# Options.
for align in 8K 64K; do
    run 0 "$LODE" convert -q -f --align $align "$c" "$lode"
    run 0 "$LODE" info --json "$lode"
    like "$out" "\"align_bytes\": $((${align%K} * 1024))" "--align $align"
    check "--align $align verifies" "$LODE" verify "$lode"
done
run 2 "$LODE" convert -f --align 5000 "$c" "$lode"
like "$err" "is not 4K, 8K, 16K, 32K or 64K" "bad alignment"
run 2 "$LODE" convert -f --jobs 0 "$c" "$lode"
like "$err" "--jobs: 0 is not between 1 and" "bad number of jobs"
run 0 "$LODE" convert -q -f --label "my model" "$c" "$lode"
run 0 "$LODE" info "$lode"
like "$out" "my model" "--label"
run 2 "$LODE" convert "$c"
like "$err" "found 1 arguments" "too few arguments"
run 2 "$LODE" convert --no-such "$c" "$lode"
like "$err" "unknown option --no-such" "unknown option"

# The index alone: the shards' data may be missing.
for f in "$c"/*.safetensors; do
    n=$(od -An -tu8 -N8 "$f" | tr -d ' ')
    head -c $((n + 8)) "$f" >"$tmp/head" && cp "$tmp/head" "$f"
done
rm -f "$lode"
run 3 "$LODE" convert -q "$c" "$lode"
run 0 "$LODE" convert --index-only "$c" "$lode"
like "$out" "Next: lode plan $lode --memory SIZE" "--index-only: what is next"
run 0 "$LODE" info "$lode"
like "$out" "362.25 thousand parameters" "--index-only: the model is known"
like "$out" "blocks are not in this file" "--index-only: info tells"
run 0 "$LODE" verify "$lode"
like "$out" "no fault, but" "--index-only: verify tells"
run 4 "$LODE" extract "$lode" "$tmp/nothing"
like "$err" "blocks are not in this file" "--index-only: cannot be extracted"
fresh linear

# A limit on the size of files.
rm -f "$lode"
(
    trap '' XFSZ
    ulimit -f 100
    exec "$LODE" convert -q "$c" "$lode"
) >"$out" 2>"$err"
ok $((! $?)) "file size limit: fails"
like "$err" "file size limit of this process is" "file size limit: says so"
nothing
ok $? "file size limit: leaves nothing"

# A small drive.
mkdir "$tmp/small"
if mount -t tmpfs -o size=400k tmpfs "$tmp/small" 2>/dev/null; then
    run 1 "$LODE" convert "$c" "$tmp/small/c.lode"
    like "$err" "bytes are needed" "full drive: what is needed"
    like "$err" "are available" "full drive: what is there"
    run 1 "$LODE" convert --dry-run "$c" "$tmp/small/c.lode"
    like "$err" "bytes are needed" "full drive: the dry run says it, too"
    run 1 "$LODE" convert --dry-run --json "$c" "$tmp/small/c.lode"
    like "$out" '"file_bytes"' "full drive: and its figures"
    missing=$(($(number disk_peak_bytes "$out") - $(number free_bytes "$out")))
    like "$err" " $missing are missing" "full drive: what is missing"
    check "full drive: leaves nothing" test -z "$(ls "$tmp/small")"
    umount "$tmp/small"
else
    skip "full drive" "cannot mount a tmpfs"
fi

# Cancelled.  A checkpoint of holes takes a while and no space.
"$MKCKPT" --out "$tmp/big" --preset medium --layers 13 --sparse \
    >/dev/null || exit 99
for signal in TERM INT; do
    "$LODE" convert -q "$tmp/big" "$lode" >"$out" 2>"$err" &
    pid=$!
    tries=0
    # Until there is more than one block.
    while [ "$(stat -c %s "$lode.wip" 2>/dev/null || echo 0)" -lt 40000000 ] &&
        [ $tries -lt 1200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -$signal $pid
    wait $pid
    got=$?
    case $signal in TERM) want=143 ;; *) want=130 ;; esac
    like "$err" "cancelled" "SIG$signal: says so"
    like "$err" "is kept: the same command goes on" "SIG$signal: what is next"
    check "SIG$signal: dies of it (status $got)" test $got -eq $want
    check "SIG$signal: nothing under the name" test ! -e "$lode"
    check "SIG$signal: the work is kept" test -s "$lode.wip.journal"
    rm -f "$lode.wip" "$lode.wip.journal"
done
rm -rf "$tmp/big"

done_testing
