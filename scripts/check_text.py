#!/usr/bin/env python3
"""Checks plain-text rules: check_text.py ROOT.

Text is ASCII without tabs or trailing blanks; C and C++ end within 100 columns; sources carry no
notes to self. Prints file:line for each breach; exit status 1 if there is one.
"""
import pathlib
import re
import sys

SOURCES = {".h", ".c", ".cpp", ".py", ".proto"}
TEXTS = SOURCES | {".md", ".txt", ".cmake", ".json", ".csv", ".regs", ".map", ".tidy"}
NAMES = {"dev", "CMakeLists.txt", ".clang-format", ".clang-tidy"}
SKIPPED = {"build", ".git", ".cache"}
COLUMNS = 100
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def breaches(path, data):
    """Yields (line number, message) for the bytes of one file."""
    source = path.suffix in SOURCES
    if data and not data.endswith(b"\n"):
        yield data.count(b"\n") + 1, "no newline at the end"
    for number, line in enumerate(data.split(b"\n"), 1):
        if any(byte > 126 or (byte < 32) for byte in line):
            yield number, "not plain ASCII (or a tab or carriage return)"
        if line != line.rstrip():
            yield number, "trailing blanks"
        if source and path.suffix != ".py" and len(line) > COLUMNS:
            yield number, f"{len(line)} columns; the limit is {COLUMNS}"
        if source and NOTE.search(line.decode("ascii", "replace")):
            yield number, "a note to self; say it as a typed error or a row of the support matrix"


def main():
    root = pathlib.Path(sys.argv[1])
    count = files = 0
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts) or not path.is_file():
            continue
        if path.suffix not in TEXTS and path.name not in NAMES:
            continue
        files += 1
        for number, message in breaches(path, path.read_bytes()):
            print(f"{relative}:{number}: {message}")
            count += 1
    print(f"{files} files, {count} breaches of the text rules")
    return 1 if count or not files else 0


if __name__ == "__main__":
    sys.exit(main())
