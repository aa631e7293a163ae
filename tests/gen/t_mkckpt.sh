#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mkckpt: the same options give the same bytes, the index says what the headers
# say, the cut into shards changes no tensor, and wrong sizes are refused.
. "$srcdir/tests/cli/lib.sh"

same_tree() { # DIR DIR
    diff -r "$1" "$2" >"$out" 2>"$err"
}

for family in kimi_k3 kimi_linear; do
    run 0 "$MKCKPT" --out "$tmp/$family" --family $family --seed 7
    run 0 "$MKCKPT" --out "$tmp/again" --family $family --seed 7
    same_tree "$tmp/$family" "$tmp/again"
    ok $? "$family: same options, same bytes"
    rm -r "$tmp/again"
    run 0 "$MKCKPT" --out "$tmp/again" --family $family --seed 8
    first=$(cd "$tmp/again" && ls ./*.safetensors | head -n 1)
    cmp -s "$tmp/$family/$first" "$tmp/again/$first"
    [ $? -eq 1 ]
    ok $? "$family: another seed, other bytes"
    cmp -s "$tmp/$family/config.json" "$tmp/again/config.json"
    ok $? "$family: but the same config.json"
    rm -r "$tmp/again"
    run 0 "$MKCKPT" --out "$tmp/$family-3" --family $family --seed 7 --shards 3
    run 0 "$MKCKPT" --out "$tmp/$family-holes" --family $family --sparse
    run 0 "$MKCKPT" --out "$tmp/all" --family $family --seed 7 --sparse \
        --fill '*'
    same_tree "$tmp/$family" "$tmp/all"
    ok $? "$family: holes that are all filled are no holes"
    rm -r "$tmp/all"
done

# Holes but for an embedding and one norm.
embed=model.embed_tokens.weight
run 0 "$MKCKPT" --out "$tmp/some" --family kimi_linear --seed 7 --sparse \
    --shards 3 --fill "$embed,*.layers.1.input_layernorm.weight"
like "$out" " $((768 * 72 * 2 + 72 * 2)) of them not holes" \
    "says what is filled"

if command -v python3 >/dev/null 2>&1; then
    for dir in kimi_k3 kimi_linear kimi_k3-holes kimi_linear-holes; do
        check "$dir: index and headers agree" python3 \
            "$srcdir/tests/gen/check_ckpt.py" "$tmp/$dir"
    done
    for family in kimi_k3 kimi_linear; do
        check "$family: shards change no tensor" python3 \
            "$srcdir/tests/gen/check_ckpt.py" "$tmp/$family" "$tmp/$family-3"
        refute "$family: a changed byte would be seen" python3 \
            "$srcdir/tests/gen/check_ckpt.py" "$tmp/$family" \
            "$tmp/$family-holes"
    done
    check "a filled tensor has the values it has without holes" python3 \
        "$srcdir/tests/gen/check_ckpt.py" "$tmp/kimi_linear" "$tmp/some" \
        "$embed" model.layers.1.input_layernorm.weight
    check "the others are holes" python3 \
        "$srcdir/tests/gen/check_ckpt.py" "$tmp/kimi_linear-holes" \
        "$tmp/some" model.norm.weight model.layers.0.input_layernorm.weight \
        model.layers.1.post_attention_layernorm.weight
    refute "and no values" python3 \
        "$srcdir/tests/gen/check_ckpt.py" "$tmp/kimi_linear" "$tmp/some" \
        model.norm.weight
else
    skip "index and headers agree" "no python3"
fi

refuse() { # TEXT OPTION...
    text=$1
    shift
    run 2 "$MKCKPT" "$@"
    like "$err" "$text" "says \"$text\""
}
refuse "--out DIR is needed" --preset tiny
refuse "--family foo: kimi_k3 or kimi_linear" --out "$tmp/no" --family foo
refuse "--preset huge: tiny, medium" --out "$tmp/no" --preset huge
refuse "--preset k3: tiny, medium" --out "$tmp/no" --family kimi_linear \
    --preset k3
refuse "--topk 4 of 3 experts" --out "$tmp/no" --experts 3 --topk 4
refuse "both must be multiples of 32" --out "$tmp/no" --latent 33
refuse "--hidden 99999999999 is out of range (1 to 16777216)" --out "$tmp/no" \
    --hidden 99999999999
refuse "--latent 99999999999 is out of range (0 to 16777216)" --out "$tmp/no" \
    --latent 99999999999
for option in hidden layers vocab inter experts topk moe-inter shared heads \
    nope rope vdim kv-lora kda-heads kda-dim; do
    refuse "--$option 0 is out of range" --out "$tmp/no" --$option 0
done
refuse "are for kimi_k3" --out "$tmp/no" --family kimi_linear --vision
refuse "--fill is for --sparse" --out "$tmp/no" --fill '*'
[ ! -e "$tmp/no" ]
ok $? "nothing is written for wrong options"
refuse "--fill *.layers.99.*: no such tensor" --out "$tmp/none" --sparse \
    --fill '*.layers.1.*,*.layers.99.*'
done_testing
