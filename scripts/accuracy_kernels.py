"""Published times of kernels and transfers next to simulated ones, for scripts/accuracy.py.

Each row of data/calibration/kernels.csv names a program of calibrate_kernels (or of
examples/kernels) and what to measure of one timing-only execution on the first `cores` cores:

  total                    from the start of the first engine to the stop of the last
  rate AMOUNT              bytes or operations of a core, times the cores, by that time
  relative SHARE PROGRAM   rate next to that of another program, which moves 1 / SHARE as much
  busy ENGINE              share of the time that an engine works
  active ENGINE|dma        share of the time with an instruction, or a packet, under way
  span ENGINE NAME N       the N-th of these instructions, from its start to its result
  spacing ENGINE NAME      start to start, median
  stretch ENGINE NAME      first start to last result
  difference ENGINE NAME   the first one beyond the second
  load|store PART          of the transfer before, or after, the ACTIVATE: see transfer()
  signal, packets          a semaphore write; the sum of all packets of data

A word ends in *FACTOR where the program is a part of what was measured. `most` in front: the
published figure is an upper limit, not a time.
"""
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

import trace_picture

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 10  # percent; a larger deviation, or one beyond an upper limit, needs an explanation
SECONDS = 120
GENERATIONS = {"v2": "trn1", "v3": "trn2", "v4": "trn3"}
TRACED = {"active", "difference", "load", "packets", "signal", "spacing", "span", "store",
          "stretch"}
PER_UNIT = {"ns": 1e3, "us": 1e6, "ms": 1e9}  # ps
RATES = {"GB/s": 1e9, "TF/s": 1e12}


class Execution:
    """One execution of a program on the first cores of a machine."""

    def __init__(self, build, platform, cores, program, traced):
        about = json.loads((ROOT / f"data/platforms/{platform}.json").read_text())
        generation = about["generation"]
        timing = json.loads((ROOT / f"data/timing/{about['timing']}.json").read_text())
        self.first_byte = float(timing["parameters"]["dma.first_byte_ns"]["value"])
        words = program.split()
        with tempfile.TemporaryDirectory() as directory:
            neff, report, trace = (pathlib.Path(directory) / name for name in ("k", "r", "t"))
            if words[0] == "example":
                write = [build / f"bin/kernel_{words[1]}", *words[2:], neff]
            else:
                write = [build / "bin/calibrate_kernels", GENERATIONS[generation], *words, neff]
            run = [build / "bin/soma", "run", "--platform", platform, "--timing-only", "--report",
                   report, *(["--trace", trace] if traced else []), "--",
                   build / "bin/client/execute_neff", neff, cores, "1"]
            for command in (write, run):
                subprocess.run([str(word) for word in command], check=True, timeout=SECONDS,
                               env={**os.environ, "NEURON_LOGICAL_NC_CONFIG": "1"})
            rows = json.loads(report.read_text())["executions"]
            self.spans = trace_picture.load(trace, results=True) if traced else {}
        self.cores = int(cores)
        self.core = rows[0]["core"]
        self.ps = max(row["max_ps"] for row in rows)
        self.busy = {engine["name"]: engine["busy_ps"] for engine in rows[0]["engines"]}

    def engine(self, engine, name=None):
        """(begin, end) in ns of its instructions; those that overlap are on further tracks."""
        own = f"{self.core}.{engine}"
        return sorted((begin, end) for track, spans in self.spans.items()
                      if track.split(" #")[0] == own for begin, end, what in spans
                      if what == name or name is None and not what.startswith("wait: "))

    def packets(self, kind):
        """{engine: [(begin, end)]} of the core's DMA engines."""
        chip, core = re.fullmatch(r"(d\d+)\.nc(\d+)", self.core).groups()
        engines = {f"{chip}.dma{16 * int(core) + i}" for i in range(16)}
        found = {}
        for track, spans in self.spans.items():
            name = track.rsplit(".", 1)[0]
            own = [(begin, end) for begin, end, what in spans if what.startswith(kind)]
            if name in engines and own:
                found.setdefault(name, []).extend(own)
        return found

    def covered(self, what):
        """Time in ns during which at least one of the spans is under way."""
        spans = self.engine(what) if what != "dma" else sorted(
            span for own in self.packets("").values() for span in own)
        total, until = 0, 0
        for begin, end in spans:
            total += max(0, end - max(begin, until))
            until = max(until, end)
        return total

    def transfer(self, which, part):
        """packet: data of one engine; engine: with its semaphore write; all: data of all engines;
        lead: trigger to first packet; tail: last data to the start of the ACTIVATE; whole: trigger
        to there. In ns. Data is dma.first_byte_ns behind the engine that moves it."""
        activate = self.engine("act", "ACTIVATE")[0]
        mine = (lambda span: span[1] <= activate[0]) if which == "load" else (
            lambda span: span[0] >= activate[1])
        data = [sorted(filter(mine, own)) for own in self.packets("copy").values()]
        data = [own for own in data if own]
        first, last = min(own[0][0] for own in data), max(own[-1][1] for own in data)
        if part == "all":
            return last - first
        trigger = max(begin for begin, _ in self.engine("sp", "WRITE") if begin < first)
        packets = statistics.median(own[-1][1] - own[0][0] for own in data)
        if part == "packet":
            return packets
        if part == "engine":
            signals = [list(filter(mine, own)) for own in self.packets("signal").values()]
            return packets + statistics.median(end - begin for own in signals for begin, end in own)
        return {"lead": first - trigger, "whole": activate[0] - trigger,
                "tail": activate[0] - last - self.first_byte}[part]


