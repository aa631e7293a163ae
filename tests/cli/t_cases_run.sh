#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unusual models at run time: names and widths, vocabularies with gaps, tied
# heads, numbers beyond 64 bits.

. "${srcdir:-.}/tests/cli/lib.sh"
. "$srcdir/tests/cli/checkpoint.sh"

# The logits of $c's container in $tmp/NAME.f32.
logits() { # NAME [OPTION...]
    name=$1
    shift
    run 0 "$LODE" convert -q --force "$c" "$lode"
    run 0 "$LODE" eval "$lode" --ids 1,2,3,4,5,6,7,8,9 \
        --logits "$tmp/$name.f32" -q "$@"
}

# A fixture's checkpoint in $c, writable.
fixture() { # NAME
    rm -rf "$c"
    cp -r "$fixtures/$1" "$c" && chmod -R u+w "$c" || exit 99
}

# C39: other prefixes say the same.
fixture kimi-k3-tiny-a
logits k3
no_index
for f in "$c"/*.safetensors; do
    "$MUTATE" rename "$f" language_model.model. model.language_model. &&
        "$MUTATE" rename "$f" language_model.lm_head. lm_head. || exit 99
done
change json config.json vision_config '{"hidden_size": 32, "depth": 2}'
logits other
check "C39 nested config, other prefix: the same logits" \
    cmp "$tmp/k3.f32" "$tmp/other.f32"

# C39: head widths are those that are written down, not hidden / heads.
# head_dim is there in published files of kimi_linear, and means nothing.
fixture kimi-linear-tiny-a
logits linear
change json config.json head_dim 5
logits head_dim
check "C39 head_dim: the same logits" cmp "$tmp/linear.f32" "$tmp/head_dim.f32"
for family in kimi_k3 kimi_linear; do
    rm -rf "$c"
    "$MKCKPT" --out "$c" --family $family --preset tiny --layers 4 \
        --experts 4 --topk 2 --vocab 512 --hidden 96 --heads 5 --nope 20 \
        --rope 6 --vdim 28 --kda-heads 3 --kda-dim 24 >/dev/null || exit 99
    logits wide
    check "C39 $family: 5 heads of 20 + 6 and 28, 3 of 24, on a width of 96" \
        test "$(wc -c <"$tmp/wide.f32")" -eq $((9 * 512 * 4))
    run 0 "$LODE" run "$lode" --ids 1,2,3 -n 4 -q
    change json config.json \
        "$([ $family = kimi_linear ] || echo text_config/)v_head_dim" 20
    run 3 "$LODE" convert -q "$c" "$lode" --force
    like "$err" "by config.json it should be" "C39 $family: other widths are refused"
done

# C43: ids from 512 on are rows of the embedding, and no tokens; so are those
# from 256 on, whose slots are reserved for special tokens.
rm -rf "$c"
"$MKCKPT" --out "$c" --family kimi_linear --preset tiny --layers 2 \
    --experts 4 --topk 2 --vocab 4096 --shards 1 >/dev/null || exit 99
head -n 256 "$c/tiktoken.model" >"$tmp/model" && mv "$tmp/model" "$c/tiktoken.model"
change json tokenizer_config.json added_tokens_decoder \
    '{"500": {"content": "<a>"}, "3000": {"content": "<b>"}}'
change json config.json eos_token_id 500 # a stop counts also without a name
rm -f "$lode"
run 0 "$LODE" convert -q "$c" "$lode"
tokens() { # FILE: the generated ids of a report, one a line
    tr -d '\n ' <"$1" | sed 's/.*"ids":\[\([^]]*\)\].*/\1,/' | tr ',' '\n'
}
for options in "--temperature 5 --seed 1" "--temperature 1 --seed 2" \
    "--temperature 0" "--temperature 5 --top-k 100"; do
    # shellcheck disable=SC2086 # several words
    run 0 "$LODE" run "$lode" --raw "ab" -n 60 --ignore-stop --json -q $options
    cp "$out" "$tmp/report"
    check "C43 $options: 60 tokens" test "$(tokens "$tmp/report" | wc -l)" -eq 60
    check "C43 $options: none that stands for nothing" \
        test "$(tokens "$tmp/report" | awk '$1 >= 512 && $1 != 3000' | wc -l)" -eq 0
done
run 0 "$LODE" run "$lode" --ids 1,700,4095 -n 3 --json -q
run 2 "$LODE" run "$lode" --ids 1,4096 -n 3 -q
like "$err" "token id 4096: the vocabulary has 4096" "C43: an id beyond the rows"
run 0 "$LODE" eval "$lode" --ids 1,700,4095,2 --top 4 --json -q
"$top/tests/gen/rewrite" "$lode" tokenizer_config.json '"3000"' '"4096"' || exit 99
run 3 "$LODE" run "$lode" --raw "ab" -n 1 -q
like "$err" 'added token "<b>": id 4096 is not below the 4096 embedding rows' \
    "C43: at run time a tokenizer that is too large is refused"
