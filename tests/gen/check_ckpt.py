# SPDX-License-Identifier: Apache-2.0
"""Read a checkpoint by the published layout alone:
check_ckpt.py DIR [DIR [TENSOR]...].

One folder: its index lists exactly the tensors of the headers, where they are,
and their bytes; tensors fill each shard without gap; floats are finite.  Two
folders: also, that both hold the same tensors, or that those named are the
same in both."""
import json
import os
import struct
import sys

WIDTH = {"F32": 4, "BF16": 2, "U8": 1, "F16": 2, "I32": 4, "F8_E8M0": 1}


def finite(kind, data):
    """No exponent of ones, by the highest 16 bits of each number."""
    if kind not in ("F32", "BF16"):
        return True
    halves = struct.unpack("<%dH" % (len(data) // 2), data)
    if kind == "F32":
        halves = halves[1::2]
    return all(h & 0x7F80 != 0x7F80 for h in halves)


def shard(path):
    with open(path, "rb") as f:
        (header_bytes,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(header_bytes))
        body = f.read()
    header.pop("__metadata__", None)
    end = 0
    tensors = {}
    for name, t in sorted(header.items(), key=lambda i: i[1]["data_offsets"]):
        first, last = t["data_offsets"]
        count = WIDTH[t["dtype"]]
        for n in t["shape"]:
            count *= n
        assert first == end and last - first == count, name
        end = last
        data = body[first:last]
        assert finite(t["dtype"], data), name
        tensors[name] = (t["dtype"], t["shape"], data)
    assert end == len(body), path
    return tensors


def checkpoint(folder):
    with open(os.path.join(folder, "model.safetensors.index.json")) as f:
        index = json.load(f)
    files = sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))
    assert files == sorted(set(index["weight_map"].values())), files
    tensors = {}
    for name in files:
        here = shard(os.path.join(folder, name))
        listed = {k for k, v in index["weight_map"].items() if v == name}
        assert listed == set(here), name
        tensors.update(here)
    total = sum(len(t[2]) for t in tensors.values())
    assert total == index["metadata"]["total_size"], total
    return tensors


first = checkpoint(sys.argv[1])
assert first
if len(sys.argv) > 2:
    second = checkpoint(sys.argv[2])
    names = sys.argv[3:] or sorted(first.keys() | second.keys())
    if any(first.get(n) != second.get(n) for n in names):
        sys.exit("the tensors differ")
    if any(n not in first for n in names):
        sys.exit("no such tensor")