class Kernels:
    def __init__(self, build):
        with open(ROOT / "data/calibration/kernels.csv", newline="", encoding="ascii") as file:
            self.rows = list(csv.DictReader(file))
        self.build = build
        self.done = {}

    def execution(self, row, program, traced):
        key = row["platform"], row["cores"], program
        if key not in self.done:
            traced = traced or any(
                (r["platform"], r["cores"], r["program"]) == key and self.words(r)[0] in TRACED
                for r in self.rows)
            self.done[key] = Execution(self.build, *key, traced)
        return self.done[key]

    @staticmethod
    def words(row):
        return row["measure"].removeprefix("most ").replace("*", " *").split()

    def simulate(self, row):
        """What the machine says, in the unit of the row."""
        kind, *words = self.words(row)
        factor = float(words.pop(0)[1:]) if words and words[0][0] == "*" else 1
        e = self.execution(row, row["program"], kind in TRACED)
        if kind == "rate":
            return float(words[0]) * e.cores / (e.ps / 1e12) / RATES[row["unit"]]
        if kind == "relative":
            whole = self.execution(row, " ".join(words[1:]), False)
            return float(words[0]) * whole.ps / e.ps
        if kind == "busy":
            return 100 * e.busy[words[0]] / e.ps
        if kind == "active" and row["unit"] == "%":
            return 100 * 1e3 * e.covered(words[0]) / e.ps
        if kind == "total":
            return factor * e.ps / PER_UNIT[row["unit"]]
        return factor * self.nanoseconds(e, kind, words) * 1e3 / PER_UNIT[row["unit"]]

    @staticmethod
    def nanoseconds(e, kind, words):
        if kind == "active":
            return e.covered(words[0])
        if kind in ("load", "store"):
            return e.transfer(kind, words[0])
        if kind == "signal":
            return statistics.median(end - begin for own in e.packets("signal").values()
                                     for begin, end in own)
        if kind == "packets":
            return sum(end - begin for own in e.packets("copy").values() for begin, end in own)
        spans = e.engine(*words[:2])
        if kind == "span":
            begin, end = spans[int(words[2])]
            return end - begin
        if kind == "stretch":
            return spans[-1][1] - spans[0][0]
        if kind == "difference":
            return (spans[0][1] - spans[0][0]) - (spans[1][1] - spans[1][0])
        assert kind == "spacing", kind
        return statistics.median(b[0] - a[0] for a, b in zip(spans, spans[1:]))

    def is_limit(self, row):
        return row["measure"].startswith("most ")


def needs_words(limit, error):
    """Whether a deviation in percent must be explained."""
    return error > 0 if limit else abs(error) > LIMIT


def summary(errors):
    """Median and 90th percentile of their sizes."""
    sizes = sorted(abs(error) for error in errors)
    high = sizes[min(len(sizes) - 1, round(0.9 * len(sizes)))]
    return (f"{len(sizes)} rows, median error {statistics.median(sizes):.1f} %, 90th percentile "
            f"{high:.1f} %")


def section(build, notes):
    """The text of docs/accuracy.md about kernels, and the rows that lack an explanation."""
    kernels = Kernels(build)
    errors, limits, tables = {}, {}, ""
    for platform in dict.fromkeys(row["platform"] for row in kernels.rows):
        tables += f"\n### {platform.split('.')[0].split('-')[0]}\n"
        tables += "\n| row | | published | simulated | error % | grade | source |"
        tables += "\n|---|---|---:|---:|---:|---|---|\n"
        for row in kernels.rows:
            if row["platform"] != platform:
                continue
            simulated, published = kernels.simulate(row), float(row["published"])
            error = 100 * (simulated - published) / published
            limit = kernels.is_limit(row)
            (limits if limit else errors)[row["id"]] = error
            unit = "" if row["unit"] == "ratio" else f" {row['unit']}"
            tables += (f"| {row['id']} | {row['what']} | {'at most ' if limit else ''}"
                       f"{row['published']}{unit} | {simulated:.4g}{unit} | {error:+.1f} | "
                       f"{row['grade']} | {row['source']} |\n")
    text = "\n## Kernels and transfers\n"
    for paragraph in notes["text"]:
        text += f"\n{paragraph}\n"
    off = {**{name: error for name, error in errors.items() if needs_words(False, error)},
           **{name: error for name, error in limits.items() if needs_words(True, error)}}
    within = sum(error <= 0 for error in limits.values())
    text += f"\n{summary(errors.values())}. {within} of {len(limits)} upper limits are kept.\n"
    text += f"Over {LIMIT} %, or over an upper limit:\n\n"
    for name, error in off.items():
        text += f"- **{name}** ({error:+.1f} %): {notes['rows'].get(name, 'unexplained')}\n"
    text += tables + "\n### Published, but not simulated\n\n"
    text += "".join(f"- {name}: {why}\n" for name, why in notes["left_out"].items())
    text += "\nSources: " + "; ".join(f"*{key}* {what}" for key, what in notes["sources"].items())
    print(f"kernels: {summary(errors.values())}")
    return text + ".\n", sorted(set(off) - set(notes["rows"]))
