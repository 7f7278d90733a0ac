#!/usr/bin/env python3
"""`soma run --check` on a kernel whose waits are taken out one by one: checks_test.py BUILD"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
PATIENCE = 100  # seconds
FOUND = 119  # exit status: the command succeeded, the checks found something


class Checks(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="checks")
        self.addCleanup(directory.cleanup)
        self.neff = pathlib.Path(directory.name) / "kernel.neff"
        self.report = self.neff.with_name("report.json")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("NEURON_")}

    def command(self, *words):
        return subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, env=self.environment, timeout=PATIENCE)

    def succeed(self, *words):
        result = self.command(*words)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def write(self, example, *sizes):
        self.succeed(BUILD / "bin" / f"kernel_{example}", *sizes, self.neff)

    def execute(self, example, *sizes, check="--check"):
        options = [check] if check else []
        return self.command(BUILD / "bin" / "soma", "run", *options, "--report", self.report, "--",
                            BUILD / "bin" / "client" / "check_kernel", self.neff, example, *sizes)

    def findings(self):
        return json.loads(self.report.read_text())["checks"]["findings"]

    def change(self, engine, old, new):
        """Replaces text in the program of an engine."""
        neff = BUILD / "bin" / "neff"
        members = self.neff.with_name("members")
        self.succeed(neff, "unpack", self.neff, "-o", members)
        (members / "neff.tgz").unlink()
        program = members / "sg00" / f"{engine}.bin"
        text = self.succeed(neff, "dis", program)
        self.assertIn(old, text)
        source = program.with_suffix(".s")
        source.write_text(text.replace(old, new))
        self.succeed(neff, "as", source, "-o", program)
        source.unlink()
        self.succeed(neff, "pack", members, "-o", self.neff)

    def test_a_right_program(self):
        self.write("softmax", 200, 64)
        ran = self.execute("softmax", 200, 64)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertNotIn("warning", ran.stdout)
        self.assertEqual(json.loads(self.report.read_text())["checks"],
                         {"findings": [], "more": 0})

    def test_off(self):
        self.write("softmax", 100, 64)
        self.change("sp", "EVENT_SEMAPHORE_RANGE_CLEAR", "NOTIFY type=NOTIFY payload=1 #")
        ran = self.execute("softmax", 100, 64, check="--check=off")
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertNotIn("checks", json.loads(self.report.read_text()))

    def test_a_race_that_went_well(self):
        """Vector does not wait for the second load, which is there in time: the result is right,
        and both instructions are named with their lines."""
        self.write("softmax", 200, 64)
        self.change("dve", " $S[17]>=16", "")
        ran = self.execute("softmax", 200, 64)
        self.assertEqual(ran.returncode, FOUND, ran.stdout)
        self.assertIn(" 0 wrong", ran.stdout)
        self.assertRegex(ran.stdout, r"read not ordered behind a write: d0\.nc0\.sbuf .*\n"
                         r" +DMA \(d0\.dma\d+ queue \d+\) of d0\.nc0\.sp WRITE at record \d+, "
                         r"\S*softmax\.cpp:\d+ \(load\)\n"
                         r" +d0\.nc0\.dve TENSOR_REDUCE at record \d+, "
                         r"\S*softmax\.cpp:\d+ \(tensor_reduce\)\n")
        found = self.findings()
        self.assertEqual({f["kind"] for f in found}, {"read not ordered behind a write"})
        self.assertEqual([i["who"] for i in found[-1]["instructions"]],
                         ["d0.nc0.sp", "d0.nc0.dve"])

    def test_reads_of_what_is_not_there_yet(self):
        self.write("softmax", 100, 64)
        self.change("dve", " $S[16]>=16", "")
        ran = self.execute("softmax", 100, 64)
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("read of what was never written", {f["kind"] for f in self.findings()})

    def test_stores_that_do_not_wait(self):
        """DMA reads SBUF before the last engine has written it, and the host reads the rest."""
        self.write("softmax", 100, 64)
        self.change("pool", "PSEUDO_DMA_TRIGGER $S[3]>=2", "PSEUDO_DMA_TRIGGER $S[3]>=1")
        self.execute("softmax", 100, 64)
        races = [f for f in self.findings() if "dma" in f["instructions"][0]]
        self.assertTrue(races, self.findings())
        self.assertRegex(races[0]["instructions"][0]["line"], r"softmax\.cpp:\d+ \(store\)")

    def test_semaphores_left(self):
        self.write("softmax", 100, 64)
        self.change("sp", "first=0 last=", "first=2 last=")
        ran = self.execute("softmax", 100, 64)
        self.assertEqual(ran.returncode, FOUND, ran.stdout)
        kinds = {(f["kind"], f["where"]) for f in self.findings()}
        self.assertEqual(kinds, {("semaphore left non-zero", "d0.nc0.semaphores 1")})

    def test_equal_runs_give_equal_reports(self):
        self.write("softmax", 200, 64)
        self.change("dve", " $S[17]>=16", "")
        self.execute("softmax", 200, 64)
        first = self.report.read_bytes()
        self.execute("softmax", 200, 64)
        self.assertEqual(self.report.read_bytes(), first)


if __name__ == "__main__":
    unittest.main()
