#!/usr/bin/env python3
"""A second decoder of compressed vectors, written from compress/FORMAT.md and nothing else, to be read beside it.

    format_decoder.py FOLDER                                        every file of FOLDER/good.txt and FOLDER/bad.txt
    format_decoder.py FILE N SELECTION VALUES DCT CHUNK K THRESHOLD the N floats of one file

FILE.frame is a frame, FILE.planes the planes alone.  It is slow and plain.  A float is held as a Python float, which is
IEEE double precision: single() rounds one to single precision.  A product of two singles is exact in a double, so that
single(a * b) is what single precision gives.  Refusals carry the codes that compress/codec.h and frame.h promise.
"""
import collections
import ctypes
import decimal
import math
import os
import shutil
import struct
import subprocess
import sys


class Refused(Exception):
    """code is the name in base/err.h without ERR_."""

    def __init__(self, code, sentence):
        super().__init__(f"{code}: {sentence}")
        self.code = code


def need(condition, code, sentence):
    if not condition:
        raise Refused(code, sentence)


# ---- floats

def single(x):
    """x in single precision: nearest, ties to even; infinite beyond its range."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


FLOAT_MAX = from_bits(0x7f7fffff)
SCALE_MIN, SCALE_MAX = 0x100, 0xfeff  # 0x00800000 and 0x7f7f8000: the normal ones
LEVEL_MIN, LEVEL_MAX = 0x008, 0x7f7


# ---- frame

def frame_size(frame):
    """The content size that the header of the one zstd frame declares, and no byte is missing or left over."""
    def byte(at, count):
        need(at + count <= len(frame), "truncated", "the frame ends early")
        return int.from_bytes(frame[at:at + count], "little")
    need(byte(0, 4) == 0xfd2fb528, "syntax", "this is no zstd frame")
    descriptor = byte(4, 1)
    size_flag, whole, checksum, dictionary = descriptor >> 6, descriptor >> 5 & 1, descriptor >> 2 & 1, descriptor & 3
    at = 5 + (not whole)
    need(byte(at, (0, 1, 2, 4)[dictionary]) == 0, "syntax", "the frame needs a dictionary")
    at += (0, 1, 2, 4)[dictionary]
    size_bytes = (whole, 2, 4, 8)[size_flag]
    need(size_bytes, "syntax", "the frame does not say its size")
    size = byte(at, size_bytes) + (256 if size_bytes == 2 else 0)
    at += size_bytes
    last = 0
    while not last:
        block = byte(at, 3)
        last, kind = block & 1, block >> 1 & 3
        at += 3 + (1 if kind == 1 else block >> 3)
    at += 4 * checksum
    need(at <= len(frame), "truncated", "the frame ends early")
    need(at == len(frame), "syntax", "something follows the frame")
    return size


def unzstd(frame, size):
    """Python has no zstd of its own: libzstd, or the program."""
    try:
        lib = ctypes.CDLL("libzstd.so.1")
    except OSError:
        if not shutil.which("zstd"):
            raise SystemExit("neither libzstd.so.1 nor the program zstd is here")
        done = subprocess.run(["zstd", "-d", "-c"], input=frame, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        need(done.returncode == 0 and len(done.stdout) == size, "syntax", "zstd cannot read the frame")
        return done.stdout
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    lib.ZSTD_decompress.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
    out = ctypes.create_string_buffer(max(size, 1))
    need(lib.ZSTD_decompress(out, size, frame, len(frame)) == size, "syntax", "zstd cannot read the frame")
    return out.raw[:size]


# ---- planes

class Planes:
    """The bytes, taken from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need(self.at + count <= len(self.data), "truncated", "the planes end early")
        self.at += count
        return self.data[self.at - count:self.at]

    def numbers(self, count, size):
        """count numbers: the lowest bytes of all, then the next bytes of all, ..."""
        data = self.take(count * size)
        return [int.from_bytes(data[i::count], "little") for i in range(count)]

    def small(self, count, bits, per_byte):
        """count numbers of a few bits, so many in a byte, the first one lowest; what fills up is 0."""
        data, out = self.take(-(-count // per_byte)), []
        for byte in data:
            need(byte < 1 << bits * per_byte, "syntax", "a byte has a bit that means nothing")
            out += [byte >> i * bits & (1 << bits) - 1 for i in range(per_byte)]
        need(not any(out[count:]), "syntax", "what fills up the last byte is not 0")
        return out[:count]

    def codes(self, count, bits):
        if bits >= 8:
            return self.numbers(count, bits // 8)
        return self.small(count, bits, 2 if bits == 4 else 4) if bits else [None] * count


Spec = collections.namedtuple("Spec", "select values dct chunk k threshold seed")
HEADER = struct.Struct("<BBBBIIIQQ")
SELECTIONS = {"all": 1, "topk": 2, "randk": 3, "threshold": 4}


def read_header(planes, spec, n):
    """What the planes were made with; spec is what was agreed on."""
    select, version, values, dct, chunk, k, threshold, seed, size = HEADER.unpack(planes.take(HEADER.size))
    need(version == 2, "version", f"the planes have version {version}")
    need((select, values, dct) == (SELECTIONS[spec.select], VALUES[spec.values].number, spec.dct), "unsupported",
         "the planes are of other stages")
    need(seed == 0 or spec.select == "randk", "syntax", "a seed where none is used")
    agreed = struct.unpack("<I", struct.pack("<f", spec.threshold))[0]
    need((chunk, threshold, size) == (spec.chunk, agreed, n), "shape", "chunk, threshold or n is another")
    need(1 <= k <= spec.k and (k == chunk or spec.select != "all"), "shape", "k is not what was agreed on")
    return spec._replace(k=k, seed=seed)


def chunk_lengths(n, chunk):
    return [min(chunk, n - first) for first in range(0, n, chunk)]


def share(k, length, chunk):
    return -(-k * length // chunk)


def read_gaps(symbols, planes):
    """Gaps from their symbols, and their low bits, which are the next plane."""
    need(all(s < 60 for s in symbols), "syntax", "a symbol of no gap")
    exponents = [3 + (s - 8) // 4 if s >= 8 else 2 for s in symbols]
    low_bits = sum(e - 2 for e in exponents)
    low = int.from_bytes(planes.take(-(-low_bits // 8)), "little")
    need(low < 1 << low_bits, "syntax", "the last byte of the low bits is not filled up with 0")
    gaps, at = [], 0
    for s, e in zip(symbols, exponents):
        if s >= 8:
            s = (4 + (s - 8) % 4 << e - 2) + (low >> at & (1 << e - 2) - 1)
            at += e - 2
        gaps.append(s)
    return gaps


def read_places(planes, lengths, kept):
    gaps = iter(read_gaps(planes.take(sum(kept)), planes))
    for length, m in zip(lengths, kept):
        place, out = -1, []
        for _ in range(m):
            place += 1 + next(gaps)
            out.append(place)
        need(place < length, "syntax", "a place out of its chunk")
        yield out


def decode_planes(data, spec, n):
    """The n floats."""
    planes = Planes(data)
    spec = read_header(planes, spec, n)
    kind, sent = VALUES[spec.values], spec.select in ("topk", "threshold")
    lengths = chunk_lengths(n, spec.chunk)
    kept = [share(spec.k, length, spec.chunk) for length in lengths]
    if sent:
        kept = [k - missing for k, missing in zip(kept, planes.numbers(len(kept), 4))]
        need(min(kept) >= 0, "syntax", "a chunk misses more than it has")
    groups = [sum(kept)] if kind.whole else kept
    side = planes.take(len(groups) * kind.side)
    if sent:
        places = list(read_places(planes, lengths, kept))
    elif spec.select == "randk":
        places = [randk(spec.seed, c, length, m) for c, (length, m) in enumerate(zip(lengths, kept))]
    else:
        places = [range(length) for length in lengths]
    codes = planes.codes(sum(kept), kind.bits)
    signs = planes.small(sum(kept), 1, 8) if kind.signs else [None] * len(codes)
    need(planes.at == len(data), "syntax", "something is left over")
    values, at = [], 0
    for g, m in enumerate(groups):
        mine = side[g::len(groups)]
        if m:
            values += kind.decode(mine, codes[at:at + m], signs[at:at + m])
        else:
            need(not any(mine), "syntax", "a group of no values has something beside them")
        at += m
    need(all(map(math.isfinite, values)), "not_finite", "a value is not finite")
    out, values = [], iter(values)
    for length, where in zip(lengths, places):
        chunk = [0.0] * length
        for place in where:
            chunk[place] = next(values)
        out += inverse(chunk) if spec.dct and length == spec.chunk else chunk
    return out


def bound(spec, n):
    """Bytes that planes have at most."""
    kind, lengths = VALUES[spec.values], chunk_lengths(n, spec.chunk)
    count = sum(share(spec.k, length, spec.chunk) for length in lengths)
    most = 32 + kind.side * (1 if kind.whole else len(lengths))
    most += -(-count // 4) if 0 < kind.bits < 4 else -(-count * kind.bits // 8)
    most += -(-count // 8) if kind.signs else 0
    if spec.select in ("topk", "threshold"):
        x = (spec.chunk - 1).bit_length() - 3 if spec.chunk > 8 else 0
        most += 4 * len(lengths) + count + -(-count * x // 8)
    return most


def decode_frame(frame, spec, n):
    size = frame_size(frame)
    need(size <= bound(spec, n), "toobig", "the frame declares more than these parameters can need")
    return decode_planes(unzstd(frame, size), spec, n)


# ---- selection

def philox(counter, key):
    """Philox 4x32-10: four words from four words and two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xd2511f53 * c0, 0xcd9e8d57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xffffffff, p0 >> 32 ^ c3 ^ k1, p0 & 0xffffffff
        k0, k1 = k0 + 0x9e3779b9 & 0xffffffff, k1 + 0xbb67ae85 & 0xffffffff
    return c0, c1, c2, c3


def words(x):
    return x & 0xffffffff, x >> 32


def randk(seed, chunk_number, length, k):
    chosen = set()
    for j in range(length - k, length):
        out = philox(words(j) + words(chunk_number), words(seed))
        t = (out[0] + (out[1] << 32)) * (j + 1) >> 64
        chosen.add(j if t in chosen else t)
    return sorted(chosen)


# ---- DCT

def cosines():
    """The doubles nearest to sqrt(2/64) cos(pi i / 128), i from 0 to 64, by a series of 50 digits."""
    with decimal.localcontext() as context:
        context.prec = 50
        pi = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582")
        out = []
        for i in range(64):
            x, term, total = pi * i / 128, decimal.Decimal(1), decimal.Decimal(0)
            for m in range(2, 64, 2):
                total += term
                term *= -x * x / (m * (m - 1))
            out.append(float(total / decimal.Decimal(32).sqrt()))
        return out + [0.0]


COS = cosines()


def cos(u, j):
    m = (2 * j + 1) * u % 256
    m = 256 - m if m > 128 else m
    return COS[m] if m <= 64 else -COS[128 - m]


FACTOR = {(u, j): cos(u, j) for u in range(1, 64) for j in range(32)}


def inverse_64(y):
    v, h = [y[0] * 0.125], 1
    while h < 64:
        e, odd = 32 // h, []
        for j in range(h):
            o = 0.0
            for u in range(e, 64, 2 * e):
                o += FACTOR[u, j] * y[u]
            odd.append(o)
        v = [a + b for a, b in zip(v, odd)] + [a - b for a, b in zip(v, odd)][::-1]
        h *= 2
    return v


def inverse(chunk):
    """Of the matrix of 64 x 64: every column, then every row."""
    columns = [inverse_64(chunk[i::64]) for i in range(64)]
    rows = [inverse_64(row) for row in zip(*columns)]
    return [single(x) for row in rows for x in row]


# ---- values: a group's side, codes and signs to floats

def scale_of(side):
    scale = int.from_bytes(side, "little")
    need(scale <= SCALE_MAX, "not_finite", "a scale is not finite")
    need(scale == 0 or scale >= SCALE_MIN, "syntax", "a scale is not normal")
    return from_bits(scale << 15)


def used(scale, codes, zero, largest):
    """A scale of 0 has codes of zero only, another one is reached by some code."""
    if scale == 0:
        need(all(c == zero for c in codes), "syntax", "a scale of 0 with other codes than zero's")
    else:
        need(any(c in largest for c in codes), "syntax", "a scale that no value reaches")


def f32(side, codes, signs):
    need(all(c & 0x7fffffff < 0x7f800000 for c in codes), "not_finite", "a value is not finite")
    return [from_bits(c) for c in codes]


def bf16(side, codes, signs):
    return f32(side, [c << 16 for c in codes], signs)


def integers(s):
    def decode(side, codes, signs):
        scale = scale_of(side)
        need(max(codes) <= 2 * s, "syntax", "a code that no value has")
        used(scale, codes, s, (0, 2 * s))
        return [single((c - s) * scale) for c in codes]
    return decode


def int2(side, codes, signs):
    scale = scale_of(side)
    used(scale, codes, 0, (0, 3))
    return [single((-3, -1, 1, 3)[c] * scale) if scale else 0.0 for c in codes]


def means(bits):
    def decode(side, codes, signs):
        raw = struct.unpack(f"<{1 + (1 << bits)}I", side)
        need(not any(raw[1 + c] for c in set(range(1 << bits)) - set(codes)), "syntax", "a code that no value has stands for something")
        mean, *table = f32(None, raw, None)
        return [single(max(-FLOAT_MAX, min(FLOAT_MAX, mean + table[c]))) for c in codes]
    return decode


def sign(side, codes, signs):
    scale = scale_of(side)
    need(scale or not any(signs), "syntax", "a zero with a sign")
    return [-scale if s else scale for s in signs]


def two(side, codes, signs):
    lower, step = struct.unpack("<HH", side)
    upper = lower + step
    for level in lower, upper:
        need(level == 0 or LEVEL_MIN <= level <= LEVEL_MAX, "syntax", "a level is not normal")
    need(set(codes) == ({0, 1} if step else {0}), "syntax", "a level that no value has")
    floats = [from_bits(level << 20) for level in (lower, upper)]
    out = [floats[c] for c in codes]
    need(not any(s and x == 0 for s, x in zip(signs, out)), "syntax", "a zero with a sign")
    return [-x if s else x for s, x in zip(signs, out)]


def levels(table, refused):
    """Codes c of a sign and a level, table[c] times the scale; bits of table: 0 is 0, the last one is 1."""
    largest = len(table) - 1

    def decode(side, codes, signs):
        scale = scale_of(side)
        need(refused not in codes, "syntax", "a zero with a sign")
        used(scale, codes, 0, (largest, 2 * largest + 1))
        out = [single(table[c % (largest + 1)] * scale) for c in codes]
        return [-x if c > largest else x for c, x in zip(codes, out)]
    return decode


def powers_of_e(rho, largest):
    return [0.0] + [single(float((-decimal.Decimal(rho) * (largest - c)).exp())) for c in range(1, largest + 1)]


def ternary(side, codes, signs):
    scale = scale_of(side)
    need(3 not in codes, "syntax", "a code that no value has")
    used(scale, codes, 0, (1, 2))
    return [(0.0, scale, -scale)[c] for c in codes]


# bits: of a code.  signs: in a plane of their own.  side: bytes of a group.  whole: one group for the whole vector.
Values = collections.namedtuple("Values", "number bits signs side whole decode")
VALUES = {
    "f32": Values(1, 32, False, 0, False, f32),
    "bf16": Values(2, 16, False, 0, False, bf16),
    "int8": Values(3, 8, False, 2, False, integers(127)),
    "int4": Values(4, 4, False, 2, False, integers(7)),
    "int2": Values(5, 2, False, 2, False, int2),
    "mean8": Values(6, 8, False, 4 + 4 * 256, True, means(8)),
    "mean4": Values(7, 4, False, 4 + 4 * 16, True, means(4)),
    "mean2": Values(8, 2, False, 4 + 4 * 4, True, means(2)),
    "sign": Values(9, 0, True, 2, False, sign),
    "two": Values(10, 1, True, 4, False, two),
    "e3m0": Values(11, 4, False, 2, False, levels([0.0] + [2.0 ** (c - 7) for c in range(1, 8)], 8)),
    "log8": Values(12, 8, False, 2, False, levels(powers_of_e("0.125", 127), 128)),
    "log4": Values(13, 4, False, 2, False, levels(powers_of_e("0.5", 7), 8)),
    "ternary": Values(14, 2, False, 2, False, ternary),
}


# ---- files

def decode_file(path, n, spec):
    with open(path, "rb") as f:
        data = f.read()
    return (decode_frame if path.endswith(".frame") else decode_planes)(data, spec, n)


def agreed(n, select, values, dct, chunk, k, threshold):
    """What a receiver knows beforehand, from words."""
    return int(n), Spec(select, values, int(dct), int(chunk), int(k), float(threshold), 0)


def check_good(folder, name, *what):
    """Every bit of NAME.floats."""
    with open(os.path.join(folder, name.rsplit(".")[0] + ".floats"), "rb") as f:
        expected = f.read()
    try:
        n, spec = agreed(*what[:7])
        floats = decode_file(os.path.join(folder, name), n, spec)
    except Refused as refusal:
        return f"refused: {refusal}"
    data = struct.pack(f"<{len(floats)}f", *floats)
    if data == expected:
        return None
    wrong = [i for i in range(len(floats)) if data[4 * i:4 * i + 4] != expected[4 * i:4 * i + 4]]
    first = f", the first one is value {wrong[0]}: {floats[wrong[0]]!r}" if wrong else ""
    return f"{len(floats)} floats, {len(expected) // 4} expected, {len(wrong)} are not the same{first}"


def check_bad(folder, name, code, *what):
    try:
        n, spec = agreed(*what[:7])
        decode_file(os.path.join(folder, name), n, spec)
    except Refused as refusal:
        return None if refusal.code == code else f"refused with {refusal}, not with {code}"
    return "taken"


def check(folder):
    failed = count = 0
    for listing, check_one in ("good.txt", check_good), ("bad.txt", check_bad):
        with open(os.path.join(folder, listing), encoding="ascii") as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    wrong = check_one(folder, *line.split())
                    count += 1
                    if wrong:
                        failed += 1
                        print(f"{line.split()[0]}: {wrong}")
    print(f"{count} files, {failed} read otherwise than expected")
    return 1 if failed or not count else 0


def main():
    if len(sys.argv) == 2:
        sys.exit(check(sys.argv[1]))
    if len(sys.argv) != 9:
        sys.exit(__doc__)
    try:
        n, spec = agreed(*sys.argv[2:])
        for x in decode_file(sys.argv[1], n, spec):
            print(f"{x!r}  {struct.pack('>f', x).hex()}")
    except Refused as refusal:
        sys.exit(f"{sys.argv[1]}: {refusal}")


if __name__ == "__main__":
    main()
