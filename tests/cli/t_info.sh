#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode info.

. "${srcdir:-.}/tests/cli/lib.sh"

lode=$tmp/k3.lode
run 0 "$LODE" convert -q "$fixtures/kimi-k3-tiny-a" "$lode"
run 0 "$LODE" info "$lode"
like "$out" "kimi_k3, 5.81 million parameters, 2.14 million active" "parameters"
like "$out" "13, 12 of them with 20 experts, 4 chosen per token" "layers"
like "$out" "mxfp4.e2m1.lo" "encodings"
like "$out" "all of them can be extracted bit for bit" "provenance"
like "$out" "to run" "what it needs"
root=$(sed -n 's/^  root *//p' "$out")
run 0 "$LODE" info --json "$lode"
for key in family root parameters file_bytes blocks active_parameters layers \
    moe_layers experts experts_per_token parts index_bytes lossless writer \
    provenance; do
    like "$out" "\"$key\":" "key $key"
done
like "$out" "\"root\": \"$root\"" "the same root"
like "$out" '"parameters": 5813744' "the count of parameters"
like "$out" "\"file_bytes\": $(wc -c <"$lode")" "the size"
blocks=$(sed -n 's/^  "blocks": \([0-9]*\),/\1/p' "$out")
run 0 "$LODE" info --blocks "$lode"
like "$out" "expert 19 of layer 12" "--blocks: names"
check "--blocks: a line each" \
    test "$(grep -c '  [0-9a-f]\{16\}  ' "$out")" -eq "$blocks"
run 0 "$LODE" info --blocks --json "$lode"
like "$out" '"block_list":' "--blocks --json"

# The root names the content: not the alignment, not the label.
run 0 "$LODE" convert -q --align 64K --label other "$fixtures/kimi-k3-tiny-a" \
    "$tmp/other.lode"
run 0 "$LODE" info --json "$tmp/other.lode"
like "$out" "\"root\": \"$root\"" "root is independent of the layout"

run 0 "$LODE" convert -q --text-only "$fixtures/kimi-k3-tiny-a" "$tmp/text.lode"
run 0 "$LODE" info "$tmp/text.lode"
like "$out" "some tensors were left out" "--text-only is told"
unlike "$out" "carried" "--text-only carries no vision tensors"

# What is no container.
run 3 "$LODE" info "$fixtures/kimi-k3-tiny-a/config.json"
like "$err" "config.json" "no container: named"
run 1 "$LODE" info "$tmp/absent.lode"
like "$err" "No such file" "absent"
run 1 "$LODE" info "$tmp"
like "$err" "$tmp" "a folder"
for cut in 0 4096 100000 200000; do
    head -c $cut "$lode" >"$tmp/cut.lode"
    run 3 "$LODE" info "$tmp/cut.lode"
    like "$err" "cut.lode" "cut at $cut: named"
done

done_testing
