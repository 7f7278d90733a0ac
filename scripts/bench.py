#!/usr/bin/env python3
"""Measures the emulator's own speed: bench.py BUILD_DIRECTORY OUTPUT.md

Rounds of all cases are interleaved, so that a slow moment of the host hits all of them; medians and
spread are printed. Costs of one execution are differences between runs with more and fewer
iterations, which leaves start-up out.
"""
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
MIB = 1 << 20
CHUNK = 65536  # dma.packet_bytes_cc


class Bench:
    def __init__(self, build):
        self.bin = pathlib.Path(build) / "bin"
        self.samples = {}

    def wall(self, *command):
        """Wall seconds, output, and the largest resident set in MiB."""
        with tempfile.TemporaryFile("w+") as output:
            start = time.monotonic()
            process = subprocess.Popen([str(self.bin / command[0]), *command[1:]],
                                       stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{text}")
        return seconds, text, usage.ru_maxrss // 1024

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def all_reduce(self, size, iterations, *options):
        return self.wall("soma", "run", *options, "--", "nccom-test", "-r", "2", "-b", str(size),
                         "-e", str(size), "-d", "fp32", "-n", str(iterations), "-w", "1", "allr")

    def one_execution(self, size, more, *options):
        few = self.all_reduce(size, 1, *options)
        many = self.all_reduce(size, 1 + more, *options)
        return max(many[0] - few[0], 0.0) / more, many[2]

    def round(self):
        self.add("start", self.wall("soma", "run", "--", "true")[0])
        nanoseconds, kib = self.wall("bench_construct", "trn3-gen2-ultraserver")[1].split()
        self.add("construct", int(nanoseconds) / 1e9)
        self.add("construct_mib", int(kib) / 1024)
        self.add("packet", float(self.wall("bench_packets")[1].split()[2]))
        self.add("data", self.one_execution(256 * MIB, 8)[0])
        self.add("replay", int(self.wall("bench_replay", str(256 * MIB), str(CHUNK))[1]) / 1e9)
        read, first, to_device, to_host, busy = self.wall("bench_attached")[1].split()
        self.add("attached_read", int(read) / 1e3)
        self.add("attached_busy", int(busy) / 1e3)
        self.add("attached_first", int(first) / 1e3)
        self.add("attached_copy", min(int(to_device), int(to_host)) / 1e3)
        seconds, mib = self.one_execution(1024 * MIB, 16, "--timing-only")
        self.add("elided", seconds)
        self.add("elided_mib", mib)

    def median(self, name):
        return statistics.median(self.samples[name])

    def spread(self, name):
        values = self.samples[name]
        return f"{min(values):.3f} to {max(values):.3f}"


def table(bench):
    data, replay = bench.median("data"), bench.median("replay")
    def row(text, name, unit, goal):
        return text, f"{bench.median(name):.3f} {unit}", bench.spread(name), goal

    rows = [
        row("`soma run -- true`, wall", "start", "s", "0.3 s"),
        row("devices of trn3-gen2-ultraserver (144 chips), construction", "construct", "s", "0.2 s"),
        row("the same, memory", "construct_mib", "MiB", "200 MiB"),
        row("a DMA packet of one of 2048 engines that share everything", "packet", "ns", ""),
        row("two-rank all-reduce, fp32, 256 MiB, with data, one execution", "data", "s", ""),
        row("the same copies and adds in a plain loop, one thread", "replay", "s", ""),
        ("ratio of the two", f"{data / replay:.2f}", "", "2"),
        row("two-rank all-reduce, fp32, 1 GiB, timing only, one execution", "elided", "s", "0.2 s"),
        row("the same, largest resident set of a process", "elided_mib", "MiB",
            "no payload: far below 1024 MiB"),
        row("register read of a guest, without QEMU's part", "attached_read", "us", "100 us"),
        row("the same while data move", "attached_busy", "us", "100 us"),
        row("first copy of 64 MiB from a guest to a device", "attached_first", "GB/s", "0.4 GB/s"),
        row("later copies, the slower direction", "attached_copy", "GB/s", "0.4 GB/s"),
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
    text = ["# Speed of the emulator", "",
            "Written by `./dev bench`: wall time on one host, interleaved rounds. Ratios carry over to",
            "other hosts, seconds do not.", "",
            f"Host: {cpu()}, {len(os.sched_getaffinity(0))} processors. "
            f"{ROUNDS} rounds.", ""]
    text += table(bench)
    output.write_text("\n".join(text) + "\n")
    print("\n".join(table(bench)))


if __name__ == "__main__":
    main()
