#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unusual and faulty shards, as users met them: headers and data areas.

. "${srcdir:-.}/tests/cli/lib.sh"
. "$srcdir/tests/cli/checkpoint.sh"

s=model-00002-of-000005.safetensors
t=language_model.model.layers.1.self_attn.A_log

# C01: a data area at an odd place, so that no tensor is aligned.
fresh k3
change pad $s trail 2
round_trip "C01 unaligned data"
like "$tmp/plan" "tensors are not aligned in their shards" \
    "C01: says how many tensors were unaligned"

# C03: white space around the header; both accepted, as the library does.
fresh k3
change pad $s trail 4000
round_trip "C03 4,000 spaces behind the header"
fresh k3
change pad $s lead 1
round_trip "C03 a space before the header"

# C04: three odd bytes before floats.
fresh k3
no_index
change add-first $s vision_tower.c BF16 16 '[5]'
change add-first $s vision_tower.b F32 32 '[4]'
change add-first $s vision_tower.a U8 8 '[3]'
round_trip "C04 U8[3], F32[4], BF16[5]"
like "$tmp/plan" "tensors are not aligned" "C04: says so"
run 0 "$LODE" info --json --blocks "$lode"
odd=$(sed -n 's/.*"offset": \([0-9]*\).*/\1/p' "$out" |
    awk '$1 % 4096 != 0' | wc -l)
check "C04: every block on a page" test "$odd" -eq 0

# C05: tensors without elements.
fresh k3
no_index
change add-first $s vision_tower.start F8_E4M3 8 '[0]'
change add model-00003-of-000005.safetensors vision_tower.mid F8_E4M3 8 '[0,5]'
round_trip "C05 zero-size tensors"
change set $s vision_tower.start shape '[1]'
refused 3 "C05 shape [1] in no bytes" \
    'tensor "vision_tower.start": shape and dtype F8_E4M3 need 1 bytes, data_offsets [0, 0] hold 0'

# C06: scalars.
fresh k3
no_index
change add $s vision_tower.weight_global_scale F32 32 '[]'
change add $s vision_tower.b.weight_global_scale F32 32 '[1]'
change add $s vision_tower.steps I64 64 '[]'
round_trip "C06 rank-0 tensors"
like "$tmp/plan" "i64 8 B" "C06: the counter is carried and listed"

# C07: one name twice.
fresh k3
no_index
change header $s '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
refused 3 "C07 duplicate tensor name" 'duplicate key: tensor "a"'

# C08: the length in front, and what it leads to.
fresh k3
change prefix $s 0
refused 3 "C08 length 0" "header of 0 bytes"
change prefix $s 8000000000000000
refused 1 "C08 length 2^63" "header of 9223372036854775808 bytes, the limit is 100000000"
change prefix $s ffffffffffffffff
refused 1 "C08 length 2^64-1" "header of 18446744073709551615 bytes, the limit is 100000000"
size=$(wc -c <"$c/$s")
change prefix $s "$(printf %x $((size + 1)))"
refused 3 "C08 length past the end" "cut short: header of $((size + 1)) bytes, the file has $size"
change prefix $s 5f5e101
refused 1 "C08 length over 100 MB" "header of 100000001 bytes, the limit is 100000000"

# C09: data_offsets that lie; t_safetensors has the whole table.
fresh k3
change set $s $t data_offsets '[1099511627776,1099511627792]'
refused 3 "C09 offsets past the end" "pass the end of the file"
fresh k3
change set $s $t shape '[8589934592,8589934592]'
refused 3 "C09 shape of 2^66 elements" "overflows 64 bits"

# C11: what a tied head leaves behind.
fresh k3
no_index
change header model-00005-of-000005.safetensors '{"lm_head.weight":{"dtype":"","shape":[],"data_offsets":[0,0]}}'
refused 3 "C11 empty dtype" "is lm_head tied to the embedding?"
like "$err" "model-00005-of-000005.safetensors" "C11: names the shard"

# C14: cut at every kind of place.
for cut in 0 7 8 2000 20000 $((size - 1)); do
    fresh k3
    head -c "$cut" "$tmp/k3/$s" >"$c/$s"
    run 3 "$LODE" convert "$c" "$lode"
    like "$err" "$s" "C14 cut at $cut: names the file"
    case $cut in
    20000 | $((size - 1))) why="pass the end of the file, whose data has" ;;
    *) why="cut short" ;;
    esac
    like "$err" "$why" "C14 cut at $cut: says why"
    nothing
    ok $? "C14 cut at $cut: leaves nothing"
done
fresh k3
change grow $s 1
refused 3 "C14 a byte too many" "has bytes that no tensor owns"

done_testing
