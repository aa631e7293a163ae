#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a dry run promises: sizes from a sample, time from a short measurement,
# nothing written, and a refusal that says what to change.
. "${srcdir:-.}/tests/cli/lib.sh"

real() { # KEY FILE: any JSON number
    sed -n "s/.*\"$1\": *\\(-*[0-9][0-9.e+-]*\\).*/\\1/p" "$2" | head -n 1
}

sum() { # KEY FILE: of all rows
    sed -n "s/.*\"$1\": *\\([0-9][0-9]*\\).*/\\1/p" "$2" |
        awk '{ n += $1 } END { printf "%.0f", n }'
}

near() { # NAME EXPECTED FOUND: within 10 %
    [ -n "$2" ] && [ -n "$3" ] && [ "$3" -gt 0 ] &&
        [ $((10 * $2)) -ge $((9 * $3)) ] && [ $((10 * $2)) -le $((11 * $3)) ]
    ok $? "$1: $2 expected, $3 found"
}

bytes_of() {
    ls -ln "$1" | awk '{ print $5 }'
}

# The promise is kept, for every kind of checkpoint and codec.
"$MKCKPT" --out "$tmp/linear" --family kimi_linear --preset medium --layers 3 \
    --experts 16 --vocab 4096 >/dev/null || exit 99
"$MKCKPT" --out "$tmp/mxfp4" --preset medium --layers 2 --experts 12 \
    --vocab 2048 >/dev/null || exit 99
