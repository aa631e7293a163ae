#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make configure from configure.ac.  Needs autoconf, automake and pkg-config.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux
autoreconf --install --force
