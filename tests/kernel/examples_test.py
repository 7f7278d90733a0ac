#!/usr/bin/env python3
"""The kernels of examples/kernels, in several sizes, against references: examples_test.py BUILD

Each is written by its program and executed by another through the runtime in a machine."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
PATIENCE = 100  # seconds


class Kernels(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kernels")
        self.addCleanup(directory.cleanup)
        self.neff = pathlib.Path(directory.name) / "kernel.neff"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("NEURON_")}

    def command(self, *words):
        return subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, env=self.environment, timeout=PATIENCE)

    def write(self, example, *sizes):
        return self.command(BUILD / "bin" / f"kernel_{example}", *sizes, self.neff)

    def check(self, example, *sizes, options=()):
        with self.subTest(example=example, sizes=sizes):
            written = self.write(example, *options, *sizes)
            self.assertEqual(written.returncode, 0, written.stdout)
            ran = self.command(BUILD / "bin" / "soma", "run", "--",
                               BUILD / "bin" / "client" / "check_kernel", self.neff, example,
                               *sizes)
            self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_tensor_add(self):
        for elements in (1, 127, 128, 1000, 600_001):
            self.check("tensor_add", elements)

    def test_softmax(self):
        for sizes in ((1, 1), (128, 64), (200, 333)):
            self.check("softmax", *sizes)

    def test_norm(self):
        for kind in ("rms", "layer"):
            for sizes in ((1, 8), (130, 257)):
                self.check("norm", *sizes, options=(kind,))

    def test_matmul(self):
        for sizes in ((1, 1, 1), (128, 128, 512), (130, 300, 600)):
            self.check("matmul", *sizes)

    def test_transpose(self):
        for sizes in ((1, 5), (128, 128), (200, 300)):
            self.check("transpose", *sizes)

    def test_average_pool(self):
        for sizes in ((3, 8, 8, 2, 2), (130, 9, 11, 3, 2), (1, 5, 5, 5, 1)):
            self.check("average_pool", *sizes)

    def test_what_does_not_fit_is_said(self):
        result = self.write("softmax", 128, 12000)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"softmax\.cpp:\d+: tile 'out1': 48000 bytes in each of "
                         r"128 partitions do not fit in SBUF of 180224: 144000 are allocated")
        self.assertFalse(self.neff.exists())


if __name__ == "__main__":
    unittest.main()
