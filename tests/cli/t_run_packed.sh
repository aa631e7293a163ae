#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packed containers give the bits that raw ones give, within the budget, and
# damage in a packed block ends a run with its name.
. "${srcdir:-.}/tests/cli/lib.sh"

same() { # NAME OPTION...: the logits of $file are those of the raw container
    name=$1
    shift
    "$LODE" eval "$file" --ids "$ids" --logits "$tmp/x.f32" --json "$@" \
        >"$out" 2>"$err" </dev/null
    got=$?
    [ $got -eq 0 ] && cmp "$tmp/ref.f32" "$tmp/x.f32" >>"$err" 2>&1
    ok $? "$name"
    peak=$(number peak_rss_bytes "$out")
    budget=$(number budget_bytes "$out")
    if [ -z "${LODE_SANITIZED:-}" ]; then
        [ "${peak:-0}" -gt 0 ] && [ "$peak" -le "${budget:-0}" ]
        ok $? "peak memory ${peak:-?} of ${budget:-?}: $name"
    fi
    rm -f "$tmp/x.f32"
}

ids=5,9,200,31,7,7,120,2,44,3,90,1,17,33,250,6,8,61,100,99
for m in kimi-k3-tiny-a kimi-linear-tiny-a; do
    rm -f "$tmp/raw.lode" "$tmp/zstd.lode" "$tmp/archive.lode"
    run 0 "$LODE" convert -q --codec none "$fixtures/$m" "$tmp/raw.lode"
    run 0 "$LODE" eval "$tmp/raw.lode" --ids $ids --logits "$tmp/ref.f32" \
        --json
    run 0 "$LODE" plan "$tmp/raw.lode" --memory 1G --json
    raw_experts=$(number expert_bytes_per_token "$out")
    raw_trunk=$(number trunk_stored_bytes "$out")
    for codec in zstd archive; do
        file=$tmp/$codec.lode
        run 0 "$LODE" repack -q --codec $codec "$tmp/raw.lode" "$file"
        for n in 1 2 3; do same "$m, $codec: $n threads" --threads $n; done
        for io in direct buffered; do
            same "$m, $codec: $io reads" --io $io
        done
        for n in 1 7; do same "$m, $codec: chunks of $n" --prefill-chunk $n; done
        run 0 "$LODE" plan "$file" --memory 1G --context 20 --threads 2 --json
        floor=$(number floor_bytes "$out")
        decode=$(number decode_bytes "$out")
        trunk=$(number trunk_stored_bytes "$out")
        experts=$(number expert_bytes_per_token "$out")
        check "decoding is planned: $decode" test "$decode" -gt 1000000
        check "less of the trunk is read" test "$trunk" -lt "$raw_trunk"
        check "no more of the experts" test "$experts" -le "$raw_experts"
        for more in 400000 1200000 5000000; do
            same "$m, $codec: budget of the floor and $more" --threads 2 \
                --memory $((floor + more)) --prefill-chunk 1
        done
        run 1 "$LODE" eval "$file" --ids $ids --threads 2 \
            --memory $((floor - 2000000))
        like "$err" "is below what this model needs" "$codec: below the floor"
    done
    [ $m != kimi-k3-tiny-a ] || cp "$tmp/archive.lode" "$tmp/good.lode"
done

# Damage.
good=$tmp/good.lode
bad=$tmp/bad.lode
run 0 "$LODE" info "$good" --blocks
cp "$out" "$tmp/blocks"
run 0 "$LODE" eval "$good" --ids 1,2,3,4,5 --routes --json
expert=$(sed -n 's/.*"layer": 1, "ids": \[\[\([0-9]*\),.*/\1/p' "$out")
for block in "expert $expert of layer 1" "trunk of layer 3" "trunk output"; do
    at=$(awk -v name="$block" '{ line = $0; sub(/^.*[0-9a-f]  /, "", line) }
        line == name { print $2; exit }' "$tmp/blocks")
    check "\"$block\" lies somewhere" test "${at:-0}" -gt 0
    cp "$good" "$bad"
    byte=$(od -An -tu1 -j $((at + 100)) -N 1 "$good" | tr -d ' ')
    printf "\\$(printf %03o $((byte ^ 16)))" |
        dd of="$bad" bs=1 seek=$((at + 100)) conv=notrunc 2>/dev/null
    run 3 "$LODE" run "$bad" --ids 1,2,3,4,5 -n 4
    like "$err" "bad.lode: $block: " "$block is named"
done
done_testing
