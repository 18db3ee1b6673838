#!/usr/bin/env python3
"""Gives back a volume from an archive repository in a folder. Written from docs/archive-format.md alone.

usage: reader.py FOLDER ARCHIVE STORE ROLE [--unread] --identity FILE | --passphrase FILE > volume

--unread writes instead the share of the archive that no verification has read.

It needs the package cryptography. Zstandard is compression.zstd of Python 3.14, or the command zstd.
"""
import argparse
import base64
import hashlib
import hmac
import itertools
import json
import pathlib
import struct
import subprocess
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

BLOCK = 512 << 10
SEGMENT = 65536
ABSENT, ZERO, FREE, SAVED = range(4)


class Damaged(Exception):
    """An object is not what was written."""


def check(condition, what):
    if not condition:
        raise Damaged(what)


# Primitives


def mac(key, *parts):
    return hmac.digest(key, b"".join(parts), "sha256")


def hkdf(secret, salt, info, length=32):
    key, out = mac(salt or bytes(32), secret), b""
    block = b""
    for i in range(1, (length + 31) // 32 + 1):
        block = mac(key, block, info, bytes([i]))
        out += block
    return out[:length]


def gcm(key, offset, data, aad, what):
    try:
        return AESGCM(key).decrypt(offset.to_bytes(12, "big"), bytes(data), aad)
    except InvalidTag:
        raise Damaged(f"{what} is not what was written") from None


def unzstd(data, most):
    try:
        from compression import zstd
        out = zstd.decompress(data)
    except ImportError:
        done = subprocess.run(["zstd", "-dcq"], input=data, capture_output=True)
        check(done.returncode == 0, "zstd: " + done.stderr.decode().strip())
        out = done.stdout
    check(len(out) <= most, f"{len(out)} bytes, at most {most} are allowed")
    return out


def uvarint(data, at):
    value = shift = 0
    while True:
        check(at < len(data) and shift < 64, "a varint is cut off")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def uns2(data, size):
    """Snappy's block format, and copies that repeat the last offset: those with one byte of offset that is 0."""
    length, at = uvarint(data, 0)
    check(length == size, f"a block of {length} bytes, not {size}")
    out, offset = bytearray(), 0

    def number(count):
        nonlocal at
        at += count
        check(at <= len(data), "an S2 block is cut off")
        return int.from_bytes(data[at - count:at], "little")

    while at < len(data):
        tag = number(1)
        kind, high = tag & 3, tag >> 2
        if kind == 0:
            count = 1 + (high if high < 60 else number(high - 59))
            check(at + count <= len(data), "an S2 block is cut off")
            out += data[at:at + count]
            at += count
            continue
        if kind == 1:
            near, count = (tag & 0xE0) << 3 | number(1), high & 7
            if near:
                offset = near
            elif count >= 5:
                count = number(count - 4) + (4, 256, 65536)[count - 5]
            count += 4
        else:
            offset, count = number(2 if kind == 2 else 4), 1 + high
        check(0 < offset <= len(out) and len(out) + count <= size, "an S2 block repeats what is not there")
        if offset >= count:
            start = len(out) - offset
            out += out[start:start + count]
        else:
            part = bytes(out[-offset:])
            out += (part * (count // offset + 1))[:count]
    check(len(out) == size, f"a block of {len(out)} bytes, not {size}")
    return bytes(out)


# age


def bech32(text):
    """The bytes in an AGE-SECRET-KEY-1…, whose checksum is not checked: a wrong key opens nothing."""
    digits = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
    data = text.strip().lower().rpartition("1")[2][:-6]
    bits = "".join(f"{digits.index(c):05b}" for c in data)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits) - 7, 8))


def unpad64(text):
    return base64.b64decode(text + b"=" * (-len(text) % 4))


def unage(file, identity, passphrase):
    """The content of an age file of at most 64 KiB, or None if it is not for this key."""
    header, _, rest = file.partition(b"\n---")
    header_mac, _, body = rest.partition(b"\n")
    lines = header.split(b"\n")
    check(lines[0] == b"age-encryption.org/v1", "a key slot is no age file")
    at = 1
    while at < len(lines):
        kind, *args = lines[at][3:].split(b" ")
        at, wrapped = at + 1, b""
        while at < len(lines) and not lines[at].startswith(b"-> "):
            wrapped, at = wrapped + lines[at], at + 1
        wrap_key = None
        if kind == b"X25519" and identity:
            private, share = X25519PrivateKey.from_private_bytes(identity), unpad64(args[0])
            public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            shared = private.exchange(X25519PublicKey.from_public_bytes(share))
            wrap_key = hkdf(shared, share + public, b"age-encryption.org/v1/X25519")
        elif kind == b"scrypt" and passphrase:
            check(int(args[1]) <= 18, "a key slot asks for too much work")
            wrap_key = hashlib.scrypt(passphrase, salt=b"age-encryption.org/v1/scrypt" + unpad64(args[0]),
                                      n=1 << int(args[1]), r=8, p=1, maxmem=1 << 29, dklen=32)
        if wrap_key is None:
            continue
        try:
            file_key = ChaCha20Poly1305(wrap_key).decrypt(bytes(12), unpad64(wrapped), None)
        except InvalidTag:
            continue
        is_mac = mac(hkdf(file_key, b"", b"header"), header + b"\n---")
        check(hmac.compare_digest(is_mac, unpad64(header_mac.strip())), "the header of a key slot was changed")
        payload_key = hkdf(file_key, body[:16], b"payload")
        try:  # one chunk, which is the last: counter 0 and the flag 1
            return ChaCha20Poly1305(payload_key).decrypt(bytes(11) + b"\1", body[16:], None)
        except InvalidTag:
            raise Damaged("the content of a key slot was changed") from None
    return None


