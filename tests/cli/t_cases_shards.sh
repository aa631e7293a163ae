#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unusual and faulty folders, as users met them: indexes and sets of shards.

. "${srcdir:-.}/tests/cli/lib.sh"
. "$srcdir/tests/cli/checkpoint.sh"

index=model.safetensors.index.json

# C15: a shard is not there.
fresh linear
rm "$c/model-00002-of-00003.safetensors"
refused 3 "C15 missing shard" "model-00002-of-00003.safetensors"

# C17: tensors that the index does not know.
fresh linear
change new model-mtp-of-00003.safetensors
for i in 1 2 3 4 5; do
    change add model-mtp-of-00003.safetensors model.layers.4.mtp.$i BF16 16 '[8]'
done
refused 3 "C17 unindexed tensors" "5 tensors are not indexed"
like "$err" "model-mtp-of-00003.safetensors" "C17: names the file"
like "$err" "--include-unindexed or --skip-unindexed" "C17: names the choice"
round_trip "C17 included" --include-unindexed
like "$tmp/plan" "included although not indexed: 5 tensors" "C17: says so"
run 0 "$LODE" convert -f --skip-unindexed "$c" "$lode"
like "$out" "left out, not indexed: model-mtp-of-00003.safetensors" \
    "C17: says what is left out"
run 2 "$LODE" convert -f --skip-unindexed --include-unindexed "$c" "$lode"
like "$err" "exclude each other" "C17: not both"

# C19: the index of another set.
fresh linear
sed -i 's/-of-00003/-of-00006/' "$c/$index"
refused 3 "C19 other shard count" "shards of a set of 6, the folder holds a set of 3"
like "$err" "--rebuild-index" "C19: names the way out"
round_trip "C19 rebuilt" --rebuild-index
cp "$lode" "$tmp/rebuilt.lode"

# C21: names that lead elsewhere.
for bad in '../x.safetensors' '/etc/hostname' 'sub/../a.safetensors'; do
    fresh linear
    change json $index weight_map/model.norm.weight "\"$bad\""
    refused 3 "C21 $bad" "$bad"
done
fresh linear
mv "$c/model-00002-of-00003.safetensors" "$tmp/elsewhere.safetensors"
ln -s "$tmp/elsewhere.safetensors" "$c/model-00002-of-00003.safetensors"
refused 1 "C21 link out of the folder" "symbolic link that leaves the folder"
run 0 "$LODE" convert --follow-symlinks "$c" "$lode"
fresh linear
mv "$c/model-00002-of-00003.safetensors" "$c/real.bin"
ln -s real.bin "$c/model-00002-of-00003.safetensors"
run 0 "$LODE" convert "$c" "$lode"
fresh linear
change json $index weight_map '[]'
refused 3 "C21 weight_map is no object" "weight_map"
fresh linear
grep -v 'model-0000[23]-of-00003' "$tmp/linear/$index" |
    tr -d '\n' | sed 's/, *}/}/g' >"$c/$index"
refused 3 "C21 index of one shard" "are not indexed"

# C22: no index.
fresh linear
no_index
round_trip "C22 three shards without index"
fresh linear
no_index
rm "$c/model-00002-of-00003.safetensors"
refused 3 "C22 a gap in the numbers" "2 shards here, their names"
rm -rf "$tmp/one"
"$MKCKPT" --out "$tmp/one" --family kimi_linear --preset tiny --layers 2 \
    --experts 4 --vocab 512 --shards 1 >/dev/null || exit 99
fresh one
rm -f "$c/$index"
mv "$c"/*.safetensors "$c/model.safetensors"
round_trip "C22 one model.safetensors"

# Nothing to convert.
rm -rf "$c"
refused 1 "no such folder" "No such file or directory"
mkdir "$c"
refused 1 "an empty folder" "config.json"
cp "$tmp/linear/config.json" "$c"
refused 2 "no shard" "no *.safetensors file here"

done_testing
