# SPDX-License-Identifier: Apache-2.0
# TAP for shell tests: . "$srcdir/tests/cli/lib.sh", then run, like, ok, plan.
# run STATUS CMD...    runs CMD, wants exactly STATUS; output in $out, $err
# like FILE TEXT NAME  FILE contains TEXT (fixed string)
# unlike FILE TEXT NAME
# check NAME CMD...    CMD succeeds
# refute NAME CMD...   CMD fails (any status but a crash or sanitizer report)
# number KEY FILE      prints a number of a JSON text
# skip NAME REASON     one skipped check
# done_testing         the plan; call it last

set -u
srcdir=${srcdir:-.}
top=$(pwd)
# A test may be run by hand from the build folder as well as by make check.
LODE=${LODE:-$top/lode}
LODE_RUN=${LODE_RUN:-$top/lode-run}
MKCKPT=${MKCKPT:-$top/tests/gen/mkckpt}
MUTATE=${MUTATE:-$top/tests/gen/mutate}
case $srcdir in /*) ;; *) srcdir=$top/$srcdir ;; esac
models=$srcdir/tests/models
fixtures=$srcdir/tests/fixtures
# Sanitizer reports get a status of their own, so that a crash can never pass
# for an expected failure.
ASAN_OPTIONS=exitcode=99:detect_leaks=1
UBSAN_OPTIONS=halt_on_error=1:exitcode=99
TSAN_OPTIONS=exitcode=99
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

tmp=$(mktemp -d "${TMPDIR:-/tmp}/lode-test.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
out=$tmp/.out
err=$tmp/.err
count=0
failed=0

ok() { # STATUS NAME
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        failed=$((failed + 1))
        echo "not ok $count - $2"
        [ -s "$out" ] && sed 's/^/# out: /' "$out" | head -n 20
        [ -s "$err" ] && sed 's/^/# err: /' "$err" | head -n 20
    fi
    return 0
}

run() { # STATUS CMD...
    want=$1
    shift
    "$@" >"$out" 2>"$err" </dev/null
    got=$?
    short=$(echo "$*" | sed "s#$tmp/##g; s#$top/##g; s#$srcdir/##g")
    if [ "$got" -eq "$want" ]; then
        ok 0 "status $want: $short"
    else
        ok 1 "status $want (was $got): $short"
    fi
}

like() { # FILE TEXT NAME
    grep -qF -- "$2" "$1"
    ok $? "$3"
}

unlike() { # FILE TEXT NAME
    if grep -qF -- "$2" "$1"; then ok 1 "$3"; else ok 0 "$3"; fi
}

check() { # NAME CMD...
    name=$1
    shift
    "$@" >"$out" 2>"$err"
    ok $? "$name"
}

refute() { # NAME CMD...
    name=$1
    shift
    "$@" >"$out" 2>"$err"
    got=$?
    if [ "$got" -ne 0 ] && [ "$got" -lt 99 ]; then
        ok 0 "$name"
    else
        ok 1 "$name (status $got)"
    fi
}

number() { # KEY FILE: the first whole number with this key in a JSON text
    sed -n "s/.*\"$1\": *\\([0-9][0-9]*\\).*/\\1/p" "$2" | head -n 1
}

skip() { # NAME REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

done_testing() {
    echo "1..$count"
    [ "$failed" -eq 0 ]
    exit
}