# The repository


class Repository:
    def __init__(self, folder, identity=None, passphrase=None):
        self.folder = pathlib.Path(folder)
        text = self.read("repo.json")
        about = json.loads(text)
        check(about["format"] == "tisnap-archive" and about["version"] == 1, "repo.json is of an unknown format")
        check(not about.get("requires"), f"repo.json requires {about.get('requires')}")
        self.id = bytes.fromhex(about["id"])
        newest = None
        for slot in about["slots"]:
            if slot["type"] in ("age", "passphrase") and newest is None:
                newest = unage(base64.b64decode(slot["data"]), identity, passphrase)
        if newest is None:
            raise SystemExit("no key slot is for this key")
        self.masters = {about["generation"]: newest}
        if about["generation"]:
            older = base64.b64decode(about["older"])
            salt = older[:32]
            plain = gcm(self.derive(about["generation"], "older keys", salt), 32, older[32:], None, "older")
            for i in range(about["generation"]):
                self.masters[i] = plain[32 * i:32 * i + 32]
        own = hkdf(self.masters[0], b"", b"tisnap archive 1\0repository id\0", 16)
        check(own == self.id, f"the key is that of repository {own.hex()}")
        signed, _, end = text.rpartition(b',\n  "mac": "')
        want = mac(self.derive(about["generation"], "repository mac"), signed).hex() + '"\n}\n'
        check(hmac.compare_digest(want.encode(), end), "repo.json was changed by someone without a key")
        self.packs = {}

    def read(self, path):
        return (self.folder / path).read_bytes()

    def derive(self, generation, label, context=b""):
        check(generation in self.masters, f"key generation {generation} is unknown")
        info = b"tisnap archive 1\0" + label.encode() + b"\0" + context
        return hkdf(self.masters[generation], self.id, info)

    def header(self, kind, data, path):
        magic, version, repository, generation, zero = struct.unpack_from(">7sB16sII", data)
        check(magic == b"tisnap" + kind and version == 1 and zero == 0, f"{path} has no header")
        check(repository == self.id, f"{path} belongs to repository {repository.hex()}")
        return generation

    def sealed(self, kind, path, label, context, most):
        data = self.read(path)
        generation = self.header(kind, data, path)
        key = self.derive(generation, label, context + data[32:64])
        return generation, unzstd(gcm(key, 64, data[64:], data[:64] + path.encode(), path), most)

    def archive(self, name):
        path = "archives/" + name
        _, text = self.sealed(b"A", path, "archive", path.encode(), 64 << 20)
        return json.loads(text)

    def unread(self, name, archive):
        if not (self.folder / "verified").exists():
            return 1.0
        _, text = self.sealed(b"W", "verified", "unit", b"verified", 64 << 20)
        record = json.loads(text).get(name, {})
        names = (s for store in archive.get("stores", []) for v in store.get("volumes", []) for s in v.get("segments", []))
        maps = hashlib.sha256(b"".join(bytes.fromhex(s) for s in names)).hexdigest()
        return record["unread"] if record.get("maps") == maps else 1.0

    def segment(self, name):
        """(state, pack, offset, length, raw length, codec, digest) of each block."""
        generation, data = self.sealed(b"S", "segs/" + name, "segment", bytes.fromhex(name), 8 << 20)
        check(mac(self.derive(generation, "segment name"), data).hex() == name, f"segs/{name} has another content")
        at = 0

        def number():
            nonlocal at
            value, at = uvarint(data, at)
            return value

        def signed():
            value = number()
            return value >> 1 ^ -(value & 1)

        def take(count):
            nonlocal at
            at += count
            check(at <= len(data), f"segs/{name} ends early")
            return data[at - count:at]

        blocks, states = number(), []
        while len(states) < blocks:
            run = number()
            check(0 < run >> 2 <= blocks - len(states), f"segs/{name} has a run that is too long")
            states += [run & 3] * (run >> 2)
        count = states.count(SAVED)
        table = [(take(16), number()) for _ in range(number())]
        pack, packs = 0, []
        for _ in range(count):
            pack += signed()
            check(0 <= pack < len(table), f"segs/{name} has no pack {pack}")
            packs.append(pack)
        offsets = [signed() for _ in range(count)]
        lengths = [number() for _ in range(count)]
        raws = [BLOCK - number() for _ in range(count)]
        codecs = take(count)
        digests = [take(32) for _ in range(count)]
        check(len(data) - at in (0, 16), f"segs/{name} has {len(data) - at} bytes too many")  # 16 are salt
        ends, places = [48] * len(table), []
        for pack, offset, length, raw, codec, digest in zip(packs, offsets, lengths, raws, codecs, digests):
            start = ends[pack] + offset
            ends[pack] = start + length
            places.append((SAVED, table[pack], start, length, raw, codec, digest))
        saved = iter(places)
        return [next(saved) if state == SAVED else (state,) for state in states]

    def block(self, pack, offset, length, raw, codec, digest):
        name, generation = pack
        path = f"packs/{name.hex()[:2]}/{name.hex()}"
        if pack not in self.packs:
            self.packs[pack] = self.derive(generation, "pack", name), self.derive(generation, "block id")
        key, id_key = self.packs[pack]
        with open(self.folder / path, "rb") as f:
            f.seek(offset)
            sealed = f.read(length)
        aad = mac(id_key, digest) + struct.pack(">IB", raw, codec)
        packed = gcm(key, offset, sealed, aad, f"the block at {offset} of {path}")
        check(codec in (0, 1, 2), f"codec {codec} is unknown")
        out = (lambda: packed, lambda: uns2(packed, raw), lambda: unzstd(packed, BLOCK))[codec]()
        check(len(out) == raw and hashlib.sha256(out).digest() == digest, f"the block at {offset} of {path} is another")
        return out

    def trailer(self, path):
        """(digest, length, raw length, codec, volume, index) of each block of a pack, from the pack alone."""
        data = self.read(path)
        generation, name = self.header(b"P", data, path), data[32:48]
        length, magic = struct.unpack(">I8s", data[-12:])
        check(magic == b"tisnapE\1" and name.hex() == path[-32:], f"{path} is no pack of this name")
        start = len(data) - 12 - length
        plain = gcm(self.derive(generation, "pack", name), start, data[start:-12], data[:48], f"the trailer of {path}")
        begin = 2 + int.from_bytes(plain[:2], "big")
        json.loads(plain[2:begin])
        blocks = [struct.unpack(">32sIIBHI", plain[i:i + 47]) for i in range(begin, len(plain), 47)]
        check(48 + sum(b[1] for b in blocks) == start, f"the blocks of {path} do not fill it")
        return blocks

    def volume(self, about, out):
        size, index, linear = int(about["size"]), 0, hashlib.sha256()
        for name, want in itertools.zip_longest(about.get("segments", []), about.get("proofs", [])):
            proof = hashlib.sha256()
            for number, (state, *place) in enumerate(self.segment(name)):
                rest = min(BLOCK, size - index * BLOCK)
                data = self.block(*place) if state == SAVED else bytes(rest)
                check(len(data) == rest, f"block {index} has {len(data)} bytes, not {rest}")
                if state == SAVED:
                    linear.update(place[-1])
                    proof.update(struct.pack(">I", number) + place[-1])
                out.write(data)
                index += 1
            check(want in (None, proof.hexdigest()), f"the proof of segs/{name} is another")
        check(index == -(-size // BLOCK), f"the segments have {index} blocks, which are not {size} bytes")
        check(linear.hexdigest() == about["checksum"], "the checksum of the volume is another")


def main():
    flags = argparse.ArgumentParser(usage=__doc__)
    for name in ("folder", "archive", "store", "role"):
        flags.add_argument(name)
    flags.add_argument("--unread", action="store_true")
    flags.add_argument("--identity", type=pathlib.Path)
    flags.add_argument("--passphrase", type=pathlib.Path)
    args = flags.parse_args()
    identity = bech32(args.identity.read_text()) if args.identity else None
    passphrase = args.passphrase.read_bytes().rstrip(b"\n") if args.passphrase else None
    try:
        repository = Repository(args.folder, identity, passphrase)
        for path in sorted(repository.folder.glob("packs/??/*")):
            repository.trailer(path.relative_to(repository.folder).as_posix())
        archive = repository.archive(args.archive)
        if args.unread:
            return print(repository.unread(args.archive, archive))
        for store in archive.get("stores", []):
            for volume in store.get("volumes", []):
                if (store["id"], volume["role"]) == (args.store, args.role):
                    return repository.volume(volume, sys.stdout.buffer)
    except Damaged as e:
        raise SystemExit(f"damaged: {e}") from None
    raise SystemExit("there is no such volume")


if __name__ == "__main__":
    main()
