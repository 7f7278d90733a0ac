#!/usr/bin/env python3
"""Compares published times with simulated ones: accuracy.py BUILD_DIR OUTPUT.

Runs nccom-test, timing only, for every row of data/calibration/collectives.csv, and the programs of
data/calibration/kernels.csv (accuracy_kernels.py); writes the tables, their errors and what the
parameters rest on (data/calibration/notes.json). The output holds nothing of this machine, so it is
the same on every host. Fails when a row deviates by more than LIMIT percent (kernels:
accuracy_kernels.LIMIT) without an explanation.
"""
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import accuracy_kernels

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "data/calibration/collectives.csv"
NOTES = ROOT / "data/calibration/notes.json"
LIMIT = 30  # percent; a larger deviation needs an explanation
SECONDS = 600

HEAD = """\
# Accuracy

Simulated times next to published ones: of collectives, and of [kernels](#kernels-and-transfers).
`./dev accuracy` writes this file; do not edit it.

Published times of collectives: rows of `data/calibration/collectives.csv`. Simulated: for each row

```
soma run --platform PLATFORM --timing-only -- \\
    nccom-test -r RANKS -b SIZE -e SIZE -d TYPE -n 2 -w 1 OPERATION
```

The simulated time is the device's own: start and end stamps of the operation on the CC-cores. Each
timing file has one set of parameters; no parameter depends on size, operation or number of ranks.
"""


def sizes_of(rows):
    """Arguments of nccom-test that cover the sizes of the rows."""
    sizes = sorted(int(row["size_bytes"]) for row in rows)
    least, most = sizes[0], sizes[-1]
    if all(size % least == 0 and (size // least).bit_count() == 1 for size in sizes):
        return ["-b", str(least), "-e", str(most), "-f", "2"]
    return ["-b", str(least), "-e", str(most), "-i", str((most - least) // 10 or 1)]


def simulate(build, rows):
    """{bytes: (microseconds, algorithm)} for rows of one platform, operation, type and ranks."""
    first = rows[0]
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report.json"
        command = [build / "bin/soma", "run", "--platform", first["platform"], "--timing-only", "--",
                   build / "bin/nccom-test", "-r", first["ranks"], *sizes_of(rows), "-n", "2", "-w",
                   "1", "-d", first["dtype"], "--show-algorithm", "--report-to-json-file", report,
                   first["op"]]
        subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, check=True,
                       timeout=SECONDS,
                       env={**os.environ, "NEURON_LOGICAL_NC_CONFIG": first["lnc"]})
        results = json.loads(report.read_text())["results"]
    return {entry["size(B)"]: (entry["time:avg(us)"], entry["algorithm"]) for entry in results}


def series(rows):
    """Rows by what one run of nccom-test covers, in the order of the file."""
    groups = {}
    for row in rows:
        key = (row["id"].split(".")[0], row["platform"], row["lnc"], row["ranks"], row["op"],
               row["dtype"])
        groups.setdefault(key, []).append(row)
    return groups


def summary(errors):
    sizes = [abs(error) for error in errors]
    return (f"{len(sizes)} rows, median error {statistics.median(sizes):.1f} %, largest "
            f"{max(sizes):.1f} %")


def table(build, rows, errors):
    """Lines of a Markdown table; adds the errors in percent by id."""
    lines = ["", "| row | ranks | operation | type | bytes | published us | simulated us | error % "
             "| algorithm |", "|---|---:|---|---|---:|---:|---:|---:|---|"]
    for (name, *_), group in series(rows).items():
        simulated = simulate(build, group)
        for row in group:
            time, algorithm = simulated[int(row["size_bytes"])]
            error = 100 * (time - float(row["time_us"])) / float(row["time_us"])
            errors[row["id"]] = error
            lines.append(f"| {row['id']} | {row['ranks']} | {row['op']} | {row['dtype']} | "
                         f"{row['size_bytes']} | {row['time_us']} | {time:.2f} | {error:+.1f} | "
                         f"{algorithm} |")
        print(f"{name}: {summary([errors[row['id']] for row in group])}")
    own = [errors[row["id"]] for row in rows]
    return "\n".join(lines + ["", summary(own)[0].upper() + summary(own)[1:] + "."]) + "\n"


def parameters(timing, names):
    values = json.loads((ROOT / f"data/timing/{timing}.json").read_text())["parameters"]
    lines = [f"\nTiming file `{timing}`:\n", "| parameter | value | status | |", "|---|---|---|---|"]
    for name, note in names.items():
        p = values[name]
        lines.append(f"| `{name}` | {p['value']} {p['unit']} | {p['status']} | "
                     f"{note or p['meaning']} |")
    return "\n".join(lines) + "\n"


def unvalidated():
    """The platforms whose durations nobody compared with anything."""
    lines = ["", "## Other platforms", "", "| platform | durations |", "|---|---|"]
    for path in sorted((ROOT / "data/platforms").glob("*.json")):
        platform = json.loads(path.read_text())
        if not platform.get("validated", False):
            lines.append(f"| {path.stem} | unvalidated |")
    return "\n".join(lines) + "\n"


def main():
    build, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    notes = json.loads(NOTES.read_text())
    with open(ROWS, newline="", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    errors, body = {}, ""
    for platform in dict.fromkeys(row["platform"] for row in rows):
        own = [row for row in rows if row["platform"] == platform]
        body += f"\n## {platform}\n" + table(build, own, errors)
        body += "".join(f"\n{line}\n" for line in notes["platforms"].get(platform, []))
    large = {name: error for name, error in errors.items() if abs(error) > LIMIT}
    kernels, unexplained = accuracy_kernels.section(build, notes["kernels"])
    text = HEAD + f"\nAll platforms: {summary(errors.values())}; {len(large)} over {LIMIT} %.\n"
    for name in sorted(large):
        text += f"- **{name}** ({large[name]:+.1f} %): {notes['rows'].get(name, 'unexplained')}\n"
    text += body + kernels + "\n## What was fitted\n"
    for paragraph in notes["fitted_text"]:
        text += f"\n{paragraph}\n"
    for timing, names in notes["fitted"].items():
        text += parameters(timing, names)
    text += "\nStatus: D documented, V arithmetic on documented numbers, M measured or fitted, A "
    text += "assumption.\n" + unvalidated()
    output.write_text(text, encoding="ascii")
    print(f"all: {summary(errors.values())}")
    missing = sorted(set(large) - set(notes["rows"])) + unexplained
    if missing:
        sys.exit(f"accuracy: no explanation for {', '.join(missing)}")


if __name__ == "__main__":
    main()
