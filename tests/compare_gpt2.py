#!/usr/bin/env python3
"""Compares the ids that `prepare` made with those of other implementations of GPT-2's encoder.

Run as:
  shoal-coordinator prepare TEXT --out DIR --validation 0 --tokenizer VOCABULARY
  tests/compare_gpt2.py VOCABULARY TEXT DIR          (needs the module regex; uses tiktoken where it is installed)

VOCABULARY is the folder with encoder.json and vocab.bpe.  The encoder is written here a second time, after its published
description; a byte that is not UTF-8 is a lone surrogate to it, which is neither letter nor number nor white space.
"""
import array
import functools
import json
import pathlib
import struct
import sys
import regex

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
KEEP = dict(encoding="utf-8", errors="surrogateescape")

printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
names = {b: chr(b) for b in printable}
names |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in printable)}

folder, text, data = map(pathlib.Path, sys.argv[1:4])
ids = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
lines = (folder / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
rank = {tuple(line.split(" ")): i for i, line in enumerate(lines) if line}


@functools.lru_cache(maxsize=1 << 18)
def encode(piece):
    word = [names[b] for b in piece.encode(**KEEP)]
    while len(word) > 1:
        best = min(zip(word, word[1:]), key=lambda p: rank.get(p, len(rank)))
        if best not in rank:
            break
        to, i = [], 0
        while i < len(word):
            here = tuple(word[i:i + 2]) == best
            to.append("".join(best) if here else word[i])
            i += 2 if here else 1
        word = to
    return [ids[w] for w in word]


def prepared():
    manifest = json.loads((data / "manifest.json").read_text())
    out = array.array("I")
    for shard in manifest["train"]["shards"]:
        raw = (data / "blobs" / shard["hash"]).read_bytes()
        width, count = struct.unpack_from("<I", raw, 12)[0], struct.unpack_from("<Q", raw, 16)[0]
        out.extend(list(array.array({1: "B", 2: "H", 4: "I"}[width], raw[24:])))
        assert len(raw) == 24 + width * count
    return out


def compare(name, ours, theirs):
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    same = len(ours) == len(theirs) == first
    print(f"{name}: {len(theirs)} ids, " + ("identical" if same else f"ours are {len(ours)}, the first other one is {first}"))
    return same


raw = text.read_bytes()
ours, theirs = prepared(), array.array("I")
for match in regex.finditer(PATTERN, raw.decode(**KEEP)):
    theirs.extend(encode(match.group()))
good = compare("python", ours, theirs)
try:
    import tiktoken
    ranks = {bytes({v: k for k, v in names.items()}[c] for c in w): i for w, i in ids.items() if w != "<|endoftext|>"}
    other = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    good &= compare("tiktoken", ours, array.array("I", other.encode_ordinary(raw.decode("utf-8"))))
except ImportError:
    print("tiktoken is not installed")
except UnicodeDecodeError:
    print("tiktoken reads UTF-8 only")
sys.exit(not good)
