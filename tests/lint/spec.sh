#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/format.md and the code say the same: cited sections exist, rules are
# tested, limits and role numbers are equal.
. "$srcdir/tests/cli/lib.sh"
spec=${SPEC:-$srcdir/docs/format.md}
tree=${TREE:-$srcdir}

# Section numbers with rules: all headings but those marked informative.
sed -n 's/^##*# \([0-9][0-9]*\(\.[0-9]*\)\{0,1\}\)\.\{0,1\} .*/\1/p' "$spec" |
    sed 's/\.$//' | sort -u >"$tmp/all"
sed -n 's/^##*# \([0-9][0-9.]*\) .*/\1 &/p' "$spec" |
    grep -v '(informative)$' | sed 's/ .*//; s/\.$//' | sort -u >"$tmp/rules"

# cites FILE...: every number behind "spec", "Spec" or "format.md section",
# also in lists and ranges within one chapter ("3.1, 3.2", "8.2 to 8.4").
cites() {
    awk '
    function range(a, b,    x, y, i) {
        split(a, x, "."); split(b, y, ".")
        for (i = x[2]; i <= y[2]; i++) print x[1] "." i
    }
    { gsub(/^[ *#\/]+/, ""); text = text " " $0 }
    END {
        gsub(/format\.md section/, "spec", text)
        while (match(text, /[Ss]pec [0-9][0-9.]*(,? (and |to )?[0-9][0-9.]*)*/)) {
            list = substr(text, RSTART + 5, RLENGTH - 5)
            text = substr(text, RSTART + RLENGTH)
            gsub(/,/, " ", list)
            n = split(list, w, / +/)
            for (i = 1; i <= n; i++) {
                sub(/\.$/, "", w[i])
                if (w[i] == "to") range(w[i - 1], w[i + 1])
                else if (w[i] != "and") print w[i]
            }
        }
    }' "$@"
}

find "$tree/base" "$tree/format" "$tree/convert" "$tree/runtime" \
    -name '*.[ch]' 2>/dev/null | sort >"$tmp/code"
find "$tree/tests" \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \) \
    ! -path '*/lint/*' | sort >"$tmp/tests"

while read -r f; do cites "$f"; done <"$tmp/code" | sort -u >"$tmp/cited"
while read -r f; do cites "$f"; done <"$tmp/tests" | sort -u >"$tmp/tested"

missing() { # FILE A FILE B: lines of A that are not in B
    comm -23 "$1" "$2" >"$out"
    [ ! -s "$out" ]
}

[ "$(wc -l <"$tmp/cited")" -gt 20 ]
ok $? "citations are found"
missing "$tmp/cited" "$tmp/all"
ok $? "each section that code cites exists"
missing "$tmp/tested" "$tmp/all"
ok $? "each section that a test cites exists"
# A chapter's number alone has no rules when it has sections.
grep '\.' "$tmp/rules" | sed 's/\..*//' | sort -u >"$tmp/chapters"
comm -23 "$tmp/rules" "$tmp/chapters" >"$tmp/leaves"
missing "$tmp/leaves" "$tmp/tested"
ok $? "each section with rules is cited by a test"

# Limits: "| NAME | value |" against "#define LODE_NAME value".
sed -n 's/^| \([A-Z][A-Z0-9_]*\) | \([0-9]*\) |.*/\1 \2/p' "$spec" |
    sort >"$tmp/limits"
sed -n 's/^#define LODE_\([A-Z0-9_]*_M[AI][XN]\) \(.*\)/\1 \2/p' \
    "$tree/format/limits.h" |
    sed 's/UINT64_C(\([0-9]*\))/\1/; s/\([0-9]\)U/\1/' |
    while read -r name value; do
        eval "echo $name \$(($value))"
    done | sort >"$tmp/defined"
[ "$(wc -l <"$tmp/limits")" -gt 15 ]
ok $? "limits are found"
diff "$tmp/limits" "$tmp/defined" >"$out"
ok $? "limits.h has the limits of section 2.4"

# Roles: the table of appendix B against enum lode_role.
sed -n '/^## Appendix B/,$p' "$spec" | grep '^| [0-9]' |
    awk -F' *[|] *' '{ print $2, $3 }' |
    sort >"$tmp/roles"
sed -n 's/^ *LODE_ROLE_\([A-Z0-9_]*\) = \([0-9]*\),.*/\2 \1/p' \
    "$tree/format/role.h" | sort >"$tmp/enum"
[ "$(wc -l <"$tmp/roles")" -gt 40 ]
ok $? "roles are found"
diff "$tmp/roles" "$tmp/enum" >"$out"
ok $? "role.h has the roles of appendix B"

# Encodings: each dtype word of appendix A is in the table of encoding.c.
sed -n '/^## Appendix A/,/^## Appendix B/p' "$spec" |
    awk -F' *[|] *' '/^\| [a-z]/ && $2 != "encoding" { print $3, $2, $4 }' |
    sort >"$tmp/dtypes"
tr '\n' ' ' <"$tree/format/encoding.c" | sed 's/{"/\n{"/g' |
    sed -n 's/^{"\([A-Z0-9_]*\)", "\([a-z0-9.]*\)", \([0-9]*\)}.*/\1 \2 \3/p' |
    sort >"$tmp/table"
diff "$tmp/dtypes" "$tmp/table" >"$out"
ok $? "encoding.c has the dtypes of appendix A"
done_testing
