#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A short tests/fault/torture.sh: six kills of each command that writes
# containers.
. "${srcdir:-.}/tests/cli/lib.sh"

"$MKCKPT" -o "$tmp/checkpoint" --preset medium --layers 4 --experts 12 \
    --vocab 1024 --inter 1024 >/dev/null || exit 99
# Its lines and plan are this test's.
sh "$srcdir/tests/fault/torture.sh" -s 1 -c "$tmp/checkpoint" 6 "$tmp"
