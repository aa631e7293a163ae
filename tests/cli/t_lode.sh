#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program lode itself: help, mistakes, and the way to lode-run.

. "${srcdir:-.}/tests/cli/lib.sh"

run 2 "$LODE"
like "$err" "Usage: lode COMMAND" "no command: usage on stderr"
run 0 "$LODE" --help
for command in convert info verify extract run eval plan; do
    like "$out" "  $command " "--help: $command"
done
like "$out" "Exit status: 0 done, 1 failed, 2 wrong usage, 3" "--help: exit statuses"
run 0 "$LODE" --version
like "$out" "lode 0." "--version"
run 2 "$LODE" convret
like "$err" 'did you mean "convert"?' "a typing error"
run 2 "$LODE" frobnicate
like "$err" "see lode --help" "no command at all"
for command in convert info verify extract; do
    run 0 "$LODE" $command --help
    like "$out" "Usage: lode $command" "$command --help"
    run 2 "$LODE" $command --bad-option
    like "$err" "unknown option --bad-option" "$command: unknown option"
    run 2 "$LODE" $command
    like "$err" "found 0 arguments" "$command: no arguments"
done

# A full output is a failure.
if [ -w /dev/full ]; then
    for what in --help --version "convert --help"; do
        # shellcheck disable=SC2086
        "$LODE" $what >/dev/full 2>"$err"
        [ $? -eq 1 ]
        ok $? "$what on a full drive"
        like "$err" "standard output cannot be written to" "$what: says so"
    done
else
    skip "full output" "no /dev/full"
fi

# Beside the program lies lode-run, or it is missed by name.
mkdir "$tmp/bin"
cp "$LODE" "$tmp/bin/lode"
run 1 "$tmp/bin/lode" run x.lode
like "$err" "run needs the program lode-run" "lode-run is missed"
printf '#!/bin/sh\necho "$@"\nexit 7\n' >"$tmp/bin/lode-run"
chmod +x "$tmp/bin/lode-run"
run 7 "$tmp/bin/lode" run x.lode -n 3 "a b"
like "$out" "run x.lode -n 3 a b" "arguments arrive"
run 7 "$tmp/bin/lode" eval x.lode
run 7 "$tmp/bin/lode" plan x.lode

done_testing
