#!/usr/bin/env python3
"""Checks that binaries built for applications know nothing of the emulator: check_names.py FILE...

What a program links or opens below the public interfaces must work beside the vendor's driver as
well, so these files carry no name of the emulator (symbol, string or comment section) and do not
need SystemC. Exit status 1 on a breach.
"""
import re
import subprocess
import sys

PRINTABLE = re.compile(rb"[\x20-\x7e]{4,}")  # the name itself has four letters
NAME = re.compile(rb"soma", re.IGNORECASE)
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
FORBIDDEN_LIBRARY = re.compile(r"systemc", re.IGNORECASE)


def breaches(path):
    with open(path, "rb") as file:
        data = file.read()
    for match in PRINTABLE.finditer(data):
        if NAME.search(match.group()):
            yield f"contains '{match.group().decode()[:80]}' at offset {match.start():#x}"
    if data[:4] == b"\x7fELF":
        listing = subprocess.run(["readelf", "-dW", path], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        for library in NEEDED.findall(listing):
            if FORBIDDEN_LIBRARY.search(library):
                yield f"needs {library}"


def main():
    count = 0
    for path in sys.argv[1:]:
        for message in breaches(path):
            print(f"{path}: {message}")
            count += 1
    print(f"{len(sys.argv) - 1} files, {count} breaches of the naming rule")
    return 1 if count or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