cd "$tmp" || exit 99
for ckpt in "$models/k3-demo" "$fixtures/kimi-k3-tiny-a" \
    "$fixtures/kimi-linear-tiny-a" "$tmp/linear" "$tmp/mxfp4"; do
    model=${ckpt##*/}
    for codec in none auto zstd archive; do
        rm -rf dest
        mkdir dest
        echo before >dest/other
        ls -Al --time-style=full-iso "$ckpt" dest >before
        run 0 "$LODE" convert --dry-run --json --codec $codec "$ckpt" \
            dest/c.lode
        cp "$out" plan
        ls -Al --time-style=full-iso "$ckpt" dest | cmp -s before -
        ok $? "$model, $codec: the dry run leaves both folders as they were"
        run 0 "$LODE" convert -q --codec $codec "$ckpt" dest/c.lode
        near "$model, $codec" "$(number file_bytes_estimate plan)" \
            "$(bytes_of dest/c.lode)"
        [ "$(bytes_of dest/c.lode)" -le "$(number disk_peak_bytes plan)" ]
        ok $? "$model, $codec: no more than the drive was asked for"
        [ "$(sum stored_bytes_estimate plan)" -le \
            "$(number file_bytes_estimate plan)" ]
        ok $? "$model, $codec: the rows are within the file"
    done
done

# Keys, and what they say.
run 0 "$LODE" convert --dry-run --json --codec zstd "$models/k3-demo" no.lode
for key in roles kind role count source_encoding target_encoding codec why \
    raw_bytes stored_bytes_estimate file_bytes_estimate seconds_estimate \
    read_bytes_per_second write_bytes_per_second disk_peak_bytes \
    memory_bytes; do
    like "$out" "\"$key\":" "key $key"
done
[ "$(number read_bytes_per_second "$out")" -gt 0 ] &&
    [ "$(number write_bytes_per_second "$out")" -gt 0 ]
ok $? "both drives were measured"
real seconds_estimate "$out" | awk '{ exit !($1 > 0 && $1 < 60) }'
ok $? "a small model takes no minute: $(real seconds_estimate "$out") s"
run 0 "$LODE" convert --dry-run --codec zstd "$models/k3-demo" no.lode
like "$out" "role " "the table has a head"
like "$out" "exponents repeat, fractions do not" "it says why"
like "$out" "zstd + rot16split" "and which codec"
run 0 "$LODE" convert --codec none --dry-run "$models/k3-demo" no.lode
like "$out" "as asked" "and where nothing was to choose"
unlike "$out" "zstd" "no codec where none was wanted"
[ ! -e no.lode ]
ok $? "nothing is written"

# Of a container.
for from in none archive; do
    rm -f a.lode
    run 0 "$LODE" convert -q --codec $from "$models/k3-demo" a.lode
    for to in none auto zstd archive; do
        rm -f b.lode
        run 0 "$LODE" repack --dry-run --json --codec $to a.lode b.lode
        cp "$out" plan
        [ ! -e b.lode ] && [ ! -e b.lode.wip ]
        ok $? "repack, $from to $to: the dry run writes nothing"
        run 0 "$LODE" repack -q --codec $to a.lode b.lode
        near "repack, $from to $to" "$(number file_bytes_estimate plan)" \
            "$(bytes_of b.lode)"
    done
    rm -f b.lode
    run 0 "$LODE" repack --dry-run --json a.lode b.lode
    cp "$out" plan
    like plan '"codec": "kept"' "repack of $from: blocks stay as they are"
    run 0 "$LODE" repack -q a.lode b.lode
    [ "$(number file_bytes_estimate plan)" -eq "$(bytes_of b.lode)" ]
    ok $? "repack of $from: then the size is known exactly"
done
rm -f b.lode
run 0 "$LODE" repack --dry-run a.lode b.lode
like "$out" "copied as it is" "repack: the table"

# No data, no sample.
cp -r "$tmp/linear" "$tmp/heads"
for f in heads/*.safetensors; do
    n=$(od -An -tu8 -N8 "$f" | tr -d ' ')
    head -c $((n + 8)) "$f" >front && cp front "$f"
done
run 0 "$LODE" convert --dry-run --index-only --json --codec zstd heads no.lode
like "$out" "no data to sample: taken as raw" "headers alone: says so"
like "$out" '"seconds_estimate": null' "headers alone: no time"
run 0 "$LODE" convert --dry-run --index-only --codec zstd heads no.lode
like "$out" "parts without data taken as raw" "headers alone: the text, too"

# Holes are no sample either: weights do not pack like zeros.
"$MKCKPT" --out "$tmp/holes" --preset medium --layers 2 --experts 8 --sparse \
    >/dev/null || exit 99
run 0 "$LODE" convert --dry-run --json --codec archive holes no.lode
like "$out" "no data to sample: taken as raw" "holes: says so"
near "holes count as raw" "$(number file_bytes_estimate "$out")" \
    "$(number file_bytes "$out")"

# What does not fit.
mkdir small
small=
mount_small() { # KIB
    mount -t tmpfs -o size="$1"k tmpfs "$tmp/small" 2>/dev/null && small=1
}
if mount_small 6000; then
    run 1 "$LODE" convert --dry-run --json --codec none "$models/k3-demo" \
        small/c.lode
    like "$out" '"roles"' "small drive: the plan is shown all the same"
    missing=$(($(number disk_peak_bytes "$out") - $(number free_bytes "$out")))
    like "$err" " $missing are missing" "small drive: what is missing"
    like "$err" "--codec zstd is expected to fit" "small drive: what would fit"
    run 0 "$LODE" convert -q --codec zstd "$models/k3-demo" small/c.lode
    run 0 "$LODE" verify -q small/c.lode
    rm small/c.lode
    rm -f a.lode
    run 0 "$LODE" convert -q --codec none "$models/k3-demo" a.lode
    run 1 "$LODE" repack --dry-run --json a.lode small/c.lode
    missing=$(($(number disk_peak_bytes "$out") - $(number free_bytes "$out")))
    like "$err" " $missing are missing" "small drive: repack says it, too"
    like "$err" "--codec zstd is expected to fit" "and what would fit"
    check "small drive: nothing is left" test -z "$(ls small)"
    umount "$tmp/small"
else
    skip "a small drive" "cannot mount a tmpfs"
fi
if [ -n "$small" ] && mount_small 1000; then
    run 1 "$LODE" convert --dry-run --codec none "$models/k3-demo" small/c.lode
    like "$err" "choose another drive" "a hopeless drive: says so"
    unlike "$err" "--codec zstd" "a hopeless drive: no false hope"
    umount "$tmp/small"
fi
done_testing
