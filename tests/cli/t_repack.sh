#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lode repack: content stays what it was whatever changes around it; what is
# not lossless says so; an input is lost neither by mistake nor by a crash.
. "${srcdir:-.}/tests/cli/lib.sh"

ids=5,9,200,31,7,7,120,2,44,3
ckpt=$fixtures/kimi-k3-tiny-a
trap 'umount "$tmp/mnt" 2>/dev/null; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

root_of() {
    "$LODE" info --json "$1" 2>/dev/null |
        sed -n 's/^ *"root": "\([0-9a-f]*\)".*/\1/p' | head -n 1
}

same_root() { # NAME FILE
    got_root=$(root_of "$2")
    [ -n "$got_root" ] && [ "$got_root" = "$root" ]
    ok $? "$1: the content root stays"
}

whole() { # NAME FILE: verified, same root, and the checkpoint comes out of it
    check "$1: verifies" "$LODE" verify -q "$2"
    same_root "$1" "$2"
    rm -rf x
    check "$1: extracts" "$LODE" extract -q "$2" x
    check "$1: to the published bytes" diff -r ckpt x
}

# The published files: those that a container carries.
run 0 "$LODE" convert -q --codec none "$ckpt" raw.lode
run 0 "$LODE" extract -q raw.lode ckpt
for f in ckpt/*; do
    cmp -s "$f" "$ckpt/${f#ckpt/}" || echo "$f"
done >differ
check "extract gives the published files" test ! -s differ
root=$(root_of raw.lode)
check "a root: $root" test ${#root} -eq 64
cp raw.lode keep.lode

# Recoding and back.
for codec in auto zstd zstd:3 archive; do
    rm -f p.lode r.lode
    run 0 "$LODE" repack -q --codec $codec raw.lode p.lode
    check "$codec: smaller" test "$(wc -c <p.lode)" -lt "$(wc -c <raw.lode)"
    same_root "$codec" p.lode
    run 0 "$LODE" repack -q --codec none p.lode r.lode
    check "raw, $codec, raw: byte-identical" cmp raw.lode r.lode
done
run 0 "$LODE" convert -q --codec archive "$ckpt" direct.lode
check "repacked as converted" cmp direct.lode p.lode
rm -f r.lode
run 0 "$LODE" repack -q p.lode r.lode
check "without options: byte-identical" cmp p.lode r.lode
rm -f r.lode
run 0 "$LODE" repack -q --fast p.lode r.lode
check "--fast is --codec none" cmp raw.lode r.lode
rm -f r.lode
run 0 "$LODE" repack -q --archive raw.lode r.lode
check "--archive is --codec archive" cmp p.lode r.lode

# A chain of lossless steps.
rm -f ?.lode
run 0 "$LODE" repack -q --align 64K raw.lode a.lode
run 0 "$LODE" info --json a.lode
like "$out" '"align_bytes": 65536' "--align"
run 0 "$LODE" repack -q --codec zstd a.lode b.lode
run 0 "$LODE" repack -q --split layer b.lode c.lode
run 0 "$LODE" repack -q --join --codec auto --label other c.lode d.lode
run 0 "$LODE" info d.lode
like "$out" other "--label"
whole "a chain of steps" d.lode
run 0 "$LODE" repack -q --fast --align 4K --label "$(
    "$LODE" info --json raw.lode | sed -n 's/^ *"label": "\(.*\)",/\1/p')" \
    d.lode e.lode
check "and back: byte-identical" cmp raw.lode e.lode
rm -f ?.lode c-*.lode

# Sets.
run 0 "$LODE" repack -q --archive raw.lode packed.lode
for from in raw packed; do
    for size in layer 3M 1500K 800K; do
        rm -rf set
        mkdir set
        run 0 "$LODE" repack -q --split $size $from.lode set/s.lode
        many=$(find set -name 's-*.lode' | wc -l)
        check "$from in volumes of $size: there are $many" test "$many" -ge 2
        same_root "$from in volumes of $size" set/s.lode
        if [ $size != layer ]; then
            "$LODE" info --json set/s.lode >"$out" 2>"$err"
            limit=$((${size%[KM]} * 1024))
            [ "$size" = "${size%M}" ] || limit=$((limit * 1024))
            find set -name 's-*.lode' -size +$((limit / 1024))k >above
            check "$from: no volume is above $size" test ! -s above
        fi
        rm -f j.lode
        run 0 "$LODE" repack -q --join set/s.lode j.lode
        check "$from: split by $size and joined: byte-identical" \
            cmp $from.lode j.lode
    done
done
whole "a set" set/s.lode
run 2 "$LODE" repack -q set/s.lode j2.lode
like "$err" "say --join or --split" "a set wants to be told"
run 2 "$LODE" repack -q --split layer --join set/s.lode j2.lode
like "$err" "exclude each other" "--split and --join"
run 2 "$LODE" repack -q --split 200K raw.lode j2.lode
like "$err" "has no room for index and one block" "volumes that are too small"
run 2 "$LODE" repack -q --split many raw.lode j2.lode
like "$err" 'neither "layer" nor a size' "no size"
# Volumes elsewhere.
mkdir elsewhere
mv set/s-0001.lode set/s-0002.lode elsewhere
rm -f j.lode
run 1 "$LODE" repack -q --join set/s.lode j.lode
like "$err" "s-0001.lode" "a missing volume is named"
check "and nothing is made" test ! -e j.lode
run 0 "$LODE" repack -q --join --dir elsewhere set/s.lode j.lode
check "--dir: joined all the same" cmp packed.lode j.lode
first=elsewhere/s-0001.lode
run 2 "$LODE" repack -q --join $first j2.lode
like "$err" "name its head" "a volume alone is no input"
rm -rf set elsewhere j.lode

# The order of experts.
run 0 "$LODE" eval raw.lode --ids $ids --routes --json
cp "$out" trace.json
run 0 "$LODE" repack -q --order trace.json raw.lode o.lode
refute "--order: another file" cmp -s raw.lode o.lode
check "--order: as large" test "$(wc -c <o.lode)" -eq "$(wc -c <raw.lode)"
whole "--order" o.lode
run 0 "$LODE" repack -q --order trace.json --jobs 1 raw.lode o1.lode
check "--order: the same again" cmp o.lode o1.lode
echo '{"layers": [' >bad.json
run 3 "$LODE" repack -q --order bad.json raw.lode o2.lode
like "$err" "bad.json" "a broken trace is named"

# Some layers.
run 0 "$LODE" repack -q --layers 0-1 raw.lode l.lode
same_root "--layers" l.lode
check "--layers: smaller" test "$(wc -c <l.lode)" -lt "$(wc -c <raw.lode)"
run 0 "$LODE" verify l.lode
like "$out" "no fault, but" "--layers: verify tells what is not here"
run 0 "$LODE" info l.lode
like "$out" "not in this file" "--layers: so does info"
run 1 "$LODE" run l.lode --ids 1,2 -n 1
like "$err" "not in this file" "--layers: cannot run, and says so"
run 2 "$LODE" repack -q --layers 3-1 raw.lode l2.lode
like "$err" "is not A-B" "--layers: bad numbers"
run 2 "$LODE" repack -q --drop-experts 0.1 --trace trace.json l.lode l2.lode
like "$err" "is partial" "--drop-experts: not of a partial container"
rm -f l.lode
run 0 "$LODE" repack -q --layers 1-1 --codec zstd raw.lode l.lode
same_root "--layers and a codec" l.lode
check "--layers and a codec: verifies" "$LODE" verify -q l.lode

# Fewer experts.
echo "1: 0 3" >drop
run 0 "$LODE" repack -q --drop-experts drop raw.lode d.lode
check "--drop-experts: verifies" "$LODE" verify -q d.lode
refute "--drop-experts: another root" test "$(root_of d.lode)" = "$root"
run 0 "$LODE" info --json d.lode
like "$out" '"lossless": false' "--drop-experts: is not lossless"
like "$out" "$root" "--drop-experts: names the root it comes from"
run 0 "$LODE" run d.lode --ids $ids -n 3
refute "--drop-experts: the shards cannot be extracted" "$LODE" extract -q \
    d.lode x2
run 0 "$LODE" repack --dry-run --json --drop-experts drop raw.lode d2.lode
like "$out" '"lossless": false' "--drop-experts: the plan says it, too"
[ "$(number dropped_experts "$out")" -eq 2 ]
ok $? "--drop-experts: and how many"
run 0 "$LODE" repack -q --drop-experts 0.2 --trace trace.json raw.lode d3.lode
check "--drop-experts, a share: smaller" test "$(wc -c <d3.lode)" -lt \
    "$(wc -c <raw.lode)"
run 0 "$LODE" run d3.lode --ids $ids -n 1
run 0 "$LODE" repack -q --drop-experts drop packed.lode d4.lode
[ "$(root_of d4.lode)" = "$(root_of d.lode)" ]
ok $? "--drop-experts of a packed container: the same content"
run 2 "$LODE" repack -q --drop-experts 0.99 --trace trace.json raw.lode d5.lode
like "$err" "experts would stay, a token takes" "--drop-experts: too many"
run 2 "$LODE" repack -q --drop-experts 0.2 raw.lode d5.lode
like "$err" "needs --trace" "--drop-experts: a share needs a trace"
echo "77: 0" >drop
refute "--drop-experts: no such layer" "$LODE" repack -q --drop-experts drop \
    raw.lode d5.lode
check "nothing is made of what was refused" test ! -e d5.lode
rm -f d*.lode o*.lode l.lode

# IN and OUT.
ln -s raw.lode soft.lode
ln raw.lode hard.lode
for name in raw.lode soft.lode hard.lode ./raw.lode; do
    run 2 "$LODE" repack -f -q --codec zstd raw.lode $name
    like "$err" "are the same file" "IN as OUT, by the name $name"
done
check "IN is whole" cmp keep.lode raw.lode
rm soft.lode hard.lode
echo old >there.lode
run 2 "$LODE" repack -q raw.lode there.lode
like "$err" "there.lode exists; --force" "an existing OUT"
(
    trap '' XFSZ
    ulimit -f 2000
    exec "$LODE" repack -f -q --align 64K raw.lode there.lode
) >"$out" 2>"$err"
refute "a failure with an existing OUT" test $? -eq 0
[ "$(cat there.lode)" = old ]
ok $? "leaves it as it was"
run 0 "$LODE" repack -f -q --align 64K raw.lode there.lode
same_root "--force" there.lode
rm -f there.lode*
run 2 "$LODE" repack -q raw.lode no/such.lode
like "$err" "there is no directory" "a missing folder"

# The number of threads does not show.
for jobs in 1 2 5; do
    run 0 "$LODE" repack -q --codec zstd --jobs $jobs raw.lode j$jobs.lode
done
cmp -s j1.lode j2.lode && cmp -s j1.lode j5.lode
ok $? "one, two and five jobs: the same bytes"
rm -f j?.lode

# The expected root.
run 0 "$LODE" repack -q --expect-root "$root" raw.lode e.lode
wrong=$(echo "$root" | tr '0-9a-f' '1-9a-f0')
run 3 "$LODE" repack -q --expect-root "$wrong" raw.lode e2.lode
like "$err" "$wrong" "another root than expected"
check "nothing is made" test ! -e e2.lode
rm -f e.lode

# Damage.
"$LODE" info --blocks raw.lode >blocks
offset=$(awk '/expert 3 of layer 1$/ { print $2 }' blocks | tr -dc 0-9)
if [ -n "$offset" ] && [ "$offset" -gt 0 ]; then
    cp raw.lode bad.lode
    printf 'damage' | dd of=bad.lode bs=1 seek=$((offset + 100)) \
        conv=notrunc 2>/dev/null
    for codec in zstd archive; do
        run 3 "$LODE" repack -q --codec $codec bad.lode n.lode
        like "$err" "expert 3 of layer 1" "a damaged IN ($codec): says where"
        check "a damaged IN ($codec): no OUT" test ! -e n.lode
        rm -f n.lode.wip*
    done
else
    ok 1 "an offset of expert 3 of layer 1"
fi

# Killed and continued.
"$MKCKPT" --out big --preset medium --layers 3 --experts 24 --vocab 2048 \
    >/dev/null || exit 99
run 0 "$LODE" convert -q --codec none big big.lode
rm -rf big
run 0 "$LODE" repack -q --codec archive --jobs 1 big.lode want.lode
begun() { # kill -9 a repack on its way; false when it was faster
    "$LODE" repack -q --codec archive --jobs 1 big.lode k.lode \
        >"$out" 2>"$err" &
    pid=$!
    tries=0
    while [ "$(du -k k.lode.wip 2>/dev/null | awk '{ print $1 }')0" -lt \
        "$1" ] && [ $tries -lt 200 ] && [ ! -e k.lode ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ -e k.lode.wip ]
}
if begun 100000; then
    check "killed: nothing under the name" test ! -e k.lode
    run 2 "$LODE" repack -q --codec zstd:7 --jobs 1 big.lode k.lode
    like "$err" "--restart" "continuing with other options is refused"
    run 0 "$LODE" repack -q --codec archive --jobs 2 big.lode k.lode
    check "killed and continued: byte-identical" cmp want.lode k.lode
    [ ! -e k.lode.wip ] && [ ! -e k.lode.wip.journal ]
    ok $? "and nothing else is left"
    rm -f k.lode
    if begun 1; then
        run 0 "$LODE" repack -q --codec none --restart big.lode k.lode
        check "--restart: other options" cmp big.lode k.lode
    fi
else
    skip "killed and continued" "it was done before it could be killed"
fi
rm -f k.lode*

# Giving up IN, on a drive that has no room for both.
in_kb=$(($(wc -c <big.lode) / 1024))
"$LODE" info --json big.lode >big.json
mkdir mnt
drive() { # KIB: a file system of that size, or a reason to skip
    dd if=/dev/null of=drive bs=1024 seek="$1" 2>/dev/null
    mkfs.ext4 -q -F -m 0 -O ^has_journal drive >"$out" 2>"$err" &&
        mount -o loop drive mnt 2>"$err"
}
consume() { # NAME CHECK OPTION...
    case_name=$1
    expected=$2
    shift 2
    root=$(root_of big.lode)
    run 1 "$LODE" repack -q "$@" mnt/in.lode mnt/out.lode
    like "$err" "are missing" "$case_name: there is no room for both"
    like "$err" "--consume gives up IN on the way and fits" \
        "$case_name: what to do is said"
    check "$case_name: IN is whole" "$LODE" verify -q mnt/in.lode
    run 0 "$LODE" repack -q --consume "$@" mnt/in.lode mnt/out.lode
    check "$case_name: the same bytes" cmp "$expected" mnt/out.lode
    same_root "$case_name" mnt/out.lode
    find mnt -name 'in*' >left
    check "$case_name: IN is gone" test ! -s left
}
if drive $((in_kb * 17 / 10)); then
    cp big.lode mnt/in.lode
    consume "--consume" big.lode
    umount mnt
    drive $((in_kb * 17 / 10)) || exit 99
    run 0 "$LODE" repack -q --split 30M big.lode mnt/in.lode
    consume "--consume of a set" big.lode --join
    umount mnt
    # Killed on the way, and the same command again.
    drive $((in_kb * 17 / 10)) || exit 99
    cp big.lode mnt/in.lode
    "$LODE" repack -q --consume --archive --jobs 1 mnt/in.lode mnt/out.lode \
        >"$out" 2>"$err" &
    pid=$!
    tries=0
    while [ ! -e mnt/in.lode.consumed ] && [ $tries -lt 200 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    sleep 0.2
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    if [ -e mnt/in.lode.consumed ]; then
        run 2 "$LODE" repack -q --archive mnt/in.lode mnt/out.lode
        like "$err" "was given up by an unfinished run" "killed: says so"
        run 0 "$LODE" repack -q --consume --archive mnt/in.lode mnt/out.lode
    fi
    check "--consume, killed and continued: the same bytes" \
        cmp want.lode mnt/out.lode
    umount mnt
else
    skip "--consume" "no small ext4 can be mounted"
fi
done_testing
