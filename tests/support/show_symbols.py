"""show_symbols.py OBJECT: gives the hidden symbols that an object file defines the
visibility `protected`, in place. A shared library of it shows them, and the code
in it, which was compiled to find them in its own library, still does.
"""
import mmap
import struct
import sys

SYMBOL_TABLE = 2
HIDDEN, PROTECTED = 2, 3


def show(elf):
    if elf[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{sys.argv[1]} is no 64-bit little-endian ELF file")
    (sections,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count = struct.unpack_from("<HH", elf, 0x3A)
    # A number that 16 bits cannot hold is in the first section.
    count = count or struct.unpack_from("<Q", elf, sections + 32)[0]
    for header in range(sections, sections + count * entry, entry):
        kind, _, _, start, size = struct.unpack_from("<IQQQQ", elf, header + 4)
        if kind != SYMBOL_TABLE:
            continue
        for symbol in range(start, start + size, 24):
            other, section = struct.unpack_from("<BH", elf, symbol + 5)
            if section != 0 and other & 3 == HIDDEN:
                elf[symbol + 5] = other & ~3 | PROTECTED


with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as elf:
    show(elf)
