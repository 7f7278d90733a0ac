#!/usr/bin/env python3
"""Compares what a library exports with a list of names:

    exports_test.py LIBRARY NAMES SONAME [VERSION]

With VERSION the functions nrta_* have this symbol version; nothing else has any.
"""
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def main():
    library, names, soname = sys.argv[1:4]
    version = sys.argv[4] if len(sys.argv) > 4 else ""
    lines = [line.split() for line in output("nm", "-D", "--defined-only", library).splitlines()]
    exported = {fields[-1] for fields in lines if fields[-2] != "A"}
    mark = "@@" + version if version else ""
    wanted = {name + mark * name.startswith("nrta_") for name in open(names).read().split()}
    found = re.search(r"\(SONAME\).*\[(.+)\]", output("readelf", "-dW", library))
    problems = [f"missing: {name}" for name in sorted(wanted - exported)]
    problems += [f"not public: {name}" for name in sorted(exported - wanted)]
    if not found or found.group(1) != soname:
        problems.append(f"SONAME is not {soname}")
    print("\n".join(problems) or f"{len(exported)} names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
