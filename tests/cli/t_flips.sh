#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Damaged and cut containers, raw, packed and split, through every command: an
# answer or an error, never a crash or a sanitizer's report.  (That each is
# found: tests/format/t_flips.c.)
. "${srcdir:-.}/tests/cli/lib.sh"

run 0 "$LODE" convert -q "$fixtures/kimi-k3-tiny-a" "$tmp/raw.lode"
run 0 "$LODE" repack -q --codec archive "$tmp/raw.lode" "$tmp/packed.lode"
mkdir "$tmp/set"
run 0 "$LODE" repack -q --split 1M "$tmp/raw.lode" "$tmp/set/s.lode"
run 0 "$LODE" convert -q --index-only "$fixtures/kimi-k3-tiny-a" \
    "$tmp/index.lode"
cp "$tmp/raw.lode" "$tmp/hurt.lode"
"$MUTATE" flip "$tmp/hurt.lode" 196700 || exit 99

survives() { # COMMAND...: any status that a program chooses
    "$@" >"$out" 2>"$err" </dev/null
    got=$?
    [ "$got" -lt 99 ]
}

all_commands() { # FILE NAME
    bad=$1
    cp "$bad" "$tmp/broken.lode"
    wrong=
    survives "$LODE" info --blocks "$bad" || wrong="$wrong info"
    survives "$LODE" extract -q --force "$bad" "$tmp/x" || wrong="$wrong extract"
    survives "$LODE" plan "$bad" --memory 1G || wrong="$wrong plan"
    survives "$LODE" run "$bad" --ids 1,2 -n 2 || wrong="$wrong run"
    survives "$LODE" diff "$bad" "$tmp/raw.lode" || wrong="$wrong diff"
    survives "$LODE" diff "$tmp/raw.lode" "$bad" || wrong="$wrong diff"
    survives "$LODE" statement "$bad" || wrong="$wrong statement"
    survives "$LODE" verify --fast "$bad" || wrong="$wrong verify"
    survives "$LODE" verify --strict "$bad" && [ "$got" -ne 0 ] ||
        wrong="$wrong verify"
    survives "$LODE" repair -q "$bad" --from "$tmp/raw.lode" ||
        wrong="$wrong repair"
    cp "$tmp/hurt.lode" "$tmp/work.lode"
    survives "$LODE" repair -q "$tmp/work.lode" --from "$tmp/broken.lode" ||
        wrong="$wrong repair"
    [ -z "$wrong" ]
    ok $? "$2:${wrong:- every command comes back}"
}

# Places in superblocks, directory, index, and blocks.
for kind in raw packed index set/s; do
    good=$tmp/$kind.lode
    bytes=$(($(wc -c <"$good")))
    for at in 17 83 225 600 65540 131080 133000 $((bytes / 2 + 5)); do
        cp "$good" "$tmp/set/bad.lode"
        "$MUTATE" flip "$tmp/set/bad.lode" $at || exit 99
        all_commands "$tmp/set/bad.lode" "$kind, byte $at"
    done
    for cut in 0 4096 131200 $((bytes - 1)); do
        head -c "$cut" "$good" >"$tmp/set/bad.lode"
        all_commands "$tmp/set/bad.lode" "$kind, cut to $cut"
    done
done
check "the good one was never touched" "$LODE" verify --strict "$tmp/raw.lode"
done_testing
