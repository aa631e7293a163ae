#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sizes and form of the sources: 80 columns, 70 lines a function, 800 lines a
# file, no tabs, a licence line, config.h first.
. "${srcdir:-.}/tests/cli/lib.sh"
cd "$srcdir" || exit 99

sources=$tmp/sources
find base format convert runtime tests -name '*.[ch]' \
    ! -path 'tests/fixtures/*' | sort >"$sources"
check "there are sources" test "$(wc -l <"$sources")" -gt 50

each() { # NAME AWK-PROGRAM: what it prints is a fault
    xargs awk "$2" <"$sources" >"$err"
    [ ! -s "$err" ]
    ok $? "$1"
}
each "at most 80 columns" 'length($0) > 80 { print FILENAME ":" FNR }'
each "no tabs, no blanks at line ends" '/\t| $/ { print FILENAME ":" FNR }'
each "at most 800 lines a file" 'FNR == 801 { print FILENAME }'
each "a licence in the first line" \
    'FNR == 1 && !/SPDX-License-Identifier: Apache-2.0/ { print FILENAME }'
# A function begins with its name at the start of a line and ends with "}".
each "at most 70 lines a function" '
    FNR == 1 { start = 0 }
    /^{/ { start = FNR }
    /^}/ { if (start && FNR - start + 1 > 70)
               print FILENAME ":" start ": " FNR - start + 1 " lines"
           start = 0 }'
each "no words that put work off" \
    '/(^|[^A-Za-z])(TODO|FIXME)/ { print FILENAME ":" FNR }'
grep '\.c$' "$sources" | while read -r f; do
    sed -n '/^#include/{p;q;}' "$f" | grep -q '"config.h"' || echo "$f"
done >"$err"
[ ! -s "$err" ]
ok $? "config.h comes first"
# Folders of builds, make distcheck's among them, are no part of the tree.
find . -size +800k -type f ! -path './.git/*' ! -path './build*' \
    ! -path './_build/*' ! -path './_inst/*' \
    ! -path './tests/models/*' ! -path './tests/fixtures/*' >"$err"
[ ! -s "$err" ]
ok $? "no large files outside models and fixtures"

if command -v shellcheck >/dev/null 2>&1; then
    # SC1090 and others: variables and functions come from lib.sh.
    shellcheck -s sh -S warning -e SC1090,SC1091,SC2034,SC2154 tools/* \
        tests/*/*.sh >"$err" 2>&1
    ok $? "shellcheck has nothing to say"
else
    skip "shellcheck" "not installed"
fi
done_testing
