#!/usr/bin/env python3
"""Transfers whose descriptors engines make, through libnrt on trn2: dma_test.py BUILD"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
PATIENCE = 100  # seconds


class GeneratedTransfers(unittest.TestCase):
    def run_cases(self, platform, *options, case=()):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("NEURON_")}
        environment["NEURON_LOGICAL_NC_CONFIG"] = "1"
        return subprocess.run([BUILD / "bin" / "soma", "run", "--platform", platform, *options,
                               "--", BUILD / "bin" / "client" / "check_dma", *case],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment, timeout=PATIENCE)

    def test_all_cases(self):
        with tempfile.TemporaryDirectory(prefix="dma") as directory:
            file = pathlib.Path(directory) / "report.json"
            ran = self.run_cases("trn2.3xlarge", "--report", file)
            self.assertEqual(ran.returncode, 0, ran.stdout)
            self.assertNotIn("wrong", ran.stdout)
            self.assertGreaterEqual(ran.stdout.count(": right"), 17, ran.stdout)
            counters = {counter["name"]: counter["value"]
                        for counter in json.loads(file.read_text())["counters"]}
            self.assertGreater(counters["generated_transfers"], 20)
            self.assertGreater(counters["generated_descriptors"], 1000)
            self.assertEqual(counters["dma_errors"], 0)

    def test_out_of_bounds_names_the_line(self):
        ran = self.run_cases("trn2.3xlarge", case=("out_of_bounds",))
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertRegex(ran.stdout, r"engine pool reported: .*out-of-bound access "
                         r"\(info 16777256\) of DMA_INDIRECT, operand src at record "
                         r".*check_dma\.cpp:\d+ \(load_rows\)")

    def test_same_report_twice(self):
        with tempfile.TemporaryDirectory(prefix="dma") as directory:
            reports = []
            for name in ("a.json", "b.json"):
                file = pathlib.Path(directory) / name
                ran = self.run_cases("trn2.3xlarge", "--report", file, case=("gathers",))
                self.assertEqual(ran.returncode, 0, ran.stdout)
                reports.append(file.read_bytes())
            self.assertEqual(*reports)


if __name__ == "__main__":
    unittest.main()
