#!/usr/bin/env python3
"""Compares what a library exports with a list of names: exports_test.py LIBRARY NAMES SONAME."""
import re
import subprocess
import sys


def main():
    library, names, soname = sys.argv[1:4]
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    wanted = set(open(names).read().split())
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, text=True, stdout=subprocess.PIPE).stdout
    found = re.search(r"\(SONAME\).*\[(.+)\]", dynamic)
    problems = [f"missing: {name}" for name in sorted(wanted - exported)]
    problems += [f"not public: {name}" for name in sorted(exported - wanted)]
    if not found or found.group(1) != soname:
        problems.append(f"SONAME is not {soname}")
    print("\n".join(problems) or f"{len(exported)} names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
