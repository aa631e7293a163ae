#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets run like one file wherever their volumes lie; a volume alone, a set with
# volumes missing and a container without all blocks are refused; pruned
# layers; a file system without direct reads; how much is read to open.
. "${srcdir:-.}/tests/cli/lib.sh"

ids=5,9,200,31,7,7,120,2,44,3
same() { # NAME FILE OPTION...
    name=$1
    shift
    run 0 "$LODE" eval "$@" --ids $ids --logits "$tmp/x.f32" --json
    check "$name: the same logits" cmp "$tmp/ref.f32" "$tmp/x.f32"
    rm -f "$tmp/x.f32"
}

one=$tmp/one.lode
run 0 "$LODE" convert -q --codec none "$fixtures/kimi-k3-tiny-a" "$one"
run 0 "$LODE" eval "$one" --ids $ids --logits "$tmp/ref.f32" --json

# A set, beside its head and on several drives.
mkdir "$tmp/set" "$tmp/a" "$tmp/b" "$tmp/empty"
head=$tmp/set/k3.lode
run 0 "$LODE" repack -q --split layer "$one" "$head"
volumes=$(cd "$tmp/set" && ls k3-*)
many=$(echo "$volumes" | wc -l)
first=$(echo "$volumes" | head -n 1)
check "volumes: $many" test "$many" -ge 4
for io in direct buffered; do same "volumes beside the head, $io" "$head" --io $io; done
same "token by token" "$head" --prefill-chunk 1 --threads 1
run 2 "$LODE" run "$tmp/set/$first" --ids 1,2 -n 1
like "$err" "$first: this is volume " "a volume alone is refused"
like "$err" " of a set; open its head" "and what to open is said"

n=0
for v in $volumes; do
    n=$((n + 1))
    if [ $((n % 2)) -eq 0 ]; then mv "$tmp/set/$v" "$tmp/a"; else
        mv "$tmp/set/$v" "$tmp/b"
    fi
done
for command in run eval; do
    run 1 "$LODE" $command "$head" --ids $ids
    like "$err" "k3.lode: $many of $many volumes are missing: " \
        "$command: missing volumes are counted"
    like "$err" "$first" "$command: and named"
done
run 1 "$LODE" run "$head" --ids $ids --dir "$tmp/b"
like "$err" "k3.lode: $((many / 2)) of $many volumes are missing: " \
    "half of them found"
dirs="--dir $tmp/empty --dir $tmp/a --dir $tmp/b"
for command in "run --ids $ids -n 3" "eval --ids $ids" "plan --memory 1G"; do
    # shellcheck disable=SC2086 # words
    run 0 "$LODE" $command "$head" $dirs
done
same "volumes in two folders" "$head" --dir "$tmp/a" --dir "$tmp/b"
run 0 "$LODE" plan "$head" --memory 1G --json
grep -v base_bytes "$out" >"$tmp/without"
run 0 "$LODE" plan "$head" --memory 1G --json --dir "$tmp/a" --dir "$tmp/b"
like "$out" '"trunk_bytes": '"$(number trunk_bytes "$tmp/without")" \
    "plan needs the head alone"
# A damaged block in a volume.
size=$(wc -c <"$tmp/b/$first")
dd if=/dev/urandom of="$tmp/b/$first" bs=4096 seek=$((size / 4096 - 20)) count=8 \
    conv=notrunc 2>/dev/null
run 3 "$LODE" run "$head" --ids $ids --dir "$tmp/a" --dir "$tmp/b"
like "$err" "k3.lode: " "damage in a volume: the set is named"
like "$err" "damaged: " "and what is wrong"
rm -rf "$tmp/set" "$tmp/a" "$tmp/b"
mkdir "$tmp/packed"
run 0 "$LODE" repack -q --archive --split layer "$one" "$tmp/packed/k3.lode"
same "a packed set" "$tmp/packed/k3.lode"
rm -rf "$tmp/packed"

# An index without blocks.
run 0 "$LODE" convert -q --index-only "$fixtures/kimi-k3-tiny-a" \
    "$tmp/index.lode"
