#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unusual and faulty models, as users met them: experts, config, vocabulary.

. "${srcdir:-.}/tests/cli/lib.sh"
. "$srcdir/tests/cli/checkpoint.sh"

s=model-00002-of-000005.safetensors
body=language_model.model.layers.1.block_sparse_moe

# C25: as many experts as Kimi K3 has, and names that are nearly theirs.
"$MKCKPT" --out "$tmp/wide" --preset tiny --layers 1 --first-dense 0 \
    --experts 896 --latent 32 --moe-inter 32 --vocab 512 >/dev/null || exit 99
fresh wide
round_trip "C25 896 experts"
run 0 "$LODE" info --json "$lode"
like "$out" '"experts": 896' "C25: all are found"
like "$out" '"objects": 896' "C25: and shared_experts is none of them"
fresh k3
no_index
change add $s $body.experts.0.w1.bias BF16 16 '[96]'
refused 4 "C25 near miss w1.bias" "1 tensors that no rule of kimi_k3 claims"
like "$err" "experts.0.w1.bias" "C25: names it"
round_trip "C25 carried" --keep-unknown
like "$tmp/plan" "carried although unknown: 1 tensors" "C25: says so"
run 0 "$LODE" info --json "$lode"
like "$out" '"experts": 6' "C25: not counted as an expert"

# C26: an MoE config, and experts of unknown names.
fresh linear
no_index
for f in "$c"/*.safetensors; do
    "$MUTATE" rename "$f" block_sparse_moe.experts. moe.part. || exit 99
done
refused 3 "C26 no expert recognised" "config.json says MoE (6 experts), but 0 expert tensors matched"
like "$err" "model.layers.1.moe.part.0.w1.weight" "C26: shows sample names"

# C28: one part of one expert is missing.
fresh k3
no_index
change drop $s $body.experts.5.w2.weight_packed
refused 3 "C28 no down weight" "layer 1, expert 5: the down"
fresh k3
no_index
change drop $s $body.experts.5.w2.weight_scale
refused 3 "C28 no down scale" "layer 1, expert 5: the down scale"

# C39: nested config, other prefix, no vision tensors, explicit head widths.
fresh k3
no_index
for f in "$c"/*.safetensors; do
    "$MUTATE" rename "$f" language_model.model. model.language_model. &&
        "$MUTATE" rename "$f" language_model.lm_head. lm_head. || exit 99
done
change json config.json vision_config '{"hidden_size": 32, "depth": 2}'
refute "C39: num_experts is nested only" grep -q '^ "num_experts"' "$c/config.json"
round_trip "C39 nested config, other prefix"
run 0 "$LODE" info --json "$lode"
like "$out" '"family": "kimi_k3"' "C39: right family"
like "$out" '"moe_layers": 3' "C39: detected as MoE"
fresh k3
change json config.json text_config/qk_nope_head_dim 20
refused 3 "C39 head width that is not the tensors'" "by config.json it should be"

# C43: gaps in the vocabulary are fine, an id without a row is not.
fresh k3
change json tokenizer_config.json added_tokens_decoder/257 -
change json tokenizer_config.json added_tokens_decoder/500 '{"content": "<x>"}'
round_trip "C43 gaps"
change json tokenizer_config.json added_tokens_decoder/512 '{"content": "<over>"}'
refused 3 "C43 id out of range" "token 512 (<over>) has no row in the embedding, which has 512"
fresh k3
echo "QUJDREVGRw== 512" >>"$c/tiktoken.model"
refused 3 "C43 rank out of range" "token 512 (QUJDREVGRw==) has no row"

# C44: tied and missing heads.
fresh linear
no_index
for f in "$c"/*.safetensors; do
    "$MUTATE" drop "$f" lm_head.weight 2>/dev/null
done
refused 3 "C44 no head" "the head is missing"
like "$err" '"tie_word_embeddings": true' "C44: hints at the switch"
change json config.json tie_word_embeddings true
round_trip "C44 tied head"
like "$tmp/plan" "the head is tied: the embedding serves as head" "C44: says so"
fresh linear
change json config.json tie_word_embeddings true
round_trip "C44 tied, yet stored"
like "$tmp/plan" "warning: config.json ties the head to the embedding, yet lm_head.weight is stored" \
    "C44: warns"

# Config and tensors tell two stories.
fresh linear
change json config.json model_type '"unheard_of"'
refused 4 "unknown family" 'model_type "unheard_of" is not known; this build knows kimi_k3, kimi_linear'
fresh linear
change json config.json hidden_size 71
refused 3 "other width" "by config.json it should be [512, 71]"
fresh linear
change json config.json num_experts 7
refused 3 "an expert more" "by config.json it should be [7]"
fresh linear
change json config.json num_experts 5
refused 3 "an expert fewer" "is of expert 5, config.json has 5 experts"
fresh linear
change json config.json num_hidden_layers 1000
refused 3 "layers that are not there" "config.json"

done_testing
