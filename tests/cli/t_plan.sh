#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode plan: what a budget is spent on, also for a model of Kimi K3's real
# shape, of which only the headers are there.
. "${srcdir:-.}/tests/cli/lib.sh"

run 0 "$LODE" convert -q "$models/k3-demo" "$tmp/demo.lode"
memory=12M
[ -z "${LODE_SANITIZED:-}" ] || memory=600M # a sanitizer's own memory counts
run 0 "$LODE" plan "$tmp/demo.lode" --memory $memory --json
cp "$out" "$tmp/plan"
for key in budget_bytes floor_bytes pinned_bytes cache_bytes bytes_per_token; do
    check "key $key" test "$(number $key "$tmp/plan")" -ge 0
done
sum=0
for key in base_bytes state_bytes work_bytes fixed_bytes ring_bytes \
    pinned_bytes cache_bytes; do
    sum=$((sum + $(number $key "$tmp/plan")))
done
check "the parts make up the total" test "$sum" -eq \
    "$(number total_bytes "$tmp/plan")"
check "the total is within the budget" test "$sum" -le "$(number budget_bytes "$tmp/plan")"
run 0 "$LODE" plan "$tmp/demo.lode" --memory $memory
like "$out" "expert cache" "the text names the expert cache"
run 1 "$LODE" plan "$tmp/demo.lode" --memory 1M
like "$err" "1048576 bytes) is below what this model needs" "below the floor"
run 2 "$LODE" plan "$tmp/demo.lode" --memory 12Q
like "$err" "12Q" "a size that is none"

if [ -n "${LODE_SANITIZED:-}" ]; then
    skip "Kimi K3's real shape" "takes long under a sanitizer"
    done_testing
fi
run 0 "$MKCKPT" -o "$tmp/k3" --preset k3 --sparse
run 0 "$LODE" convert -q --index-only "$tmp/k3" "$tmp/k3.lode"
rm -rf "$tmp/k3"
run 0 "$LODE" info "$tmp/k3.lode" --json
like "$out" '"family": "kimi_k3"' "K3's shape: the family"
run 0 "$LODE" plan "$tmp/k3.lode" --memory 8G --context 4096 --json
floor=$(number floor_bytes "$out")
echo "# floor $floor bytes"
[ "${floor:-0}" -gt 100000000 ] && [ "$floor" -lt 1000000000 ]
ok $? "the floor at a context of 4,096 is under 1 GB: $floor"
run 1 "$LODE" plan "$tmp/k3.lode" --memory $((floor / 2)) --context 4096
run 1 "$LODE" run "$tmp/k3.lode" --ids 1,2,3 -n 1 --memory 8G
like "$err" "not in this file" "an index alone cannot run, and says so"
done_testing
