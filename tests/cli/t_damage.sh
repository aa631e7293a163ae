#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A damaged block met while running ends the run with its name and status 3.
. "${srcdir:-.}/tests/cli/lib.sh"

good=$tmp/good.lode
bad=$tmp/bad.lode
run 0 "$LODE" convert -q "$fixtures/kimi-k3-tiny-a" "$good"
run 0 "$LODE" info "$good" --blocks
cp "$out" "$tmp/blocks"
run 0 "$LODE" eval "$good" --ids 1,2,3,4,5 --routes --json
cp "$out" "$tmp/eval"

# The block's line in lode info: number, offset, bytes ...
offset_of() { # NAME
    awk -v name="$1" '{ line = $0; sub(/^.*[0-9a-f]  /, "", line) }
        line == name { print $2; exit }' "$tmp/blocks"
}

flip() { # OFFSET: one bit of one byte
    cp "$good" "$bad"
    byte=$(od -An -tu1 -j "$1" -N 1 "$good" | tr -d ' ')
    printf "\\$(printf %03o $((byte ^ 16)))" |
        dd of="$bad" bs=1 seek="$1" conv=notrunc 2>/dev/null
}

# An expert that the first token chooses in layer 1.
expert=$(sed -n 's/.*"layer": 1, "ids": \[\[\([0-9]*\),.*/\1/p' "$tmp/eval")
for block in "expert $expert of layer 1" "trunk of layer 3" \
    "embedding" "trunk output"; do
    at=$(offset_of "$block")
    check "\"$block\" lies somewhere" test "${at:-0}" -gt 0
    flip $((at + 100))
    for io in direct buffered; do
        run 3 "$LODE" run "$bad" --ids 1,2,3,4,5 -n 4 --io $io
        like "$err" "bad.lode: $block: " "$io reads: $block is named"
    done
    run 3 "$LODE" eval "$bad" --ids 1,2,3,4,5 --logits "$tmp/out.f32" --json
    like "$err" "$block" "eval: $block is named"
    check "eval leaves no file of logits" test ! -e "$tmp/out.f32" -a \
        ! -e "$tmp/out.f32.wip"
done

# An expert that is never chosen does no harm.
chosen=$(sed -n 's/.*"layer": 1, "ids": \[\(.*\)\]}.*/\1/p' "$tmp/eval" |
    head -n 1 | tr -d '[]' | tr ',' '\n' | sort -un)
for e in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    echo "$chosen" | grep -qx $e || unused=$e
done
flip $(($(offset_of "expert ${unused:-none} of layer 1") + 100))
run 0 "$LODE" eval "$bad" --ids 1,2,3,4,5 --json
run 3 "$LODE" verify "$bad"
like "$out" "expert ${unused:-none} of layer 1" "but lode verify finds it"

run 3 "$LODE" run "$good" --ids 1,2 --expect-root \
    0000000000000000000000000000000000000000000000000000000000000000
like "$err" "0000000000000000" "another root than the expected one is refused"
run 2 "$LODE" run "$good" --ids 1,99999999
like "$err" "token id 99999999: the vocabulary has" "an id beyond the vocabulary"
run 0 "$MKCKPT" -o "$tmp/few" --preset tiny --layers 2 --vocab 600
run 0 "$LODE" convert -q "$tmp/few" "$tmp/few.lode"
run 0 "$LODE" eval "$tmp/few.lode" --ids 1,2 --top 600 --json
run 2 "$LODE" eval "$tmp/few.lode" --ids 1,2 --top 601 --json
like "$err" "--top 601: the vocabulary has 600" "more than the vocabulary has"
run 1 "$LODE" run "$tmp/none.lode" --ids 1
like "$err" "none.lode" "no such file: named"
head -c 5000 "$good" >"$bad"
run 3 "$LODE" run "$bad" --ids 1
like "$err" "bad.lode" "cut short: named"

# Output that does not arrive is no success.
if [ -c /dev/full ]; then
    for command in "eval $good --ids 1,2 --json" "plan $good --memory 1G" \
        "run $good --ids 1,2 -n 2" "run $good --ids 1,2 -n 2 --json"; do
        # shellcheck disable=SC2086 # words
        "$LODE" $command >/dev/full 2>"$err"
        [ $? -eq 1 ] && grep -q "output" "$err"
        ok $? "a full drive: ${command%% *} fails and says so"
    done
else
    skip "output that does not arrive" "no /dev/full"
fi
done_testing
