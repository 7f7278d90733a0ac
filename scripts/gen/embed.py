#!/usr/bin/env python3
"""Writes a C++ source that holds data files: embed.py ROOT OUTPUT FILE...

Each FILE becomes one row {path relative to ROOT, text} of config::kEmbeddedFiles, sorted by path.
"""
import pathlib
import sys

HEADER = '''// Written by scripts/gen/embed.py.
#include "arch/config/embedded.h"

namespace config {

const EmbeddedFile kEmbeddedFiles[] = {
'''


def main():
    root, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rows = []
    for path in sorted(pathlib.Path(name) for name in sys.argv[3:]):
        relative = path.relative_to(root).as_posix()
        rows.append(f'    {{"{relative}", R"data({path.read_text()})data"}},\n')
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(HEADER + "".join(rows) +
                      f"}};\n\nconst unsigned kEmbeddedFileCount = {len(rows)};\n\n"
                      "}  // namespace config\n")


if __name__ == "__main__":
    main()
