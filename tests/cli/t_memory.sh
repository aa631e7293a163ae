#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Peak memory stays within the budget: on a model whose experts are at least
# ten times as large, and on one whose layers are each larger than it.
. "${srcdir:-.}/tests/cli/lib.sh"

within() { # NAME: the JSON in $out keeps its budget
    peak=$(number peak_rss_bytes "$out")
    budget=$(number budget_bytes "$out")
    [ "${peak:-0}" -gt 0 ] && [ "$peak" -le "${budget:-0}" ]
    ok $? "$1: peak ${peak:-?} of ${budget:-?}"
}

if [ -n "${LODE_SANITIZED:-}" ]; then
    skip "memory budgets" "a sanitizer's own memory has no budget"
    done_testing
fi

ids=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20
run 0 "$MKCKPT" -o "$tmp/wide" --preset tiny --hidden 256 --experts 128 \
    --topk 8 --latent 256 --moe-inter 512
run 0 "$LODE" convert -q --codec none "$tmp/wide" "$tmp/wide.lode"
rm -rf "$tmp/wide"
run 0 "$LODE" plan "$tmp/wide.lode" --memory 1G --context 64 --threads 2 --json
floor=$(number floor_bytes "$out")
experts=$(($(number expert_bytes "$out") * $(number experts "$out")))
for budget in $((floor + 500000)) $((floor + 2000000)) $((floor * 3 / 2)) \
    $((floor * 2)); do
    [ "$experts" -ge $((10 * budget)) ]
    ok $? "experts of $experts bytes are ten times the budget of $budget"
    run 0 "$LODE" eval "$tmp/wide.lode" --ids $ids --threads 2 --context 64 \
        --memory "$budget" --logits "$tmp/$budget.f32" --json
    within "eval"
    if [ -f "$tmp/first.f32" ]; then
        check "the same logits" cmp "$tmp/first.f32" "$tmp/$budget.f32"
        rm -f "$tmp/$budget.f32"
    else
        mv "$tmp/$budget.f32" "$tmp/first.f32"
    fi
    run 0 "$LODE" run "$tmp/wide.lode" --ids $ids -n 20 --threads 2 \
        --ignore-stop --memory "$budget" --json
    within "run"
done
run 1 "$LODE" run "$tmp/wide.lode" --ids $ids -n 20 --memory $((floor / 2))
like "$err" "is below what this model needs at a context of 40 tokens" \
    "below the floor: refused"
like "$err" "($((floor / 2)) bytes)" "the budget is named"
rm -f "$tmp/wide.lode"

# Layers of more than 200 MB of trunk each, in less than one.
run 0 "$MKCKPT" -o "$tmp/deep" --preset tiny --layers 3 --hidden 4096 \
    --kda-heads 48 --kda-dim 128 --heads 32 --inter 4096 --experts 4 \
    --topk 2 --vocab 512
run 0 "$LODE" convert -q --codec none "$tmp/deep" "$tmp/deep.lode"
rm -rf "$tmp/deep"
run 0 "$LODE" info "$tmp/deep.lode" --blocks
for layer in 0 1; do
    bytes=$(awk -v what="trunk of layer $layer," 'index($0, what) { n += $3 }
        END { print n + 0 }' "$out")
    [ "$bytes" -ge 200000000 ]
    ok $? "layer $layer has a trunk of $bytes bytes"
done
for memory in 64M 128M 1G; do
    run 0 "$LODE" eval "$tmp/deep.lode" --ids 1,2,3,4 --context 4 \
        --memory $memory --logits "$tmp/$memory.f32" --json
    within "$memory"
done
check "the same logits streamed and pinned" cmp "$tmp/64M.f32" "$tmp/1G.f32"
check "and with some pinned" cmp "$tmp/64M.f32" "$tmp/128M.f32"

# The same, packed: what decoding takes is within the budget.
run 0 "$LODE" repack -q --codec zstd "$tmp/deep.lode" "$tmp/packed.lode"
rm -f "$tmp/deep.lode"
run 0 "$LODE" plan "$tmp/packed.lode" --memory 4G --context 4 --json
floor=$(number floor_bytes "$out")
for memory in $((floor + 500000)) $((floor + 50000000)) 1073741824; do
    run 0 "$LODE" eval "$tmp/packed.lode" --ids 1,2,3,4 --context 4 \
        --memory $memory --logits "$tmp/p.f32" --json
    within "packed, $memory"
    check "the same logits packed" cmp "$tmp/64M.f32" "$tmp/p.f32"
done
done_testing
