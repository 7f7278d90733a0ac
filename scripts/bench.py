#!/usr/bin/env python3
"""Measures the emulator's own speed: bench.py BUILD_DIRECTORY OUTPUT [--large]

Rounds of all cases are interleaved, so that a slow moment of the host hits all of them; medians and
spread are printed. Costs of one execution are differences between runs with more and fewer
iterations, which leaves start-up out. --large adds a run on 1152 cores.
"""
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROUNDS = 5
MIB = 1 << 20
CHUNK = 65536  # dma.packet_bytes_cc
TRN2 = ("--platform", "trn2.48xlarge")
ELEMENTWISE = {"copy_fp32": "TENSOR_COPY, fp32", "copy_fp32_to_bf16": "TENSOR_COPY, fp32 to bf16",
               "add_fp32": "TENSOR_TENSOR, add, fp32", "add_bf16": "TENSOR_TENSOR, add, bf16"}
# Matrix products, all three dimensions alike.
PRODUCTS = tuple((dtype, size) for dtype in ("bfloat16", "float32") for size in (512, 1024, 2048))
# The smallest size from 1 MiB on that 1152 ranks can exchange in bf16.
EXCHANGED = 1152 * 2 * 456


def family(pid):
    """The process and all that it has started."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:  # it has ended
                continue
            children.setdefault(int(parent), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def resident_mib(pid):
    """Memory of the family, shared pages counted once."""
    total = 0
    for one in family(pid):
        try:
            text = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE).group(1))
    return total / 1024


class Bench:
    def __init__(self, build):
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.room = tempfile.TemporaryDirectory()
        self.files = pathlib.Path(self.room.name)
        self.samples = {}

    def wall(self, *command, watch=None, **environment):
        """Wall seconds, output, and the largest resident set in MiB. `watch` gets the process id."""
        with tempfile.TemporaryFile("w+") as output:
            start = time.monotonic()
            process = subprocess.Popen([str(self.bin / command[0]), *command[1:]], stdout=output,
                                       stderr=subprocess.STDOUT, env={**os.environ, **environment})
            if watch is not None:
                watch(process.pid)
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

    def ranks(self, count, size, iterations, *options, algorithm=None):
        environment = {"NCCOM_CC_ALGO": f"allr:{algorithm}"} if algorithm else {}
        return self.wall("soma", "run", *TRN2, *options, "--", "nccom-test", "-r", str(count), "-b",
                         str(size), "-e", str(size), "-d", "fp32", "-n", str(iterations), "-w", "0",
                         "allr", **environment)

    def one_of_ranks(self, count, size, more, *options, **choice):
        few = self.ranks(count, size, 1, *options, **choice)[0]
        return max(self.ranks(count, size, 1 + more, *options, **choice)[0] - few, 0.0) / more

    def from_doorbell(self, count, size):
        """From the first start of an execution to the last end, in the runtime's log with the host's
        time: of the second execution, so that all ranks are there."""
        text = self.wall("soma", "run", *TRN2, "--timing-only", "--clock", "host", "--", "nccom-test",
                         "-r", str(count), "-b", str(size), "-e", str(size), "-d", "fp32", "-n", "1",
                         "-w", "0", "-I", "1", "-W", "1", "allr", NEURON_RT_LOG_LEVEL="DEBUG",
                         NEURON_RT_LOG_LOCATION="console")[1]
        times = {"starts": [], "ends": []}
        for clock, what in re.findall(r"^\S+ (\S+) .* Execution \d+ of \S+ (starts|ends)$", text,
                                      re.MULTILINE):
            hours, minutes, seconds = clock.split(":")
            times[what].append(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
        starts, ends = sorted(times["starts"])[count:], sorted(times["ends"])[count:]
        if len(starts) != count or len(ends) != count:
            sys.exit(f"{len(starts)} starts and {len(ends)} ends of second executions in:\n{text}")
        return (ends[-1] - starts[0]) % 86400

    def large(self):
        """1152 cores exchange 1 MiB each, by 36 processes."""
        samples, done = [], threading.Event()

        def watch(pid):
            def sample():
                while not done.wait(0.5):
                    samples.append(resident_mib(pid))
            threading.Thread(target=sample).start()

        seconds = self.wall("soma", "run", "--timing-only", "--platform", "trn3-gen2-ultraserver", "--",
                            "nccom-test", "-r", "1152", "-N", "36", "-b", str(EXCHANGED), "-e",
                            str(EXCHANGED), "-d", "bf16", "-n", "1", "-w", "0", "alltoall",
                            watch=watch, NEURON_LOGICAL_NC_CONFIG="1")[0]
        done.set()
        self.add("large", seconds)
        self.add("large_mib", max(samples))

    def kernel(self, name, *arguments):
        """The NEFF of an example kernel."""
        neff = self.files / f"{name}-{'-'.join(map(str, arguments))}.neff"
        if not neff.exists():
            self.wall(f"kernel_{name}", *map(str, arguments), str(neff))
        return neff

    def one_of_kernel(self, neff, more, *options):
        """Seconds of one execution, and how many instructions it has."""
        report = self.files / "report.json"

        def run(times):
            return self.wall("soma", "run", "--platform", "trn1.2xlarge", "--report", str(report),
                             *options, "--", str(self.bin / "bench_execute"), str(neff),
                             str(times))[0]
        few = run(1)
        seconds = max(run(1 + more) - few, 0.0) / more
        execution = json.loads(report.read_text())["executions"][0]
        return seconds, sum(e["instructions"] for e in execution["engines"]) / execution["count"]

    def engines(self):
        neff = self.kernel("attention", "bfloat16", 8, 4096, 128, 0)
        seconds, instructions = self.one_of_kernel(neff, 10, "--timing-only")
        self.add("instructions", instructions / max(seconds, 1e-9) / 1e6)
        blas = (self.bin / "bench_blas").exists()
        for dtype, size in PRODUCTS:
            neff = self.kernel("matmul", dtype, size, size, size)
            emulated = self.one_of_kernel(neff, 2 * (2048 // size) ** 2)[0]
            self.add(f"{dtype}{size}", emulated)
            if blas:
                own = int(self.wall("bench_blas", str(size))[1]) / 1e9
                self.add(f"{dtype}{size}_ratio", emulated / own)
        for line in self.wall("bench_elementwise")[1].splitlines():
            name, ratio = line.split()
            self.add(name, float(ratio))

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
        self.add("load64", self.ranks(64, MIB, 1, "--timing-only")[0])
        self.add("elided64", self.from_doorbell(64, 1024 * MIB))
        self.add("data32", self.one_of_ranks(32, MIB, 8))
        self.add("data16", self.one_of_ranks(16, 16 * MIB, 4, algorithm="ring"))
        self.add("replay16", int(self.wall("bench_replay", str(16 * MIB), str(CHUNK), "16")[1]) / 1e9)
        self.engines()

    def median(self, name):
        return statistics.median(self.samples[name])

    def spread(self, name):
        values = self.samples[name]
        return f"{min(values):.3f} to {max(values):.3f}"


def table(bench):
    data, replay = bench.median("data"), bench.median("replay")
    data16, replay16 = bench.median("data16"), bench.median("replay16")

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
        row("64-rank all-reduce, 1 MiB, timing only, start to end of the command", "load64", "s", "1 s"),
        row("64-rank all-reduce, 1 GiB, timing only, first doorbell to last completion", "elided64",
            "s", "0.5 s"),
        row("32-rank all-reduce, fp32, 1 MiB, with data, one operation", "data32", "s", "0.2 s"),
        row("16-rank ring all-reduce, fp32, 16 MiB, with data, one operation", "data16", "s", ""),
        row("the same copies and adds in a plain loop, one thread", "replay16", "s", ""),
        ("ratio of the two", f"{data16 / replay16:.2f}", "", "2"),
        row("register read of a guest, without QEMU's part", "attached_read", "us", "100 us"),
        row("the same while data move", "attached_busy", "us", "100 us"),
        row("first copy of 64 MiB from a guest to a device", "attached_first", "GB/s", "0.4 GB/s"),
        row("later copies, the slower direction", "attached_copy", "GB/s", "0.4 GB/s"),
    ]
    rows.append(row("instructions of attention (8 heads, 4096 tokens), timing only", "instructions",
                    "million/s", "2 million/s"))
    for dtype, size in PRODUCTS:
        text = f"matmul kernel, {dtype}, {size} x {size} x {size}, with data, one execution"
        rows.append(row(text, f"{dtype}{size}", "s", ""))
        if f"{dtype}{size}_ratio" in bench.samples:
            rows.append(row("the same, times of OpenBLAS `sgemm`, one thread",
                            f"{dtype}{size}_ratio", "", "1.5"))
    for name, text in ELEMENTWISE.items():
        rows.append(row(f"{text}, times of `memcpy` of its bytes", name, "", "2"))
    if "large" in bench.samples:
        rows += [
            row("1152 cores of trn3-gen2-ultraserver, all-to-all of 1 MiB, timing only, the command",
                "large", "s", "60 s"),
            row("the same, memory of all 38 processes", "large_mib", "MiB", "4096 MiB"),
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
    if "--large" in sys.argv[3:]:
        bench.large()
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