change json tokenizer_config.json added_tokens_decoder/4096 '{"content": "<over>"}'
run 3 "$LODE" convert -q "$c" "$lode" --force
like "$err" "token 4096 (<over>) has no row" "C43: a tokenizer that is too large"

# C44: with a tied head the embedding's rows are the head's, also when blocks
# of it must stream: 20000 rows of 512 values are 20 MB, two blocks.
rm -rf "$c"
"$MKCKPT" --out "$c" --family kimi_linear --preset tiny --layers 2 \
    --experts 4 --topk 2 --hidden 512 --vocab 20000 --shards 1 >/dev/null || exit 99
no_index
f=$(basename "$c"/*.safetensors)
change drop "$f" lm_head.weight
change json config.json tie_word_embeddings false
run 3 "$LODE" convert -q "$c" "$lode" --force
like "$err" "the head is missing" "C44 no head: refused"
change json config.json tie_word_embeddings true
logits tied
run 0 "$LODE" run "$lode" --ids 5,6,7 -n 12 --json -q
cp "$out" "$tmp/tied.json"
if [ -n "${LODE_SANITIZED:-}" ]; then
    skip "C44 tied head, streaming" "budgets do not count a sanitizer's memory"
else
    run 1 "$LODE" plan "$lode" --memory 1M --context 64
    floor=$(sed -n 's/.*: [^(]* (\([0-9]*\) bytes)$/\1/p' "$err")
    run 0 "$LODE" run "$lode" --ids 5,6,7 -n 12 --json -q --context 64 \
        --memory $((floor + (1 << 20)))
    cp "$out" "$tmp/streamed.json"
    check "C44 tied head, streaming: the same tokens" \
        test "$(tokens "$tmp/streamed.json")" = "$(tokens "$tmp/tied.json")"
    check "C44 tied head: it streamed" \
        test "$(number bytes_read "$tmp/streamed.json")" -gt $((12 * 20000 * 512 * 2))
fi
"$top/tests/gen/rewrite" "$lode" config.json \
    '"tie_word_embeddings": true' '"tie_word_embeddings": null' || exit 99
run 3 "$LODE" run "$lode" --ids 5,6,7 -n 1 -q
like "$err" 'no output head, and "tie_word_embeddings" is not true' \
    "C44: at run time no head is refused"
change json config.json tie_word_embeddings false
change copy "$f" model.embed_tokens.weight lm_head.weight
logits copied
check "C44 tied head: the logits of a head of the same bytes" \
    cmp "$tmp/tied.f32" "$tmp/copied.f32"
change zero "$f" lm_head.weight
change json config.json tie_word_embeddings true
logits stored
refute "C44 tied, yet stored: the stored head counts" \
    cmp -s "$tmp/tied.f32" "$tmp/stored.f32"

# The same in a nested configuration, which may say it outside.
fresh k3
no_index
for f in "$c"/*.safetensors; do
    "$MUTATE" drop "$f" language_model.lm_head.weight 2>/dev/null
done
change json config.json text_config/tie_word_embeddings -
change json config.json tie_word_embeddings true
logits k3_tied
change json config.json tie_word_embeddings false
for f in "$c"/*.safetensors; do
    "$MUTATE" copy "$f" language_model.model.embed_tokens.weight \
        language_model.lm_head.weight 2>/dev/null
done
logits k3_copied
check "C44 kimi_k3, tied outside: the logits of a head of the same bytes" \
    cmp "$tmp/k3_tied.f32" "$tmp/k3_copied.f32"

# Integers beyond 64 bits stop nobody who does not ask for them.
fixture kimi-linear-tiny-a
far=1000000000000000019884624838656
check "the tokenizer's file has such a number" \
    grep -q "\"model_max_length\": $far" "$c/tokenizer_config.json"
change_text() { # SED-EXPRESSION
    sed "$1" "$c/config.json" >"$tmp/t" && mv "$tmp/t" "$c/config.json"
}
change_text 's/^{/{"nobody_reads_this": -'$far',/
s/"model_max_length": *[0-9]*/"model_max_length": '$far/
logits far
check "10^30 in members that set no width: the same logits" \
    cmp "$tmp/linear.f32" "$tmp/far.f32"
run 0 "$LODE" info --json "$lode"
run 0 "$LODE" run "$lode" --raw "ab" -n 3 -q
change_text 's/"vocab_size": *[0-9]*/"vocab_size": 99999999999999999999/'
run 3 "$LODE" convert -q "$c" "$lode" --force
like "$err" '"vocab_size": expected an integer, found a number beyond 64 bits' \
    "10^20 rows: says what is wrong"

done_testing
