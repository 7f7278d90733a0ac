#!/usr/bin/env python3
"""Instructions, registers, loops and branches of kernels through libnrt: compute_test.py BUILD"""
import os
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
PATIENCE = 100  # seconds


class Kernels(unittest.TestCase):
    def run_cases(self, platform, generation, *options):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("NEURON_")}
        environment["NEURON_LOGICAL_NC_CONFIG"] = "1"
        return subprocess.run([BUILD / "bin" / "soma", "run", "--platform", platform, *options,
                               "--", BUILD / "bin" / "client" / "check_compute", generation],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment, timeout=PATIENCE)

    def check(self, platform, generation, least):
        ran = self.run_cases(platform, generation)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertNotIn("wrong", ran.stdout)
        self.assertGreaterEqual(ran.stdout.count(": right"), least, ran.stdout)

    def test_v2(self):
        self.check("trn1.2xlarge", "v2", 14)

    def test_v3(self):
        self.check("trn2.3xlarge", "v3", 18)

    def test_v4(self):
        self.check("trn3-gen2-server", "v4", 22)

    def test_nothing_races(self):
        ran = self.run_cases("trn2.3xlarge", "v3", "--check")
        self.assertEqual(ran.returncode, 0, ran.stdout)  # another one: the checks found something


if __name__ == "__main__":
    unittest.main()
