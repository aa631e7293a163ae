#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A folder is a layer: every include points along an allowed arrow, and into
# another folder only through its doors (docs/architecture.md).
. "${srcdir:-.}/tests/cli/lib.sh"
cd "$srcdir" || exit 99

# Headers of one folder that another may include.
format_doors="lode.h lode_write.h pack.h encoding.h role.h limits.h"
runtime_doors="format/lode.h format/pack.h format/encoding.h format/role.h"
programs='main|cmd|cmd_[a-z]*'
program_doors="engine.h model.h tokenizer.h template.h sampler.h budget.h cmd.h"

allowed() { # FILE INCLUDED
    from=${1%%/*}
    to=${2%%/*}
    header=${2#*/}
    case $2 in config.h) return 0 ;; esac
    [ "$to" = base ] && return 0
    case $from in
    base | format) [ "$to" = "$from" ] ;;
    convert)
        [ "$to" = convert ] && return 0
        [ "$to" = format ] && echo " $format_doors " | grep -q " $header "
        ;;
    runtime)
        if [ "$to" = runtime ]; then
            echo "${1##*/}" | grep -Eq "^($programs)\\.[ch]$" || return 0
            echo " $program_doors " | grep -q " $header "
        else
            echo " $runtime_doors " | grep -q " $2 "
        fi
        ;;
    *) false ;;
    esac
}

bad=$tmp/bad
: >"$bad"
find base format convert runtime -name '*.[ch]' | sort | while read -r file; do
    sed -n 's/^#include "\(.*\)".*/\1/p' "$file" | while read -r included; do
        allowed "$file" "$included" || echo "$file includes $included" >>"$bad"
    done
done
cp "$bad" "$err"
check "there are sources to look at" test -f format/reader.c
[ ! -s "$bad" ]
ok $? "every include points along an arrow, through a door"

# A system header in more files than these is a second owner of its subject.
only() { # HEADER FILE...
    header=$1
    shift
    echo "$*" | tr ' ' '\n' | sort >"$tmp/want"
    grep -rlE "^ *# *include <$header>" base format convert runtime |
        sort >"$tmp/got"
    comm -13 "$tmp/want" "$tmp/got" >"$err"
    [ ! -s "$err" ]
    ok $? "<$header> only in $*"
}
only xxhash.h format/hash.c
only zstd.h format/pack.c format/unpack.c
only openssl/evp.h format/digest.c
only pcre2.h runtime/tok_split.c runtime/tok.h runtime/tok_load.c
only pthread.h runtime/team.c runtime/fetch.c convert/flow.c \
    convert/source_hash.c
only immintrin.h runtime/kernels_avx2.c runtime/kernels_avx512.c

# No environment, no exit and no printing outside the programs' own files.
for word in 'getenv' 'exit' 'printf' 'puts'; do
    grep -rnE "(^|[^a-z_\"])$word *\\(" base format convert runtime |
        grep -vE '^(base/cli|base/json|[a-z]*/main|[a-z]*/cmd[a-z_]*|convert/summary)\.c' >"$err"
    [ ! -s "$err" ]
    ok $? "$word() only in main.c, cmd*.c and cli.c"
done
done_testing
