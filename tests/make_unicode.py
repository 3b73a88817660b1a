#!/usr/bin/env python3
"""Writes model/unicode_table.c: which code points are letters (category L) and which are numbers (N).

Run as: pip install unicodedata2==16.0.0 && python3 tests/make_unicode.py > model/unicode_table.c && clang-format -i model/unicode_table.c
The table is kept, so nobody needs this to build or test.  Another version of Unicode would give other ids for text with new
letters: the version is part of what the kinds gpt2 and llama3 of a tokenizer mean.
"""
import sys
import unicodedata2 as unicode

VERSION = "16.0.0"
PER_LINE = 5


def ranges():
    start, kind = 0, ""
    for c in range(0x110000 + 1):
        k = unicode.category(chr(c))[0] if c < 0x110000 else ""
        k = k if k in ("L", "N") else ""
        if k != kind:
            if kind:
                yield start, c - 1, kind
            start, kind = c, k


if unicode.unidata_version != VERSION:
    sys.exit(f"unicodedata2 is of Unicode {unicode.unidata_version}, not {VERSION}")
rows = [f"{{0x{a:x}, 0x{b:x}, UNICODE_{'letter' if k == 'L' else 'number'}}}," for a, b, k in ranges() if b >= 0x80]
print(f"/* Made by tests/make_unicode.py from Unicode {VERSION}: letters and numbers from U+0080 up. */")
print('#include "model/unicode.h"\n\n#define L UNICODE_letter\n#define N UNICODE_number\n')
print("/* clang-format off */")
print("const struct unicode_range unicode_table[] = {")
cells = [r.replace("UNICODE_letter", "L").replace("UNICODE_number", "N").replace(" ", "") for r in rows]
for i in range(0, len(cells), PER_LINE):
    print("\t" + " ".join(cells[i:i + PER_LINE]))
print("};\n/* clang-format on */\n")
print("const unsigned unicode_table_rows = sizeof unicode_table / sizeof *unicode_table;")
