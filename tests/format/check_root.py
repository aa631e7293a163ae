#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_root.py FILE [CHECKPOINT]

Print the content root of a container, computed from docs/format.md alone.  With
the folder of the checkpoint it was made from: compare the ORIGIN files, too.

A second reader, on purpose without any code in common with the first: it
recomputes every SHA-256 of the file from the stored bytes and ends with status
1 and a message when one differs.  XXH3 is left to the first reader.  Python's
standard library only."""

import hashlib
import json
import os
import struct
import sys

LEAF = 1 << 20
RAW = 0
INDEX_ONLY = 1 << 2
ZERO = bytes(32)


def fail(text):
    sys.exit("check_root: " + text)


def want(found, expected, what):
    if found != expected:
        fail("%s: %r, expected %r" % (what, found, expected))


def sha(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(p)
    return h.digest()


def tree(digests):
    """Spec 8.2: over digests that stand for leaves."""
    n = len(digests)
    if n == 0:
        return sha()
    if n == 1:
        return digests[0]
    left = 1
    while left * 2 < n:
        left *= 2
    return sha(b"\1", tree(digests[:left]), tree(digests[left:]))


def tree_of(data):
    return tree([sha(b"\0", data[i:i + LEAF])
                 for i in range(0, len(data), LEAF)])


class Container:
    def __init__(self, f):
        self.f = f
        head = self.read(0, 131072)
        self.sb = head[:4096]
        want(self.sb[:8], b"\x8fLOD\r\n\x1a\n", "magic")        # 3.1
        want(self.sb, head[65536:69632], "slot B")
        want(struct.unpack_from("<H", self.sb, 8)[0], 1, "major")
        self.incompat, = struct.unpack_from("<Q", self.sb, 16)
        if self.incompat & ~INDEX_ONLY:
            fail("incompat 0x%x" % self.incompat)
        self.align = 1 << self.sb[84]
        want(self.sb[85], 1, "digest algorithm")
        want(self.sb[87], 1, "state")
        self.file_bytes, = struct.unpack_from("<Q", self.sb, 96)
        f.seek(0, 2)
        want(f.tell(), self.file_bytes, "file size")
        self.read_sections()
        self.read_strings()

    def read(self, offset, size):
        self.f.seek(offset)
        data = self.f.read(size)
        want(len(data), size, "bytes at %d" % offset)
        return data

    def read_sections(self):
        """Spec 3.2, 8.7, 8.8."""
        count, = struct.unpack_from("<I", self.sb, 88)
        directory = self.sb[512:512 + 80 * count]
        self.sections = {}
        for i in range(count):
            kind, _, offset, size, n, entry, _ = struct.unpack_from(
                "<IIQQIIQ", directory, 80 * i)
            data = self.read(offset, size)
            want(size, n * entry, "bytes of section %d" % kind)
            want(sha(data), directory[80 * i + 40:80 * i + 72],
                 "SHA-256 of section %d" % kind)
            self.sections[kind] = [data[k * entry:(k + 1) * entry]
                                   for k in range(n)] if kind != 5 else data
        index_digest = sha(directory)
        want(index_digest, self.sb[192:224], "index digest")
        set_uuid = uuid(sha(b"lode set", self.sb[160:192]))
        want(set_uuid, self.sb[48:64], "set UUID")
        want(uuid(sha(b"lode vol", set_uuid, self.sb[80:82], index_digest)),
             self.sb[64:80], "volume UUID")

    def read_strings(self):
        """Spec 4.2."""
        s = self.sections[5]
        want(s[:1] + s[-1:], b"\0\0", "ends of STRINGS")
        s.decode("utf-8")

    def text(self, ref):
        s = self.sections[5]
        if ref != 0:
            want(s[ref - 1], 0, "byte in front of a text")
        return s[ref:s.index(b"\0", ref)]

    def schema_digest(self, number):
        """Spec 6.1, 6.2, 8.5."""
        first, count = struct.unpack_from("<II", self.sections[3][number])
        h = hashlib.sha256()
        for t in self.sections[4][first:first + count]:
            name, encoding, dtype, role, ndim, _, offset, size, flags, group \
                = struct.unpack_from("<IIIHBBQQII", t)
            for ref in (name, encoding, dtype):
                h.update(self.text(ref) + b"\0")
            h.update(struct.pack("<6Q", role, ndim, offset, size, flags, group))
            h.update(t[40:88])
        return h.digest()

    def block(self, number, expected):
        """Spec 7.1, 8.3: the content digest, checked; None when absent."""
        r = self.sections[6][number]
        offset, _, stored, raw, n, _, group, obj, part, volume, codec, filt, \
            _, flags = struct.unpack_from("<QQIIIIIIHHBBBB", r)
        want((n, group, obj, part, volume, raw), expected, "block record")
        content = self.sections[8][number]
        if not flags & 1:
            want(bool(self.incompat & INDEX_ONLY), True, "index only")
            want(content, ZERO, "digest of an absent block")
            return None
        want(offset % self.align, 0, "alignment of a block")
        want((codec, filt, stored), (RAW, 0, raw), "codec, filter and size")
        data = self.read(offset, stored)
        want(tree_of(data), content, "content digest of block %d" % number)
        padding = -stored % self.align
        want(self.read(offset + stored, padding), bytes(padding), "padding")
        return content

    def group(self, number, first_block):
        """Spec 5.1, 5.3, 8.4: the group's record for hashing (None when
        volatile), the number of its blocks, and whether all are here."""
        g = self.sections[2][number]
        kind, layer, objects, per_object, first, schema, name, _, size, \
            block = struct.unpack_from("<IiIIIIIIQI", g)
        want(first, first_block, "first block of group %d" % number)
        want(per_object, (size + block - 1) // block if size else 0,
             "blocks per object")
        records = []
        complete = True
        for o in range(objects):
            digests = []
            for part in range(per_object):
                n = first + o * per_object + part
                raw = min(block, size - part * block)
                digests.append(self.block(n, (n, number, o, part, 0, raw)))
            if None in digests:
                complete = False
                continue
            records.append(sha(b"\0", b"LDO1", struct.pack(
                "<IiIQQ", kind, layer, o, size, 0), tree(digests)))
        want(self.schema_digest(schema), g[96:128], "schema digest")
        want(tree(records) if complete else ZERO, g[64:96],
             "root of group %d" % number)
        record = b"LDG1" + struct.pack("<IiIQQ", kind, layer, objects, size,
                                       0) + g[96:128] + g[64:96]
        return (record + self.text(name) if kind < 0x8000 else None,
                objects * per_object, complete)

    def root(self):
        """Spec 8.6."""
        leaves = []
        block = 0
        complete = True
        for i in range(len(self.sections[2])):
            record, count, here = self.group(i, block)
            block += count
            complete = complete and here
            if record is not None:
                leaves.append(sha(b"\0", record))
        want(len(self.sections[6]), block, "block records")
        found = sha(b"lode content root v1\0", struct.pack("<I", len(leaves)),
                    tree(leaves)) if complete else ZERO
        want(found, self.sb[160:192], "content root")
        return found


    def file(self, kind, wanted):
        """Spec 9: the content of a META or ORIGIN file."""
        for g in self.sections[2]:
            k, _, _, per_object, first, _, name = struct.unpack_from(
                "<IiIIIII", g)
            if k != kind or self.text(name) != wanted:
                continue
            parts = []
            for n in range(first, first + per_object):
                offset, _, stored = struct.unpack_from("<QQI",
                                                       self.sections[6][n])
                parts.append(self.read(offset, stored))
            return b"".join(parts)
        fail("no file %r" % wanted)


def check_headers(data, folder):
    """Spec 9.3: names, sizes and digests of the shards; returns them."""
    shards = []
    at = 0
    while at < len(data):
        n, = struct.unpack_from("<H", data, at)
        name = data[at + 2:at + 2 + n].decode()
        at += 2 + n
        size, digest, m = struct.unpack_from("<Q32sQ", data, at)
        at += 48
        header = data[at:at + m]
        at += m
        with open(os.path.join(folder, name), "rb") as f:
            shard = f.read()
        want(size, len(shard), "size of " + name)
        want(digest, sha(shard), "SHA-256 of " + name)
        want(m, struct.unpack_from("<Q", shard)[0], "header of " + name)
        want(header, shard[8:8 + m], "header of " + name)
        shards.append(name)
    want(at, len(data), "end of source-headers")
    want(shards, sorted(shards), "order of shards")
    want(shards, sorted(n for n in os.listdir(folder)
                        if n.endswith(".safetensors")), "shards")


def check_provenance(data, folder):
    """Spec 9.4."""
    p = json.loads(data)
    want(data, json.dumps(p, sort_keys=True, separators=(",", ":"),
                          ensure_ascii=False).encode(), "form of provenance")
    want(p["format"], "lode-provenance-1", "format of provenance")
    want((p["lossless"], p["parent"]), (True, None), "lossless, parent")
    want((p["recipe"]["experts"], p["recipe"]["trunk"]),
         ("verbatim", "verbatim"), "recipe")
    for entry in p["source"]["files"]:
        with open(os.path.join(folder, entry["path"]), "rb") as f:
            content = f.read()
        want((entry["bytes"], entry["sha256"]),
             (len(content), sha(content).hex()), entry["path"])
    want(any(e["path"].endswith(".safetensors") for e in p["source"]["files"]),
         True, "shards in provenance")


def uuid(digest):
    u = bytearray(digest[:16])
    u[6] = u[6] & 0x0f | 0x80
    u[8] = u[8] & 0x3f | 0x80
    return bytes(u)


def main():
    if len(sys.argv) not in (2, 3):
        fail("usage: check_root.py FILE [CHECKPOINT]")
    with open(sys.argv[1], "rb") as f:
        c = Container(f)
        print(c.root().hex())
        if len(sys.argv) == 3:
            check_headers(c.file(7, b"source-headers"), sys.argv[2])
            check_provenance(c.file(7, b"provenance.json"), sys.argv[2])
            want(c.file(6, b"config.json"), open(
                os.path.join(sys.argv[2], "config.json"), "rb").read(),
                "config.json")


main()
