#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The logits of 47 tokens are the same bytes however they are computed, and the
# memory stays within the budget.
. "${srcdir:-.}/tests/cli/lib.sh"

same() { # NAME OPTION...
    name=$1
    shift
    "$LODE" eval "$file" --ids "$ids" --logits "$tmp/x.f32" --json "$@" \
        >"$out" 2>"$err" </dev/null
    got=$?
    if [ $got -eq 4 ] && grep -q 'not on this processor' "$err"; then
        skip "$m: $name" "$(cat "$err")"
        return
    fi
    [ $got -eq 0 ] && cmp "$tmp/ref.f32" "$tmp/x.f32" >>"$err" 2>&1
    ok $? "$m: same logits with $name"
    peak=$(number peak_rss_bytes "$out")
    budget=$(number budget_bytes "$out")
    if [ -z "${LODE_SANITIZED:-}" ]; then
        [ "${peak:-0}" -gt 0 ] && [ "$peak" -le "${budget:-0}" ]
        ok $? "$m: peak memory ${peak:-?} of ${budget:-?} with $name"
    fi
    rm -f "$tmp/x.f32"
}

for m in kimi-k3-tiny-a kimi-linear-tiny-a; do
    file=$tmp/$m.lode
    run 0 "$LODE" convert -q --codec none "$fixtures/$m" "$file"
    ids=$(tr -d ' \n' <"$fixtures/$m/expected.json" |
        sed 's/.*"prompt_ids":\[\([0-9,]*\)\].*"greedy_ids":\[\([0-9,]*\)\].*/\1,\2/;
             s/,[0-9]*$//')
    # The file may name them in the other order.
    run 0 "$LODE" eval "$file" --ids "$ids" --logits "$tmp/ref.f32" --json
    like "$out" '"tokens": 47' "$m: 47 tokens"
    check "$m: the file of logits has every position" test \
        "$(wc -c <"$tmp/ref.f32")" -ge $((47 * 100 * 4))
    for isa in scalar avx2 avx512 neon; do
        same "--isa $isa" --isa $isa
    done
    for n in 1 2 3; do same "$n threads" --threads $n; done
    for io in direct buffered; do same "$io reads" --io $io; done
    for n in 1 7 47; do same "chunks of $n" --prefill-chunk $n; done
    run 0 "$LODE" plan "$file" --memory 1G --context 47 --threads 2 --json
    floor=$(number floor_bytes "$out")
    # A little above the floor that was measured: the program's own memory
    # differs by some pages from run to run.
    for more in 400000 1200000 2500000 5000000 60000000; do
        same "budget of the floor and $more" --threads 2 \
            --memory $((floor + more))
        same "budget of the floor and $more, token by token" --threads 2 \
            --memory $((floor + more)) --prefill-chunk 1
    done
    run 1 "$LODE" eval "$file" --ids "$ids" --memory 2M
    like "$err" "a memory budget of 2.10 MB (2097152 bytes) is below" \
        "$m: below the floor the budget is named"
    like "$err" "what this model needs at a context of 47 tokens: " \
        "$m: and the floor"
done
done_testing
