#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode plan: what a budget is spent on.  t_scale.sh does it at the size of Kimi
# K3.
. "${srcdir:-.}/tests/cli/lib.sh"

run 0 "$LODE" convert -q --codec none "$models/k3-demo" "$tmp/demo.lode"
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
done_testing
