#!/usr/bin/env python3
"""`soma sweep` as a user has it: sweep_test.py SOMA"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

TOOL = sys.argv.pop(1)
PAIR = ["--sizes", "1kb:64kb:64", "--set", "fabric.core_to_core_gbps=60,120"]
FILES = ("out.csv", "out.html", "out.svg")


class Sweeps(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def sweep(self, *arguments):
        result = subprocess.run([TOOL, "sweep", *arguments], stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.PIPE, check=False, timeout=300,
                                cwd=self.directory)
        return result.returncode, result.stdout, result.stderr

    def files(self):
        return [(self.directory / name).read_text() for name in FILES]

    def rows(self):
        return (self.directory / "out.csv").read_text().splitlines()[1:]

    def test_same_command_same_bytes(self):
        outputs = ["--csv", "out.csv", "--html", "out.html", "--svg", "out.svg"]
        status, table, errors = self.sweep(*PAIR, *outputs, "--jobs", "1")
        self.assertEqual(status, 0, errors)
        self.assertIn("4/4", errors)
        self.assertIn("[1] / [2]", table)
        first = self.files()
        for text in first[1:]:
            self.assertIn("fabric.core_to_core_gbps=120", text)
        self.assertIn("soma sweep --sizes 1kb:64kb:64", first[1])
        self.assertIn("published measurement N01", first[2])
        xml.dom.minidom.parseString(first[2])
        # Order of ends does not matter: the number of jobs is in the command line alone.
        self.assertEqual(self.sweep(*PAIR, *outputs, "--jobs", "2")[:2], (0, table))
        self.assertEqual([t.replace("--jobs 2", "--jobs 1") for t in self.files()], first)
        self.assertEqual(len(self.rows()), 4)

    def test_resumes(self):
        status, _, errors = self.sweep("--sizes", "1kb", "--csv", "out.csv", "--resume")
        self.assertEqual(status, 0, errors)
        status, _, errors = self.sweep("--sizes", "1kb:4kb", "--csv", "out.csv", "--resume")
        self.assertEqual(status, 0, errors)
        self.assertIn("1 points are in out.csv", errors)
        self.assertIn("2/2", errors)
        resumed = self.rows()
        self.assertEqual(self.sweep("--sizes", "1kb:4kb", "--csv", "out.csv")[0], 0)
        self.assertEqual(self.rows(), resumed)
        (self.directory / "out.csv").write_text("something else\n")
        self.assertEqual(self.sweep("--sizes", "1kb", "--csv", "out.csv", "--resume")[0], 2)
        self.assertEqual((self.directory / "out.csv").read_text(), "something else\n")

    def test_a_point_that_fails_stops_no_other(self):
        # A hierarchical algorithm needs several nodes.
        status, table, errors = self.sweep("--sizes", "1kb", "--algo", "hier,mesh", "--csv", "out.csv")
        self.assertEqual(status, 1, errors)
        failed, measured = self.rows()
        self.assertIn(",hier,", failed)
        self.assertIn(",mesh,", measured)
        self.assertIn("hier, 1 KiB: Unsupported: collectives: hier: needs several nodes", table)

    def interrupted(self, number):
        """A sweep that a signal stops after its first point."""
        process = subprocess.Popen([TOOL, "sweep", "--sizes", "1kb:64mb:2", "--jobs", "1", "--iters", "50",
                                    "--csv", "out.csv", "--html", "out.html"], cwd=self.directory,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.assertIn("1/17", process.stderr.readline())
        process.send_signal(number)
        return process

    def test_interrupt_leaves_what_was_measured(self):
        process = self.interrupted(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        rows = self.rows()
        self.assertGreater(len(rows), 0)
        self.assertLess(len(rows), 17)
        self.assertTrue(all(row.endswith(",") for row in rows), rows)
        page = (self.directory / "out.html").read_text()
        self.assertIn(f"{17 - len(rows)} points were not measured", page)

    def test_a_killed_sweep_leaves_its_file_and_nothing_else(self):
        temporary = set(os.listdir("/tmp"))
        process = self.interrupted(signal.SIGKILL)
        os.killpg(process.pid, signal.SIGTERM)  # the run that it had started
        process.communicate(timeout=120)
        left = set(os.listdir("/tmp")) - temporary
        self.assertEqual([name for name in left if "sweep" in name], [])
        self.assertTrue((self.directory / "out.csv").read_text().endswith("\n"))

    def test_mistakes_are_found_before_anything_runs(self):
        for arguments, message in (
                (["--platform", "trn9"], "trn9"),
                (["--platform", ""], "platform"),
                (["--set", "link.nl9=1,2"], "link.nl9"),
                (["--set", "fabric.core_to_core_gbps=60,,120"], "empty value"),
                (["--set", "fabric.core_to_core_gbps=fast"], "fast"),
                (["--set", "fabric.core_to_core_gbps"], "name=value"),
                (["--sizes", "big"], "big"),
                (["--sizes", ""], "--sizes"),
                (["--sizes", "1kb:1mb:1"], "factor"),
                (["--sizes", "2mb:1mb"], "bytes"),
                (["--op", "allred"], "allred"),
                (["--datatype", "fp7"], "fp7"),
                (["--ranks", "0"], "nworkers"),
                (["--ranks", "77"], "77 ranks"),
                (["--iters", "0"], "iters"),
                (["--resume"], "--csv"),
                (["--resume", "--csv", "."], "Is a directory"),
                (["--algo", "mesh,bruck"], "available: ring"),
                (["--csv", "/nowhere/out.csv"], "/nowhere/out.csv"),
                (["--html", "/nowhere/out.html"], "/nowhere/out.html"),
                (["--svg", "/nowhere/out.svg"], "/nowhere/out.svg")):
            status, output, errors = self.sweep(*arguments)
            self.assertEqual(status, 1 if "nowhere" in message else 2, (arguments, errors))
            self.assertEqual(output, "", arguments)
            self.assertIn(message, errors, arguments)
            self.assertNotIn("1/", errors, arguments)
            self.assertEqual(errors.count("\n"), 1, errors)


if __name__ == "__main__":
    unittest.main()
