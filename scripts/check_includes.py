#!/usr/bin/env python3
"""Checks the include rule: check_includes.py ROOT [--rules FILE].

Every #include of a C or C++ file is held against scripts/layers.txt: a room may name only the rooms
and libraries listed there. Prints file:line for each breach; exit status 1 if there is one.
"""
import argparse
import pathlib
import re
import sys

SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".cc"}
SKIPPED = {"build", ".git", ".cache"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def read_rules(path):
    """Returns {section: {name: [words]}}; a key of several words gives each word the same list."""
    sections, current = {}, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif current is None or ":" not in line:
            sys.exit(f"{path}:{number}: expected 'name: words' inside a [section]")
        else:
            keys, words = line.split(":", 1)
            for key in keys.split():
                current[key] = words.split()
    return sections


def within(path, room):
    return path == room or path.startswith(room + "/")


def longest(path, names):
    return max((n for n in names if within(path, n)), key=len, default=None)


def breaches(rules, root, path, text):
    """Yields (line number, message) for one file; `path` is relative to `root`."""
    rooms, libraries, freestanding = rules["rooms"], rules["libraries"], rules["freestanding"]
    aliases = rules["aliases"]
    room = longest(path, rooms)
    if room is None:
        yield 1, "lies in no room of the include table"
        return
    tops = {r.split("/")[0] for r in rooms}
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        alias = longest(header, aliases)
        if alias is not None:
            header = f"{aliases[alias][0]}/{header}"
        library = longest(header, libraries)
        if library is not None:
            if not any(within(room, r) or within(path, r) for r in libraries[library]):
                yield number, f"{room} may not include the library header {header}"
        elif header.split("/")[0] in tops and "/" in header:
            allowed = rooms[room]
            if not (within(header, room) or "*" in allowed or
                    any(within(header, r) for r in allowed)):
                yield number, f"{room} may not include {header}"
        elif quote == '"':
            if not (root / path).with_name(header).exists():
                yield number, f"{header} is neither beside this file nor a path from the root"
        elif room in freestanding and header not in freestanding[room]:
            yield number, f"{room} is freestanding and may not include <{header}>"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--rules", type=pathlib.Path)
    options = parser.parse_args()
    rules = read_rules(options.rules or options.root / "scripts" / "layers.txt")
    count = files = 0
    for path in sorted(options.root.rglob("*")):
        relative = path.relative_to(options.root)
        if path.suffix not in SUFFIXES or SKIPPED & set(relative.parts) or not path.is_file():
            continue
        files += 1
        for number, message in breaches(rules, options.root, relative.as_posix(),
                                        path.read_text()):
            print(f"{relative}:{number}: {message}")
            count += 1
    print(f"{files} files, {count} breaches of the include rule")
    return 1 if count or not files else 0


if __name__ == "__main__":
    sys.exit(main())