run 0 "$LODE" plan "$tmp/index.lode" --memory 1G
run 1 "$LODE" run "$tmp/index.lode" --ids 1 -n 1
like "$err" "index.lode: embedding: not in this file; " "the first missing block is named"
all=$(sed -n 's/.*; \([0-9]*\) of \([0-9]*\) blocks that a run needs.*/\1 \2/p' \
    "$err")
check "all are missing: $all" test "${all% *}" -gt 100 -a \
    "${all% *}" = "${all#* }"

# Experts left out.  Those that no token chose are not missed: the logits of
# what was chosen stay, as long as sums run over chosen experts only.
run 0 "$LODE" eval "$one" --ids $ids --routes --json
sed -n 's/.*"layer": \([0-9]*\), "ids": \[\(.*\)\]}.*/\1 \2/p' "$out" |
    tr -d '[]' | tr ',' ' ' | awk '{
        delete used
        for (i = 2; i <= NF; i++) used[$i] = 1
        line = $1 ":"
        n = 0
        for (e = 0; e < 16; e++) if (!(e in used) && n < $1 % 3 + 1) {
            line = line " " e; n++
        }
        if (n) print line
    }' >"$tmp/drop"
check "experts to leave out in several layers" test \
    "$(wc -l <"$tmp/drop")" -ge 2
run 0 "$LODE" repack -q --drop-experts "$tmp/drop" "$one" "$tmp/pruned.lode"
same "experts that were not chosen left out" "$tmp/pruned.lode"
same "the same, in small chunks" "$tmp/pruned.lode" --prefill-chunk 1 --threads 3
run 0 "$LODE" plan "$one" --memory 1G --json
experts=$(number experts "$out")
run 0 "$LODE" plan "$tmp/pruned.lode" --memory 1G --json
check "plan counts those that are left" test \
    "$(number experts "$out")" -lt "$experts"

# No direct reads, and blocks at multiples of 4 KiB up to the end of the file.
shm=
for dir in /dev/shm "$tmp"; do
    [ -w $dir ] && [ "$(stat -f -c %T $dir)" = tmpfs ] && shm=$dir && break
done
if [ -z "$shm" ]; then
    skip "a container on tmpfs" "no tmpfs here"
else
    on=$(mktemp "$shm/lode-XXXXXX")
    trap 'rm -rf "$tmp" "$on"' EXIT
    run 0 "$LODE" repack -q -f --align 4K "$one" "$on"
    run 0 "$LODE" info "$on" --blocks
    awk '/[0-9a-f]  (expert|trunk)/ && ($2 % 65536) { found = 1 }
        END { exit !found }' "$out"
    ok $? "blocks at multiples of 4 KiB, not of 64 KiB"
    same "on tmpfs" "$on"
    cp "$err" "$tmp/note"
    same "on tmpfs, buffered" "$on" --io buffered
    if dd if="$on" iflag=direct of=/dev/null bs=4096 count=1 2>/dev/null; then
        skip "tmpfs: why reads are buffered" "this one takes direct reads"
    else
        run 0 "$LODE" eval "$on" --ids $ids
        like "$err" "reading through the page cache (direct I/O" \
            "one line says that reads are buffered, and why"
        check "one line only" test "$(wc -l <"$err")" -eq 1
        run 1 "$LODE" eval "$on" --ids $ids --io direct
        like "$err" "direct I/O" "with --io direct it is refused"
    fi
    rm -f "$on"
fi
same "blocks at multiples of 64 KiB, too" "$one"

# Opening: two reads for the index and one for each file that the model needs,
# however many blocks there are.
if [ -n "${LODE_SANITIZED:-}" ]; then
    skip "reads to open a container" "a leak check cannot run under strace"
elif command -v strace >/dev/null 2>&1 &&
    strace -o "$tmp/trace" -e trace=pread64 true 2>/dev/null; then
    run 0 strace -f -o "$tmp/trace" -e trace=openat,open,pread64 "$LODE_RUN" \
        plan "$one" --memory 1G
    # The loader reads libraries before.
    reads=$(sed -n '/one\.lode"/,$p' "$tmp/trace" | grep -c 'pread64(')
    [ "$reads" -ge 3 ] && [ "$reads" -le 6 ]
    ok $? "reads to open a container: $reads"
else
    skip "reads to open a container" "strace is not there or may not trace"
fi
done_testing
