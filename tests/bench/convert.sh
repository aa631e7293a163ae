#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/bench/convert.sh BUILD [ROUNDS [FOLDER]]: lode convert against cp of the
# same files to the same drive, on a generated checkpoint of more than 4 GB.
# Caches are dropped before each (needs root), the two are interleaved, medians
# and their ratio are printed, with the peak memory of lode convert.  convert
# syncs what it writes; cp does not, so it is also timed with a sync after it.
set -eu
build=$1
rounds=${2:-5}
dir=$(mktemp -d "${3:-.}/lode-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM

drop() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

now() { date +%s.%N; }

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

"$build/tests/gen/mkckpt" -o "$dir/model" --preset medium --layers 19
bytes=$(du -sb "$dir/model" | cut -f 1)
echo "checkpoint: $bytes bytes, $(find "$dir/model" -name '*.safetensors' | wc -l) shards"
peak=0
for round in $(seq "$rounds"); do
    drop
    a=$(now)
    cp -r "$dir/model" "$dir/copy"
    b=$(now)
    sync -f "$dir/copy"
    s=$(now)
    rm -rf "$dir/copy"
    drop
    c=$(now)
    "$build/lode" convert -q "$dir/model" "$dir/out.lode" &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        kib=$(awk '/VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
        [ "${kib:-0}" -gt "$peak" ] && peak=$kib
        sleep 0.05
    done
    wait $pid
    d=$(now)
    rm -f "$dir/out.lode"
    echo "$a $b" | awk '{ print $2 - $1 }' >>"$dir/cp"
    echo "$a $s" | awk '{ print $2 - $1 }' >>"$dir/durable"
    echo "$c $d" | awk '{ print $2 - $1 }' >>"$dir/convert"
    echo "round $round: cp $(tail -n 1 "$dir/cp") s ($(tail -n 1 "$dir/durable") s with sync), convert $(tail -n 1 "$dir/convert") s"
done
x=$(median "$dir/cp")
z=$(median "$dir/durable")
y=$(median "$dir/convert")
echo "$bytes $x $y $peak $z" | awk '{
    printf "medians: cp %.2f s (%.2f GB/s), convert %.2f s (%.2f GB/s), ratio %.2f\n",
        $2, $1 / $2 / 1e9, $3, $1 / $3 / 1e9, $3 / $2
    printf "against cp with sync, %.2f s: ratio %.2f\n", $5, $3 / $5
    printf "peak memory of convert: %.1f MB\n", $4 * 1024 / 1e6 }'
