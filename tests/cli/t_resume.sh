#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A conversion that was stopped goes on with the same command, and only with
# that (spec 11.3).
. "${srcdir:-.}/tests/cli/lib.sh"

c=$tmp/c
lode=$tmp/c.lode
"$MKCKPT" --out "$c" --preset medium --layers 4 --experts 8 --vocab 1024 \
    --inter 1024 >/dev/null || exit 99
"$LODE" convert -q "$c" "$tmp/ref.lode" || exit 99

clean() { rm -f "$lode" "$lode.wip" "$lode.wip.journal"; }

# Start a conversion and stop it once it has written a few blocks.
stop_with() { # SIGNAL [OPTION...]
    signal=$1
    shift
    "$LODE" convert -q "$@" "$c" "$lode" >"$out" 2>"$err" &
    pid=$!
    tries=0
    while [ "$(stat -c %s "$lode.wip" 2>/dev/null || echo 0)" -lt 3000000 ] &&
        kill -0 $pid 2>/dev/null && [ $tries -lt 2000 ]; do
        sleep 0.01
        tries=$((tries + 1))
    done
    kill -"$signal" $pid 2>/dev/null
    wait $pid 2>/dev/null
}

# The machine may be faster than us: then there is nothing to go on with.
begun() { [ -s "$lode.wip.journal" ]; }

same() { # NAME
    check "$1: the bytes of an undisturbed run" cmp "$tmp/ref.lode" "$lode"
    check "$1: nothing else is left" \
        test ! -e "$lode.wip" -a ! -e "$lode.wip.journal"
    clean
}

for round in 1 2 3; do
    stop_with KILL
    if begun; then
        run 0 "$LODE" convert "$c" "$lode"
        like "$out" "continuing" "kill $round: goes on"
        same "kill $round"
    else
        skip "kill $round" "it was too fast"
        clean
    fi
done
stop_with TERM
if begun; then
    like "$err" "is kept: the same command goes on" "SIGTERM: what is next"
    check "SIGTERM: nothing under the name" test ! -e "$lode"
    run 0 "$LODE" convert -q --jobs 1 "$c" "$lode"
    same "SIGTERM, with other threads"
fi

# Other options, another source: refused, and nothing is lost.
stop_with KILL
if begun; then
    for option in "--codec none" "--align 64K" "--label x" "--text-only"; do
        # shellcheck disable=SC2086 # an option and its value
        run 2 "$LODE" convert $option "$c" "$lode"
        like "$err" "with other options is there" "$option: refused"
        like "$err" "--restart" "$option: what to do"
    done
    cp "$c/generation_config.json" "$tmp/kept" 2>/dev/null
    echo '{"more": 1}' >"$c/more.json"
    run 2 "$LODE" convert "$c" "$lode"
    like "$err" "another source" "a file more: refused"
    rm "$c/more.json"
    shard=$(find "$c" -name '*.safetensors' | sort | head -n 1)
    cp -p "$shard" "$tmp/shard"
    touch "$shard"
    run 2 "$LODE" convert "$c" "$lode"
    like "$err" "was changed since its conversion was begun" \
        "a touched shard: refused"
    cp -p "$tmp/shard" "$shard"
    run 0 "$LODE" convert -q "$c" "$lode"
    same "as it was"
fi
stop_with KILL
if begun; then
    run 0 "$LODE" convert -q --restart --codec none "$c" "$lode"
    "$LODE" convert -q --codec none "$c" "$tmp/none.lode"
    check "--restart: begins anew" cmp "$tmp/none.lode" "$lode"
    clean
fi

# Damage of what was kept.
stop_with KILL
if begun; then
    printf 'x' | dd of="$lode.wip.journal" bs=1 seek=700 conv=notrunc 2>/dev/null
    run 0 "$LODE" convert -q "$c" "$lode"
    same "a damaged journal"
fi
stop_with KILL
if begun; then
    : >"$lode.wip"
    run 0 "$LODE" convert -q "$c" "$lode"
    same "lost data"
fi

# Two at once.
if command -v flock >/dev/null 2>&1; then
    : >"$lode.wip"
    flock "$lode.wip" sleep 3 &
    holder=$!
    sleep 0.3
    run 1 "$LODE" convert -q "$c" "$lode"
    like "$err" "is being written by another process" "two at once: refused"
    kill $holder 2>/dev/null
    wait $holder 2>/dev/null
    clean
else
    skip "two at once" "there is no flock"
fi

# A drive that fills up: what was written is kept and goes on.
mkdir "$tmp/small"
if mount -t tmpfs -o size=160m tmpfs "$tmp/small" 2>/dev/null; then
    small=$tmp/small/c.lode
    free_kb=$(df -k "$tmp/small" | awk 'NR == 2 { print $4 }')
    need_kb=$(($(wc -c <"$tmp/ref.lode") / 1024))
    run 0 "$LODE" convert -q --codec none --dry-run "$c" "$small"
    # Filled after the check: by a process that writes while we do.
    (
        tries=0
        while [ ! -e "$small.wip" ] && [ $tries -lt 500 ]; do
            sleep 0.005
            tries=$((tries + 1))
        done
        dd if=/dev/zero of="$tmp/small/other" bs=1024 \
            count=$((free_kb - need_kb / 2)) 2>/dev/null
    ) &
    filler=$!
    "$LODE" convert -q "$c" "$small" >"$out" 2>"$err"
    status=$?
    wait $filler 2>/dev/null
    if [ $status -ne 0 ]; then
        like "$err" "no space left on the drive" "full drive: says so"
        like "$err" "$small.wip" "full drive: and where"
        check "full drive: nothing under the name" test ! -e "$small"
        rm "$tmp/small/other"
        run 0 "$LODE" convert -q "$c" "$small"
    else
        skip "full drive" "it was too fast"
    fi
    check "full drive: the bytes of an undisturbed run" \
        cmp "$tmp/ref.lode" "$small"
    umount "$tmp/small"
else
    skip "full drive" "cannot mount a tmpfs"
fi

# C48: the limit of one file is no lack of space.
(
    trap '' XFSZ
    ulimit -f 100
    exec "$LODE" convert -q "$c" "$lode"
) >"$out" 2>"$err"
ok $((! $?)) "C48: a file size limit fails"
like "$err" "file size limit" "C48: says so"
unlike "$err" "not enough space" "C48: and not that the drive is full"
clean

# C47: an existing container stays until the new one is whole.
cp "$models/k3-demo/config.json" "$lode"
run 2 "$LODE" convert "$c" "$lode"
like "$err" "exists; --force replaces it" "C47: an existing file is refused"
stop_with KILL --force
check "C47: and is untouched while the new one is made" \
    cmp "$models/k3-demo/config.json" "$lode"
run 0 "$LODE" convert -q --force "$c" "$lode"
same "C47: --force, after a kill"

done_testing
