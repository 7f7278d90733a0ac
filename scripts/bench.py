#!/usr/bin/env python3
"""Measures the emulator's own speed: bench.py BUILD_DIRECTORY OUTPUT.md

Rounds of all cases are interleaved, so that a slow moment of the host hits all of them; medians and
spread are printed. Costs of one execution are differences between runs with more and fewer
iterations, which leaves start-up out.
"""
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time

ROUNDS = 5
MIB = 1 << 20
CHUNK = 65536  # dma.packet_bytes_cc


class Bench:
    def __init__(self, build):
        self.bin = pathlib.Path(build) / "bin"
        self.samples = {}

    def wall(self, *command):
        start = time.monotonic()
        result = subprocess.run([str(self.bin / command[0]), *command[1:]],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                check=False)
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {result.returncode}\n{result.stderr}")
        return time.monotonic() - start, result.stdout

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def all_reduce(self, size, iterations, *options):
        return self.wall("soma", "run", *options, "--", "nccom-test", "-r", "2", "-b", str(size),
                         "-e", str(size), "-d", "fp32", "-n", str(iterations), "-w", "1",
                         "allr")[0]

    def one_execution(self, size, more, *options):
        few = self.all_reduce(size, 1, *options)
        many = self.all_reduce(size, 1 + more, *options)
        return max(many - few, 0.0) / more

    def round(self):
        self.add("start", self.wall("soma", "run", "--", "true")[0])
        self.add("data", self.one_execution(256 * MIB, 2))
        self.add("replay", int(self.wall("bench_replay", str(256 * MIB), str(CHUNK))[1]) / 1e9)
        self.add("elided", self.one_execution(1024 * MIB, 4, "--timing-only"))

    def median(self, name):
        return statistics.median(self.samples[name])

    def spread(self, name):
        values = self.samples[name]
        return f"{min(values):.3f} to {max(values):.3f}"


def table(bench):
    data, replay = bench.median("data"), bench.median("replay")
    rows = [
        ("`soma run -- true`, wall", f"{bench.median('start'):.3f} s", bench.spread("start"),
         "0.3 s"),
        ("two-rank all-reduce, fp32, 256 MiB, with data, one execution", f"{data:.3f} s",
         bench.spread("data"), ""),
        ("the same copies and adds in a plain loop, one thread", f"{replay:.3f} s",
         bench.spread("replay"), ""),
        ("ratio", f"{data / replay:.2f}", "", "2"),
        ("two-rank all-reduce, fp32, 1 GiB, timing only, one execution",
         f"{bench.median('elided'):.3f} s", bench.spread("elided"), "0.2 s"),
    ]
    lines = ["| measurement | median | spread | goal |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return lines


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    bench, output = Bench(sys.argv[1]), pathlib.Path(sys.argv[2])
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        bench.round()
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    text = ["# Speed of the emulator", "",
            "Written by `./dev bench`: wall time on one host, interleaved rounds. Ratios carry over to",
            "other hosts, seconds do not.", "",
            f"Host: {cpu()}, {len(os.sched_getaffinity(0))} processors. "
            f"{ROUNDS} rounds. Largest resident set of any process: {largest} MiB.", ""]
    text += table(bench)
    output.write_text("\n".join(text) + "\n")
    print("\n".join(table(bench)))


if __name__ == "__main__":
    main()
