#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Logits, choices of experts and text against the models' official code.
. "${srcdir:-.}/tests/cli/lib.sh"
golden=$top/tests/runtime/golden

for m in kimi-k3-tiny-a kimi-linear-tiny-a; do
    run 0 "$LODE" convert -q "$fixtures/$m" "$tmp/$m.lode"
    for what in "logits" "routes" "greedy"; do
        check "$m: $what as the official code has them" "$golden" $what \
            "$tmp/$m.lode" "$fixtures/$m/expected.json" 2e-3
        sed 's/^/# /' "$out"
    done
done

demo=$models/k3-demo
run 0 "$LODE" convert -q "$demo" "$tmp/demo.lode"
check "k3-demo: continuations, token for token" "$golden" continuations \
    "$tmp/demo.lode" "$demo/expected.json"
sed 's/^/# /' "$out"
check "k3-demo: facts" "$golden" facts "$tmp/demo.lode" "$demo/facts.tsv"
sed 's/^/# /' "$out"

run 0 "$LODE" eval "$tmp/demo.lode" --file "$demo/heldout.txt" --context 128 \
    --json
want=$(sed -n 's/.*"perplexity": *\([0-9.]*\).*/\1/p' "$demo/expected.json")
got=$(sed -n 's/.*"perplexity": *\([0-9.]*\).*/\1/p' "$out")
echo "# perplexity $got, expected $want"
like "$out" '"scored": 4423' "4,423 tokens are scored"
check "k3-demo: perplexity within 0.1 %" awk -v a="$got" -v b="$want" \
    'BEGIN { d = a / b - 1; exit !(a > 0 && b > 0 && d < 0.001 && d > -0.001) }'

run 0 "$LODE" run "$tmp/demo.lode" --raw "The capital of France is"
like "$out" " Paris." "the capital of France"
done_testing
