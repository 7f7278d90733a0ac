#!/usr/bin/env python3
"""Machines as a user has them: run, up, exec, down. run_test.py SOMA"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

TOOL = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True  # tests leave nothing in the source tree
import trace_picture  # noqa: E402


def runs(pid):
    """Not if it has ended and nobody has waited for it yet, as in containers without an init."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Machines(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(dir="/tmp", prefix="rt")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.directory)

    def run_tool(self, *arguments, **options):
        result = subprocess.run([TOOL, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=False, timeout=300,
                                env=self.environment, **options)
        return result.returncode, result.stdout, result.stderr

    def start(self, *arguments):
        return subprocess.Popen([TOOL, *arguments], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def assert_nothing_left(self):
        self.assertEqual(os.listdir(self.directory), [])

    def test_exit_code_and_output_are_the_application_s(self):
        status, output, errors = self.run_tool("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((status, output, errors), (7, "out\n", "err\n"))
        self.assertEqual(self.run_tool("run", "--", "sh", "-c", "kill -9 $$")[0], 137)
        self.assertEqual(self.run_tool("run", "--", "no-such-command")[0], 127)
        self.assert_nothing_left()

    def test_the_device_is_there(self):
        status, output, errors = self.run_tool("run", "--", "sh", "-c", "ls /dev/neuron0; ls /sys/class/neuron_device | head -1")
        self.assertEqual(status, 0, errors)
        self.assertEqual(output, "/dev/neuron0\nneuron0\n")

    def test_interrupt_leaves_nothing(self):
        mark = "31.4159"  # seconds; finds the application in the process list
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            process = self.start("run", "--", "sh", "-c", f"echo ready; exec sleep {mark}")
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(number)
            process.communicate(timeout=120)
            self.assertEqual(process.returncode, code)
            self.assert_nothing_left()
        self.assertNotEqual(subprocess.run(["pgrep", "-f", f"sleep {mark}"], check=False,
                                           stdout=subprocess.DEVNULL).returncode, 0)

    def test_killed_machine_takes_its_application_along(self):
        process = self.start("run", "--", "sh", "-c", "echo $$; exec sleep 60")
        application = int(process.stdout.readline())
        process.kill()
        process.communicate(timeout=120)
        for _ in range(200):
            if not runs(application):
                break
            time.sleep(0.01)
        else:
            self.fail("the application outlived the machine")
        self.assertEqual(self.run_tool("run", "--", "true")[0], 0)
        self.assert_nothing_left()  # the next machine removed what the killed one left

    def test_two_machines_at_once(self):
        processes = [self.start("run", "--", "sh", "-c", "sleep 0.3; ls /dev/neuron0")
                     for _ in range(2)]
        for process in processes:
            output, errors = process.communicate(timeout=120)
            self.assertEqual((process.returncode, output), (0, "/dev/neuron0\n"), errors)
        self.assert_nothing_left()

    def test_reports_are_the_same_every_time(self):
        texts = []
        for number in range(2):
            path = pathlib.Path(self.directory) / f"report{number}"
            self.assertEqual(self.run_tool("run", "--report", path, "--", "true")[0], 0)
            texts.append(path.read_text())
            path.unlink()
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(json.loads(texts[0])["platform"], "trn1.2xlarge")

    def test_trace_has_a_track_per_engine_cc_core_ring_and_direction(self):
        if not (pathlib.Path(TOOL).parent / "nccom-test").exists():
            self.skipTest("nccom-test is not built")
        trace = pathlib.Path(self.directory) / "t.pftrace"
        status, _, errors = self.run_tool(
            "run", "--trace", trace, "--", "nccom-test", "-r", "2", "-b", "256kb", "-e", "256kb",
            "-n", "1", "-w", "0", "allr")
        self.assertEqual(status, 0, errors)
        spans = trace_picture.load(trace)
        rings = {f"d0.dma{engine}.q15" for engine in range(32)}
        directions = {"d0.cross0to1", "d0.cross1to0", "d0.pcie.up", "d0.pcie.down"}
        cores = {"d0.nc0.pool", "d0.nc1.pool", "d0.cc0", "d0.cc3"}
        self.assertLessEqual(rings | directions | cores, set(spans))
        begin, end = trace_picture.window(spans, "d0.cc0", -1)
        self.assertIn("busy 262144 B", [name for at, _, name in spans["d0.cross0to1"]
                                        if begin < at < end])
        svg = trace_picture.picture(spans, begin, end)
        xml.dom.minidom.parseString(svg)
        for name in rings | cores:
            self.assertIn(f">{name}<", svg)
        trace.unlink()

    def test_unwritable_report_and_trace(self):
        self.assertEqual(self.run_tool("run", "--report", "/nonexistent/r", "--", "true")[0], 125)
        self.assertEqual(self.run_tool("run", "--trace", "/nonexistent/t", "--", "true")[0], 125)

    def test_override_that_nothing_reads(self):
        status, _, errors = self.run_tool("run", "--set", "dma.engine_gbps_cap=30", "--", "true")
        self.assertEqual(status, 2)
        self.assertIn("no effect", errors)

    def test_platforms_of_several_devices(self):
        # All platforms: platform_test.py.
        for platform, devices, host in (("inf2.48xlarge", 12, None), ("trn2-ultraserver", 16, "node-0")):
            status, output, errors = self.run_tool(
                "run", "--platform", platform, "--", "sh", "-c", "uname -n; ls -d /dev/neuron*")
            self.assertEqual(status, 0, errors)
            names = output.split()
            self.assertEqual(names[0], host or os.uname().nodename)
            self.assertEqual(sorted(names[1:]), sorted(f"/dev/neuron{n}" for n in range(devices)))

    def test_up_exec_down(self):
        name = ("--name", "t1")
        self.assertEqual(self.run_tool("up", *name)[0], 0)
        self.addCleanup(self.run_tool, "down", *name)
        status, _, errors = self.run_tool("up", *name)
        self.assertEqual(status, 121)
        self.assertIn("soma down", errors)
        self.assertEqual(self.run_tool("exec", *name, "--", "ls", "/dev/neuron0")[1], "/dev/neuron0\n")
        self.assertEqual(self.run_tool("exec", *name, "--", "sh", "-c", "exit 9")[0], 9)
        self.assertEqual(self.run_tool("exec", *name, "--node", "1", "--", "true")[0], 2)
        texts = []
        for number in range(2):
            path = pathlib.Path(self.directory) / f"report{number}"
            self.assertEqual(self.run_tool("exec", *name, "--report", path, "--", "true")[0], 0)
            texts.append(path.read_text())
            path.unlink()
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(self.run_tool("down", *name)[0], 0)
        self.assertEqual(self.run_tool("down", *name)[0], 2)
        self.assert_nothing_left()


if __name__ == "__main__":
    # A shell without job control lets its background commands ignore it, and so would ours.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
