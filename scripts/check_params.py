#!/usr/bin/env python3
"""Checks that the timing parameters which a header's comments name exist: check_params.py ROOT.

hw/params.h says beside each value under which name the timing files set it ("dma.engine_gbps";
"link.<class>_gbps_per_dir" stands for one per class). Prints file:line for each name that no file
of data/timing has; exit status 1 if there is one.
"""
import json
import pathlib
import re
import sys

HEADER = "hw/params.h"
COMMENT = re.compile(r"//(.*)")
NAME = re.compile(r"\b[a-z]+\.[a-z](?:[a-z0-9_]|<[a-z]+>)*|\b[a-z]+\.<[a-z]+>[a-z0-9_]+")
FILE = re.compile(r"\.(h|md|cpp)$")


def known_names(root):
    names = set()
    for path in sorted((root / "data/timing").glob("*.json")):
        names |= json.loads(path.read_text())["parameters"].keys()
    return names


def exists(name, names):
    pattern = re.compile(re.sub(r"<[a-z]+>", "[a-z0-9_]+", name.replace(".", r"\.")))
    return any(pattern.fullmatch(known) for known in names)


def main():
    root = pathlib.Path(sys.argv[1])
    names = known_names(root)
    count = unknown = 0
    for number, line in enumerate((root / HEADER).read_text().splitlines(), 1):
        comment = COMMENT.search(line)
        for name in NAME.findall(comment.group(1)) if comment else ():
            if FILE.search(name):
                continue
            count += 1
            if not exists(name, names):
                print(f"{HEADER}:{number}: no timing file has {name}")
                unknown += 1
    print(f"{count} parameters named, {unknown} unknown")
    return 1 if unknown or not count else 0


if __name__ == "__main__":
    sys.exit(main())
