#!/usr/bin/env python3
"""Repeatability, end to end: repeat_test.py SOMA

The same two-rank all-reduce gives byte-identical reports and tables on an idle and on a loaded host;
timing-only changes no time and no count; halving a rate moves the times that depend on it.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = sys.argv.pop(1)
COMMAND = ["nccom-test", "-r", "2", "-b", "1kb", "-e", "1mb", "-f", "32", "-n", "3", "-w", "1",
           "-d", "fp32", "allr"]


def load():
    """Processes that keep every processor busy, and then some."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(2 * len(os.sched_getaffinity(0)))]


def stop(processes):
    for process in processes:
        process.kill()
        process.wait()


class Repeatability(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.count = 0

    def run_once(self, *options):
        self.count += 1
        report = self.directory / f"report{self.count}"
        result = subprocess.run([TOOL, "run", "--report", report, *options, "--", *COMMAND],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                check=False, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout)
        table = [line for line in result.stdout.splitlines() if "seed" not in line]
        self.assertGreater(len(table), 2)
        return table, report.read_text()

    def times(self, *options):
        """Simulated microseconds by size."""
        rows = [line.split() for line in self.run_once(*options)[0]]
        return {int(row[0]): float(row[3]) for row in rows if row and row[0].isdigit()}

    def test_idle_and_loaded_host(self):
        table, report = self.run_once()
        self.assertTrue(json.loads(report)["repeatable"])
        self.assertEqual(self.run_once(), (table, report))
        busy = load()
        try:
            self.assertEqual(self.run_once(), (table, report))
        finally:
            stop(busy)

    def test_timing_only_changes_no_time_and_no_count(self):
        table, report = self.run_once()
        elided_table, elided_report = self.run_once("--timing-only")
        self.assertEqual(elided_table, table)
        real, elided = json.loads(report), json.loads(elided_report)
        for key in ("activities", "resources", "counters", "active_ps", "slices"):
            self.assertEqual(elided[key], real[key], key)
        self.assertEqual(real["fidelity"]["elided_bytes"], 0)
        self.assertGreater(elided["fidelity"]["elided_bytes"], 1 << 20)
        self.assertEqual(elided["fidelity"]["elided"], [])

    def test_rates_matter_where_they_are_the_bottleneck(self):
        normal = self.times("--timing-only")
        small, large = min(normal), max(normal)
        fabric = self.times("--timing-only", "--set", "fabric.core_to_core_gbps=28.5")
        self.assertGreater(fabric[large], 1.7 * normal[large])
        self.assertLess(fabric[small], 1.1 * normal[small])
        memory = self.times("--timing-only", "--set", "hbm.stack_gbps=300")
        self.assertLess(memory[large], 1.1 * normal[large])
        host = self.times("--timing-only", "--set", "host.pcie_gbps=8")
        self.assertEqual(host, normal)


if __name__ == "__main__":
    unittest.main()
