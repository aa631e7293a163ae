#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual pages name every command and every long option that --help lists,
# and no others.
. "${srcdir:-.}/tests/cli/lib.sh"

compare() { # PROGRAM PAGE COMMAND...
    program=$1
    page=$srcdir/docs/man/$2
    shift 2
    : >"$tmp/page"
    check "${page##*/} is there" test -s "$page"
    for command in "$@"; do
        "$program" "$command" --help >"$tmp/help" 2>"$err"
        ok $? "$command --help"
        grep -oE '^ +(-[a-z], )?--[a-z-]+' "$tmp/help" |
            grep -oE '\-\-[a-z-]+' | grep -vx -e --help | sort -u >"$tmp/want"
        # From the command's section to the next: lines ".It Fl -name".
        awk -v name="$command" '
            /^\.S[sh] / { inside = ($2 == name) }
            inside && /^\.It Fl/ { print }' "$page" |
            grep -oE 'Fl -[a-z-]+' | sed 's/Fl /-/' | sort -u >"$tmp/got"
        diff "$tmp/want" "$tmp/got" >"$err"
        ok $? "$command: the options of --help are those of the page"
    done
}
compare "$LODE" lode.1 convert repack info verify extract repair diff statement
compare "$LODE_RUN" lode-run.1 run eval plan

if command -v mandoc >/dev/null 2>&1; then
    for page in lode.1 lode-run.1 lode.5; do
        mandoc -T lint -W warning "$srcdir/docs/man/$page" >"$err" 2>&1
        ok $? "$page passes mandoc -T lint"
    done
else
    skip "mandoc -T lint" "mandoc is not installed"
fi
done_testing
