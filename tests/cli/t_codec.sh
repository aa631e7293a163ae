#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode convert --codec: whatever it is, the content is the same, and the bytes
# depend on nothing but source and options.
. "${srcdir:-.}/tests/cli/lib.sh"

root_of() { # FILE
    "$LODE" info --json "$1" | sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p'
}

size_of() { wc -c <"$1"; }

# Everything there is to say of one checkpoint.
all_codecs() { # NAME FOLDER
    who=$1
    folder=$2
    run 0 "$LODE" convert -q --codec none "$folder" "$tmp/none.lode"
    root=$(root_of "$tmp/none.lode")
    for codec in auto zstd zstd:1 zstd:9 archive; do
        lode=$tmp/c.lode
        rm -rf "$lode" "$tmp/x"
        run 0 "$LODE" convert -q --codec $codec "$folder" "$lode"
        check "$who, $codec: the root of none" \
            test "$(root_of "$lode")" = "$root"
        check "$who, $codec: verifies" "$LODE" verify -q --strict "$lode"
        check "$who, $codec: extracts" "$LODE" extract -q "$lode" "$tmp/x"
        check "$who, $codec: the published bytes" diff -r "$folder" "$tmp/x"
        check "$who, $codec: not larger than none" \
            test "$(size_of "$lode")" -le "$(($(size_of "$tmp/none.lode") + 65536))"
        rm -f "$tmp/r.lode"
        run 0 "$LODE" repack -q --codec none "$lode" "$tmp/r.lode"
        check "$who, $codec: repacked raw, it is the raw conversion" \
            cmp "$tmp/none.lode" "$tmp/r.lode"
        rm -f "$tmp/r.lode"
        run 0 "$LODE" repack -q --codec $codec "$tmp/none.lode" "$tmp/r.lode"
        check "$who, $codec: repacked from raw, it is the conversion" \
            cmp "$lode" "$tmp/r.lode"
        rm -f "$tmp/r.lode"
    done
    rm -f "$tmp/none.lode"
}

"$MKCKPT" --out "$tmp/m" --preset medium --layers 3 --experts 8 --vocab 512 \
    --inter 512 >/dev/null || exit 99
all_codecs medium "$tmp/m"
all_codecs k3-demo "$models/k3-demo"
for f in kimi-k3-tiny-a kimi-linear-tiny-a; do
    cp -r "$fixtures/$f/checkpoint" "$tmp/$f" 2>/dev/null ||
        cp -r "$fixtures/$f" "$tmp/$f"
    [ -f "$tmp/$f/config.json" ] || continue
    all_codecs $f "$tmp/$f"
done

# Threads do not matter, and packing gains.
for jobs in 1 2 5; do
    run 0 "$LODE" convert -q -j $jobs "$tmp/m" "$tmp/$jobs.lode"
done
check "1 and 2 threads" cmp "$tmp/1.lode" "$tmp/2.lode"
check "1 and 5 threads" cmp "$tmp/1.lode" "$tmp/5.lode"
run 0 "$LODE" convert -q --fast "$tmp/m" "$tmp/fast.lode"
run 0 "$LODE" convert -q --archive "$tmp/m" "$tmp/archive.lode"
run 0 "$LODE" convert -q --codec zstd "$tmp/m" "$tmp/zstd.lode"
check "auto is smaller than fast" \
    test "$(size_of "$tmp/1.lode")" -lt "$(size_of "$tmp/fast.lode")"
check "zstd is not larger than auto" \
    test "$(size_of "$tmp/zstd.lode")" -le "$(size_of "$tmp/1.lode")"
check "archive is not larger than zstd" \
    test "$(size_of "$tmp/archive.lode")" -le "$(size_of "$tmp/zstd.lode")"
run 0 "$LODE" info "$tmp/archive.lode"
like "$out" "(zstd)" "info tells that it is packed"

# What is no codec.
for bad in zip zstd: zstd:0 zstd:20 zstd:x zstd:-1 zstd:1x ''; do
    run 2 "$LODE" convert --codec "$bad" "$tmp/m" "$tmp/bad.lode"
    like "$err" "is not auto, none, zstd" "\"$bad\" is no codec"
done
run 2 "$LODE" convert --codec auto --archive "$tmp/m" "$tmp/bad.lode"
like "$err" "exclude each other" "--codec and --archive"
run 2 "$LODE" convert --fast --archive "$tmp/m" "$tmp/bad.lode"
like "$err" "exclude each other" "--fast and --archive"
check "nothing was written" test ! -e "$tmp/bad.lode"

done_testing
