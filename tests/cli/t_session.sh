#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs tests/runtime/session, which prints the TAP, on a container with packed
# blocks.
. "${srcdir:-.}/tests/cli/lib.sh"
"$LODE" convert -q --codec archive "$fixtures/kimi-k3-tiny-a" "$tmp/k3.lode" || exit 99
"$top/tests/runtime/session" "$tmp/k3.lode"
