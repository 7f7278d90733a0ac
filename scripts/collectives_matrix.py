#!/usr/bin/env python3
"""Every collective with every algorithm on every platform, in device memory and in SBUF, with
checked data:

    collectives_matrix.py BUILD_DIR OUTPUT [--check] [PLATFORM...].

Runs `nccom-test --x-matrix` for the groups below and writes what ran and what the library refused,
with its reason. --check compares with the file instead of writing it, for the platforms named or
all. Fails when an operation fails, gives wrong data, or ends in any other way than a refusal.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import time

SECONDS = 1800
SIZE = "8kb"

# Platform, LNC, then ranks (on instances): one device, several, all, several instances.
GROUPS = [
    ("inf2.xlarge", 1, ["2"]),
    ("inf2.8xlarge", 1, ["2"]),
    ("inf2.24xlarge", 1, ["2", "8", "12"]),
    ("inf2.48xlarge", 1, ["2", "8", "24"]),
    ("trn1.2xlarge", 1, ["2"]),
    ("trn1.32xlarge", 1, ["2", "8", "16", "32"]),
    ("trn1n.32xlarge", 1, ["8", "32"]),
    ("trn2.3xlarge", 2, ["4"]),
    ("trn2.3xlarge", 1, ["8"]),
    ("trn2.48xlarge", 2, ["4", "16", "32", "64"]),
    ("trn2.48xlarge", 1, ["8", "32", "128"]),
    ("trn2u.48xlarge", 2, ["16", "64"]),
    ("trn2u.48xlarge", 1, ["32"]),
    ("trn2-ultraserver", 2, ["4/4", "64/4", "256/4"]),
    ("trn2-ultraserver", 1, ["8/4", "64/2"]),
    ("trn3-gen1-server", 2, ["4", "16", "64"]),
    ("trn3-gen1-server", 1, ["8", "32"]),
    ("trn3-gen1-ultraserver", 2, ["4/4", "64/4", "256/4"]),
    ("trn3-gen1-ultraserver", 1, ["8/4", "64/2"]),
    ("trn3-gen2-server", 2, ["4", "16"]),
    ("trn3-gen2-server", 1, ["8", "32"]),
    ("trn3-gen2-ultraserver", 2, ["16/16", "32/2", "64/4", "288/18"]),
    ("trn3-gen2-ultraserver", 1, ["8/4", "64/2"]),
]

# Groups of which one operation takes half a minute of host time or more.
TOO_LARGE = [("trn2-ultraserver", 1, "512/4"), ("trn3-gen1-ultraserver", 1, "512/4"),
             ("trn3-gen2-ultraserver", 2, "576/36"), ("trn3-gen2-ultraserver", 1, "1152/36")]

LETTERS = {"ring": "R", "mesh": "M", "rdh": "D", "kangaring": "K", "hier": "H", "flatring": "F",
           "tree": "T", "pairwise": "P"}
COLUMNS = ["all_reduce", "all_gather", "reduce_scatter", "alltoall"]
OTHERS = ["permute", "sendrecv", "permute_reduce", "permute_implicit", "permute_reduce_implicit",
          "broadcast", "reduce", "barrier"]
SBUF = ["all_reduce", "all_gather", "reduce_scatter"]
VARIABLE = ["all_gatherv", "alltoallv", "reduce_scatterv"]
HEADINGS = ["Platform", "LNC", "Ranks (on instances)", *COLUMNS, "others", "in SBUF",
            "variable sizes"]

HEAD = """\
# Collectives: what runs where

`./dev matrix` writes this file; do not edit it. Every cell ran on the emulated machine with real
data that was checked: {size} per rank of fp32, through a NEFF, libnrt and the driver:

```
NEURON_LOGICAL_NC_CONFIG=LNC soma run --platform PLATFORM -- \\
    nccom-test -r RANKS -N INSTANCES -b {size} -e {size} -d fp32 -n 2 -w 0 --x-matrix
```

R ring, M mesh, D recursive halving and doubling, K KangaRing, H hierarchical, F flat ring, T tree,
P pairwise; a dash: not for this group, for the reasons below. "others": {others}; each has one
algorithm. The algorithm was forced (`NCCOM_CC_ALGO`); what the library chooses by itself is in
`docs/collectives.md`.

"in SBUF": {sbuf} between tensors in SBUF (as `--sb2sb`, here on all
platforms) with the same algorithms; what ran if not all that ran in device memory. Other operations
have no SBUF form (`docs/collectives.md`).

"variable sizes": {variable}, each with equal blocks and with blocks of
every length from 0 to the equal share, in another order and with gaps; the first two also with
receive displacements and known receive counts. What the device writes into the metadata was checked
too.

