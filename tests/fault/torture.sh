#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torture.sh [-s SEED] [-c CHECKPOINT] N DIR [COMMAND]...
# Kill commands that write containers at N random moments each and repeat them
# until they succeed: the outputs must be byte for byte those of a run that
# nobody disturbed, nothing else may be left, and a consumed checkpoint may
# never have lost a byte.  DIR is where a gigabyte or two are written.
# COMMANDs are names of the table in call(); without any, all of them.
# A checkpoint of 225 MB is made if none is given.  Needs sleep with fractions
# and date with nanoseconds.
srcdir=${srcdir:-.}
seed=1
checkpoint=
usage="usage: torture.sh [-s SEED] [-c CHECKPOINT] N DIR [COMMAND]..."

while getopts s:c: letter; do
    case $letter in
    s) seed=$OPTARG ;;
    c) checkpoint=$OPTARG ;;
    *) echo "$usage" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
kills=$1
TMPDIR=$2
shift 2
commands=${*:-convert consume repack-zstd repack-split repack-consume}
. "$srcdir/tests/cli/lib.sh"

if [ -z "$checkpoint" ]; then
    checkpoint=$tmp/checkpoint
    "$MKCKPT" -o "$checkpoint" --preset medium --layers 5 --experts 30 \
        --vocab 2048 --inter 2048 --seed "$seed" >/dev/null || exit 99
fi
# The input of repack, and what every conversion must give.
"$LODE" convert -q "$checkpoint" "$tmp/in.lode" || exit 99

# Become the command.  It writes $dir/o.lode and whatever belongs to it, and
# nothing else into $dir.
call() { # NAME
    case $1 in
    convert) set -- convert -q "$checkpoint" ;;
    consume) set -- convert -q --consume "$tmp/given/source" ;;
    repack-zstd) set -- repack -q --codec zstd "$tmp/in.lode" ;;
    repack-split) set -- repack -q --split 64M "$tmp/in.lode" ;;
    repack-consume)
        set -- repack -q --consume --align 64K "$tmp/given/source" ;;
    *)
        echo "no command $1" >&2
        exit 2 ;;
    esac
    exec "$LODE" "$@" "$dir/o.lode"
}

known() { # NAME: does this lode have it?
    case $1 in
    consume) "$LODE" convert --help 2>/dev/null | grep -q -- --consume ;;
    repack-consume)
        "$LODE" repack --help 2>/dev/null | grep -q -- --consume ;;
    repack-*) "$LODE" repack --help >/dev/null 2>&1 ;;
    *) true ;;
    esac
}

# A number from 0 to LIMIT - 1 in $random; the low bits are poor.
state=$seed
random() { # LIMIT
    state=$(((state * 1103515245 + 12345) % 2147483648))
    random=$((state / 256 % $1))
}

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# $original is what a command reads that gives it up; it gets a copy in a folder
# of its own.
fresh_source() { # NAME
    case $1 in
    consume) original=$checkpoint ;;
    repack-consume) original=$tmp/in.lode ;;
    *) original= ;;
    esac
    rm -rf "$tmp/given"
    mkdir "$tmp/given" || exit 99
    [ -z "$original" ] || cp -r "$original" "$tmp/given/source" || exit 99
}

# One run, killed after a random part of the reference's time; status in $got.
killed_run() { # NAME
    random $((reference_ms + 1))
    # In a subshell of its own, or the shell would report the death.
    (call "$1") >"$out" 2>"$err" </dev/null &
    pid=$!
    sleep "$(printf '%d.%03d' $((random / 1000)) $((random % 1000)))"
    kill -KILL $pid 2>/dev/null # it may be done
    wait $pid 2>/dev/null
    got=$?
    [ $got -ne 137 ] || killed=$((killed + 1))
    moments="$moments $random"
}

# Without a file to continue from, a source must be whole.
whole_or_begun() {
    if [ -z "$original" ] || [ -e "$dir/o.lode" ] ||
        [ -e "$dir/o.lode.wip" ]; then
        return 0
    fi
    # Renamed to be given up, with nothing freed yet.
    source=$tmp/given/source
    [ -e "$source" ] || source=$source.consumed
    diff -r "$original" "$source" >>"$err" 2>&1
}

# Killed between the rename and the end, a command has done its work; repeated,
# it refuses to replace the result.  That the result is whole is compared.
was_done() {
    [ $got -eq 2 ] && [ ! -e "$dir/o.lode.wip" ] &&
        grep -q 'o\.lode exists' "$err"
}

# Kill once, then repeat, killing half of the time, until the command succeeds.
disturbed() { # NAME
    moments=
    again=1
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12; do
        if [ $again -eq 1 ] && [ $attempt -lt 12 ]; then
            killed_run "$1"
        else
            (call "$1") >"$out" 2>"$err" </dev/null
            got=$?
        fi
        if [ $got -eq 0 ] || was_done; then
            return 0
        fi
        if [ $got -ne 137 ]; then
            echo "status $got instead of success" >>"$err"
            return 1
        fi
        if ! whole_or_begun; then
            echo "the source has lost bytes" >>"$err"
            return 1
        fi
        [ ! -e "$dir/o.lode.wip" ] || begun=$((begun + 1))
        random 2
        again=$random
    done
    return 1
}

same_as_reference() {
    # What is left of a source that was given up is the same, too.
    diff -r "$tmp/reference" "$dir" >"$out" 2>"$err" &&
        diff -r "$tmp/given.reference" "$tmp/given" >"$out" 2>"$err"
}

reference() { # NAME
    dir=$tmp/reference
    rm -rf "$dir" "$tmp/given.reference"
    mkdir "$dir" || exit 99
    fresh_source "$1"
    start=$(now_ms)
    (call "$1") >"$out" 2>"$err" </dev/null
    status=$?
    reference_ms=$(($(now_ms) - start))
    ok $status "$1: the reference takes $reference_ms ms"
    [ $status -eq 0 ] || return 1
    check "$1: it verifies" "$LODE" verify "$dir/o.lode"
    left=$(find "$dir" -name '*.wip*' -o -name '*.journal')
    [ -z "$left" ]
    ok $? "$1: it leaves no work file"
    case $1 in
    convert | consume)
        check "$1: converting gives the same bytes each time" \
            cmp "$tmp/in.lode" "$dir/o.lode" ;;
    esac
    mv "$tmp/given" "$tmp/given.reference"
}

torture() { # NAME
    reference "$1" || return 0
    killed=0
    begun=0
    dir=$tmp/out
    i=0
    while [ $i -lt "$kills" ]; do
        i=$((i + 1))
        rm -rf "$dir"
        mkdir "$dir" || exit 99
        fresh_source "$1"
        disturbed "$1" && same_as_reference
        ok $? "$1: killed after$moments ms, the bytes are the same"
    done
    [ $killed -gt 0 ]
    ok $? "$1: $killed kills hit, $begun of them left work to continue"
    rm -rf "$dir"
}

for name in $commands; do
    if known "$name"; then
        torture "$name"
    else
        skip "$name" "this lode does not have it"
    fi
done
done_testing
