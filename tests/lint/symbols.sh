#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every global symbol has the prefix of its layer; lode-run needs no libcrypto.
. "${srcdir:-.}/tests/cli/lib.sh"

if ! command -v nm >/dev/null 2>&1; then
    skip "symbols" "nm is not installed"
    done_testing
fi

prefix() { # ARCHIVE PREFIX
    nm -g --defined-only "$top/$1" 2>/dev/null |
        awk 'NF == 3 { print $3 }' | grep -vE "^(__|$2)" |
        grep -vE '^(asan|tsan|ubsan|sancov)' | sort -u >"$err"
    nm -g --defined-only "$top/$1" 2>/dev/null | grep -q " T $2"
    ok $? "$1 has symbols that begin with $2"
    [ ! -s "$err" ]
    ok $? "$1 has no others"
}
prefix libbase.a lode_
prefix libformat.a lode_
prefix libconvert.a cv_
for a in libengine.a libtext.a libkernels.a; do prefix $a rt_; done

if command -v ldd >/dev/null 2>&1; then
    ldd "$LODE_RUN" >"$out"
    unlike "$out" libcrypto "lode-run does not link libcrypto"
    like "$out" libpcre2 "(ldd does see its libraries)"
fi
done_testing