"""

ROW = re.compile(r"^(\w+) +(\w+) +(ok|refused|FAILED) +(.*)$")


def run(build, platform, lnc, group):
    """[(operation, algorithm or kind of blocks, verdict, detail)] of one group."""
    ranks, _, nodes = group.partition("/")
    command = [build / "bin/soma", "run", "--platform", platform, "--", build / "bin/nccom-test", "-r",
               ranks, "-N", nodes or "1", "-b", SIZE, "-e", SIZE, "-d", "fp32", "-n", "2", "-w", "0",
               "--seed", "1", "--x-matrix"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=SECONDS, check=False,
                          env={**os.environ, "NEURON_LOGICAL_NC_CONFIG": str(lnc)})
    rows = [found.groups() for line in done.stdout.splitlines() if (found := ROW.match(line))]
    wanted = {*COLUMNS, *OTHERS, *(name + "_sbuf" for name in SBUF), *VARIABLE}
    complete = {row[0] for row in rows} == wanted
    # A refusal without a reason shows the name of the function that failed.
    bad = [row for row in rows if row[2] == "FAILED" or
           row[2] == "refused" and row[3].startswith(("nrt_", "by the tool"))]
    if done.returncode != 0 or bad or not complete:
        sys.exit(f"{platform} LNC {lnc}, {group} ranks: exit code {done.returncode}\n{bad}\n"
                 f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return rows


def cell(rows, operation):
    algorithms = [(LETTERS[row[1]] if row[2] == "ok" else "-") for row in rows if row[0] == operation]
    return "".join(algorithms)


def refused(rows, operations):
    """What of operations without a cell of their own was refused: "all" ran, or "not ..."."""
    names = [f"{row[0]} {row[1]}" for row in rows if row[0] in operations and row[2] != "ok"]
    return "all" if not names else "not " + ", ".join(names)


def in_sbuf(rows):
    """The cells of operations in SBUF, where they differ from those in device memory."""
    differ = [f"{operation} {there}" for operation in SBUF
              if (there := cell(rows, operation + "_sbuf")) != cell(rows, operation)]
    return "the same" if not differ else ", ".join(differ)


def place(platform, lnc, group):
    return f"{platform} | {lnc} | {group.replace('/', ' on ')}"


def tables(results):
    """The lines of the first table by group, and what was refused by reason."""
    lines, reasons = {}, collections.defaultdict(lambda: collections.defaultdict(set))
    for key, rows in results.items():
        cells = [cell(rows, operation) for operation in COLUMNS]
        cells += [refused(rows, OTHERS), in_sbuf(rows), refused(rows, VARIABLE)]
        lines[key] = f"| {place(*key)} | " + " | ".join(cells) + " |"
        for operation, algorithm, verdict, detail in rows:
            if verdict == "refused":
                reason = re.sub(r"\b\d{2,}\b", "N", detail)
                reasons[reason][operation.removesuffix("_sbuf")].add(key)
    return lines, reasons


def document(results):
    lines, reasons = tables(results)
    empty = " |" * (len(HEADINGS) - 4)
    out = [HEAD.format(size=SIZE, others=", ".join(OTHERS), sbuf=", ".join(SBUF),
                       variable=", ".join(VARIABLE)).rstrip(), "",
           "| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|", *lines.values(),
           *(f"| {place(*key)} | too large to run here: half a minute and more per operation |{empty}"
             for key in TOO_LARGE), "",
           "## Refused", "", "| Reason | Operations | Groups |", "|---|---|---|"]
    for reason in sorted(reasons):
        operations = reasons[reason]
        groups = len(set().union(*operations.values()))
        out.append(f"| {reason} | {', '.join(operations)} | {groups} of {len(results)} |")
    return "\n".join(out) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    check = len(arguments) + 1 != len(sys.argv)
    build, output = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1])
    wanted = arguments[2:]
    results = {}
    for platform, lnc, groups in GROUPS:
        for group in groups if not wanted or platform in wanted else []:
            start = time.monotonic()
            results[platform, lnc, group] = run(build, platform, lnc, group)
            print(f"{platform} LNC {lnc}, {group} ranks: {time.monotonic() - start:.0f} s", flush=True)
    if not check and not wanted:
        output.write_text(document(results), encoding="ascii")
        return
    known = output.read_text(encoding="ascii").splitlines() if check else []
    for line in tables(results)[0].values():
        print(line)
        if check and line not in known:
            sys.exit(f"{output} has another line; ./dev matrix rewrites it")


if __name__ == "__main__":
    main()
