# SPDX-License-Identifier: Apache-2.0
# For tests of conversion: . it after lib.sh.  $tmp/k3 and $tmp/linear are small
# checkpoints; fresh NAME copies one to $c, and convert writes $tmp/c.lode.

c=$tmp/c
lode=$tmp/c.lode
"$MKCKPT" --out "$tmp/k3" --preset tiny --layers 4 --experts 6 --vocab 512 \
    >/dev/null || exit 99
"$MKCKPT" --out "$tmp/linear" --family kimi_linear --preset tiny --layers 4 \
    --experts 6 --vocab 512 --shards 3 >/dev/null || exit 99

fresh() { # NAME
    rm -rf "$c" "$tmp"/c.lode*
    cp -r "$tmp/$1" "$c" || exit 99
}

change() { # WHAT FILE ...: change a file of $c
    what=$1
    file=$2
    shift 2
    "$MUTATE" "$what" "$c/$file" "$@" || exit 99
}

# Tensors were added or left out: let the headers speak.
no_index() {
    rm "$c/model.safetensors.index.json" || exit 99
}

refused() { # STATUS NAME TEXT [OPTION...]
    want_status=$1
    case_name=$2
    text=$3
    shift 3
    rm -f "$lode"
    run "$want_status" "$LODE" convert "$@" "$c" "$lode"
    like "$err" "$text" "$case_name: says \"$text\""
    nothing
    ok $? "$case_name: leaves nothing"
}

nothing() {
    [ ! -e "$lode" ] && [ ! -e "$lode.wip" ]
}

# Convert, verify, extract, and compare every file.
round_trip() { # NAME [OPTION...]
    case_name=$1
    shift
    rm -rf "$tmp/x"
    run 0 "$LODE" convert "$@" "$c" "$lode"
    cp "$out" "$tmp/plan"
    check "$case_name: verifies" "$LODE" verify "$lode"
    check "$case_name: extracts" "$LODE" extract "$lode" "$tmp/x"
    check "$case_name: same bytes" diff -r "$c" "$tmp/x"
}
