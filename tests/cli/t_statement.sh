#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode statement: the text to sign, and nothing that comes from a clock.
. "${srcdir:-.}/tests/cli/lib.sh"

a=$tmp/a.lode
run 0 "$LODE" convert -q "$fixtures/kimi-linear-tiny-a" "$a"
"$LODE" info --json "$a" >"$tmp/info" || exit 99
root=$(sed -n 's/.*"root": "\(.*\)".*/\1/p' "$tmp/info")
index=$(sed -n 's/.*"index_digest": "\(.*\)".*/\1/p' "$tmp/info")
bytes=$(($(wc -c <"$a")))

run 0 "$LODE" statement "$a"
printf 'lode-statement 1\ncontent-root %s\nlossless yes\nvolume - %s %s\n' \
    "$root" "$bytes" "$index" >"$tmp/want"
cp "$out" "$tmp/plain"
check "without options" cmp "$tmp/plain" "$tmp/want"
run 0 "$LODE" statement --release 3 --date 2026-12-01 --source org/model@abc \
    --expect-root "$root" "$a"
printf 'lode-statement 1\ncontent-root %s\nrelease 3\ndate 2026-12-01\n' \
    "$root" >"$tmp/want"
printf 'source org/model@abc\nlossless yes\nvolume - %s %s\n' \
    "$bytes" "$index" >>"$tmp/want"
cp "$out" "$tmp/full"
check "with all of them" cmp "$tmp/full" "$tmp/want"

mkdir "$tmp/set"
run 0 "$LODE" repack -q --split 1M "$a" "$tmp/set/s.lode"
run 0 "$LODE" statement "$tmp/set/s.lode"
like "$out" "content-root $root" "a set has the same root"
cp "$out" "$tmp/lines"
check "a line for each file of the set" test \
    "$(grep -c '^volume ' "$tmp/lines")" -eq "$(ls "$tmp/set" | wc -l)"

run 0 "$LODE" convert -q --text-only "$fixtures/kimi-k3-tiny-a" "$tmp/t.lode"
run 0 "$LODE" statement "$tmp/t.lode"
run 0 "$LODE" convert -q --index-only "$fixtures/kimi-linear-tiny-a" \
    "$tmp/i.lode"
run 4 "$LODE" statement "$tmp/i.lode"
like "$err" "content root is not known" "nothing to sign"
run 3 "$LODE" statement "$a" --expect-root \
    0000000000000000000000000000000000000000000000000000000000000000
run 2 "$LODE" statement "$a" --release -3
run 2 "$LODE" statement "$a" --date "1 2"
run 2 "$LODE" statement "$a" --source ""
run 2 "$LODE" statement
done_testing
