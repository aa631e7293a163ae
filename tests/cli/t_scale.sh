#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kimi K3 at its published size, all holes but one expert: 96 shards, 497,220
# tensors, 1.56 TB.  Planning it is quick and small, the plan adds up, and a
# container's index opens in two reads.
. "${srcdir:-.}/tests/cli/lib.sh"

if [ -n "${LODE_SANITIZED:-}" ]; then
    skip "Kimi K3's published size" "takes long under a sanitizer"
    done_testing
fi
free_kb=$(df -Pk "$tmp" | awk 'NR == 2 { print $4 }')
if [ "${free_kb:-0}" -lt 2000000 ]; then
    skip "Kimi K3's published size" "less than 2 GB are free in $tmp"
    done_testing
fi
# The largest shard has 17 GB.
if ! dd if=/dev/null of="$tmp/hole" bs=1048576 seek=17000 2>/dev/null ||
    [ "$(du -k "$tmp/hole" | awk '{ print $1 }')" -gt 1000 ]; then
    skip "Kimi K3's published size" "no sparse files in $tmp"
    done_testing
fi
rm "$tmp/hole"

seconds() {
    date +%s
}

# The published figures: all tensors, all files, one expert.
tensors=497220
tensor_bytes=1560860324864
shard_bytes=1560936091448
expert_bytes=17547264
expert='language_model.model.layers.1.*.experts.0.*'
k3=$tmp/k3

run 0 "$MKCKPT" -o "$k3" --preset k3 --vision --sparse --fill "$expert"
like "$out" "$tensors tensors, $tensor_bytes bytes, $expert_bytes of them" \
    "as many tensors and bytes as were published, one expert filled"
# Not wc, which may read what it counts.
ls -ln "$k3"/*.safetensors >"$tmp/list"
[ "$(awk 'END { print NR }' "$tmp/list")" -eq 96 ]
ok $? "96 shards"
[ "$(awk '{ n += $5 } END { printf "%.0f", n }' "$tmp/list")" = $shard_bytes ]
ok $? "of 1.56 TB"
kb=$(du -sk "$k3" | awk '{ print $1 }')
[ "$kb" -lt 400000 ]
ok $? "which take $kb KiB on the drive"

# The dry run: its figures, its time and its memory.
start=$(seconds)
if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as f:
    f.write("%d\n" % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)' "$tmp/peak" "$LODE" convert --dry-run --json "$k3" \
        "$tmp/no.lode" >"$out" 2>"$err"
else
    "$LODE" convert --dry-run --json "$k3" "$tmp/no.lode" >"$out" 2>"$err"
fi
status=$?
taken=$(($(seconds) - start))
# A loaded machine is allowed three times what is promised.
[ $taken -le 30 ]
ok $? "the dry run takes $taken s"
if [ -s "$tmp/peak" ]; then
    peak_kb=$(cat "$tmp/peak")
    said=$(number memory_bytes "$out")
    [ "$peak_kb" -gt 0 ] && [ "$peak_kb" -lt 300000 ]
    ok $? "in $peak_kb KiB of memory"
    [ $((peak_kb * 1024)) -le "${said:-0}" ]
    ok $? "no more than the plan says converting takes: ${said:-?}"
else
    skip "memory of the dry run" "no python3"
fi
[ "$(number tensors "$out")" = $tensors ] && [ "$(number shards "$out")" = 96 ]
ok $? "the plan has every tensor and shard"
file_bytes=$(number file_bytes "$out")
index_bytes=$(number index_bytes "$out")
blocks=$(number blocks "$out")
free_bytes=$(number free_bytes "$out")
# A block is padded by less than 4096 bytes, and all other files have few MB.
others=$(ls -ln "$k3" | awk '/safetensors$/ { next } { n += $5 }
    END { printf "%.0f", n }')
[ "${file_bytes:-0}" -gt $shard_bytes ] && [ "$file_bytes" -lt \
    $((shard_bytes + others + index_bytes + 4096 * blocks)) ]
ok $? "the container has $file_bytes bytes: tensors, files and padding"
[ "$(number disk_peak_bytes "$out")" = "$file_bytes" ]
ok $? "so many the drive must have"
[ "$index_bytes" -lt 20000000 ]
ok $? "the index has $index_bytes bytes"
like "$out" '"bytes": 1446456066048' "the experts have their published bytes"
if [ "${free_bytes:-0}" -lt "$file_bytes" ]; then
    [ $status -eq 1 ]
    ok $? "a drive that is too small is refused (status $status)"
    like "$err" " $((file_bytes - free_bytes)) are missing" \
        "and what is missing is named"
else
    [ $status -eq 0 ]
    ok $? "the drive has the space (status $status)"
    skip "refusal of a drive that is too small" "this one has the space"
fi
[ ! -e "$tmp/no.lode" ] && [ ! -e "$tmp/no.lode.wip" ]
ok $? "nothing is written"

# Its index, without weights.
lode=$tmp/k3.lode
run 0 "$LODE" convert -q --index-only "$k3" "$lode"
rm -rf "$k3"
run 0 "$LODE" info "$lode" --json
like "$out" '"family": "kimi_k3"' "the index knows the family"
run 0 "$LODE" plan "$lode" --memory 8G --context 4096 --json
[ "$(number experts "$out")" = 82432 ]
ok $? "all 82,432 experts"
[ "$(number expert_bytes "$out")" = $expert_bytes ]
ok $? "of $expert_bytes bytes"
floor=$(number floor_bytes "$out")
[ "${floor:-0}" -gt 100000000 ] && [ "$floor" -lt 1000000000 ]
ok $? "the floor at a context of 4,096 is under 1 GB: $floor"
run 1 "$LODE" plan "$lode" --memory $((floor / 2)) --context 4096
run 1 "$LODE" run "$lode" --ids 1,2,3 -n 1 --memory 8G
like "$err" "not in this file" "an index alone cannot run, and says so"

# Opening is two reads, superblocks and index; files are one each.
reads() { # NAME LIMIT COMMAND...
    name=$1
    limit=$2
    shift 2
    strace -f -qq -o "$tmp/trace" -P "$lode" \
        -e trace=read,pread64,readv,preadv,preadv2,mmap "$@" >"$out" 2>"$err"
    ok $? "$name under strace"
    n=$(awk 'END { print NR }' "$tmp/trace")
    [ "$n" -ge 2 ] && [ "$n" -le "$limit" ]
    ok $? "$name reads the container $n times"
}
if command -v strace >/dev/null 2>&1 && strace true 2>/dev/null; then
    reads "lode info" 3 "$LODE" info "$lode" # and config.json
    # and config.json, tiktoken.model, tokenizer_config.json
    reads "lode-run plan" 5 "$LODE_RUN" plan "$lode" --memory 8G
else
    skip "reads when opening" "strace is missing or not allowed"
fi
done_testing
