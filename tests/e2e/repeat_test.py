#!/usr/bin/env python3
"""The same command gives the same result, whatever the host does. repeat_test.py BUILD"""
import os
import subprocess
import sys

from bench import EndToEnd, main

SWEEP = ("-b", "1kb", "-e", "1mb", "-f", "32", "-n", "2", "-w", "1")
# What must not depend on whether payload moves.
COMPARED = ("slices", "repeatable", "active_ps", "activities", "resources", "counters")


class Repeat(EndToEnd):
    def load_the_host(self):
        """Twice as many busy processes as the host has processors."""
        for _ in range(2 * (os.cpu_count() or 1)):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)

    def assert_same(self, first, second):
        self.assertEqual(first.output, second.output)
        self.assertEqual(first.report_text, second.report_text)
        self.assertTrue(first.report["repeatable"])
        self.assertEqual(first.report["slices"], 0)

    def commands(self):
        check = ("--check", "--seed", "5")
        yield lambda: self.nccom([], *SWEEP, *check, "-d", "bf16", "allr")
        yield lambda: self.nccom([], *SWEEP, *check, "-d", "int32", "redsct")
        yield lambda: self.nccom([], *SWEEP, *check, "allg")
        yield lambda: self.run_on([], [self.program("vector_add"), self.neff("vector_add"), "3"])

    def test_same_report_and_output_idle_and_loaded(self):
        before = [command() for command in self.commands()]
        again = [command() for command in self.commands()]
        self.load_the_host()
        loaded = [command() for command in self.commands()]
        for a, b, c in zip(before, again, loaded):
            self.assert_ok(a)
            self.assert_same(a, b)
            self.assert_same(a, c)

    def test_two_threads_of_one_process_repeat(self):
        command = [self.program("allreduce_two_ranks"), self.neff("allreduce_two_ranks")]
        runs = [self.run_on([], command) for _ in range(3)]
        self.assert_ok(runs[0])
        for run in runs[1:]:
            self.assertEqual(sorted(run.output.splitlines()), sorted(runs[0].output.splitlines()))
            self.assertEqual(run.report_text, runs[0].report_text)

    def test_two_processes_repeat_whoever_comes_first(self):
        runs = [self.two_processes() for _ in range(3)]
        self.load_the_host()
        runs += [self.two_processes() for _ in range(2)]
        self.assert_ok(runs[0])
        for run in runs[1:]:
            self.assert_same(runs[0], run)

    def assert_same_with_and_without_payload(self, options, *arguments, **environment):
        run = lambda more: self.run_on([*options, *more], [self.program("nccom-test"), *arguments],
                                       **environment)
        real, elided = run([]), run(["--timing-only"])
        self.assert_ok(real)
        self.assert_ok(elided)
        self.assertEqual(real.output, elided.output)
        for key in COMPARED:
            self.assertEqual(real.report[key], elided.report[key], key)
        self.assertEqual(real.report["fidelity"]["elided_bytes"], 0)
        self.assertGreater(elided.report["fidelity"]["elided_bytes"], 0)
        self.assertEqual(elided.report["fidelity"]["elided"], [])
        counters = {row["name"]: row["value"] for row in real.report["counters"]}
        for name in ("descriptors", "doorbells", "semaphore_updates", "notifications"):
            self.assertGreater(counters[name], 0, name)

    def test_timing_only_changes_no_time_and_no_count(self):
        for operation in ("allr", "allg", "redsct"):
            with self.subTest(operation=operation):
                self.assert_same_with_and_without_payload([], "-r", "2", *SWEEP, "-d", "fp32", operation)

    def test_timing_only_changes_nothing_for_many_ranks(self):
        for operation in ("allr", "alltoall"):
            with self.subTest(operation=operation):
                self.assert_same_with_and_without_payload(
                    ["--platform", "trn2.48xlarge"], "-r", "16", "-b", "256kb", "-e", "256kb", "-n", "2",
                    "-w", "0", "-d", "bf16", operation, NEURON_RT_VISIBLE_CORES="0-15")


if __name__ == "__main__":
    main(sys.argv)
