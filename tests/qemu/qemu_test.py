#!/usr/bin/env python3
"""A device for the guest of a stock QEMU: qemu_test.py SOMA"""
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

TOOL = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True  # tests leave nothing in the source tree
import qtest_guest  # noqa: E402
from qtest_guest import BAR4, DATA, HBM1, HOST, MISC, Guest  # noqa: E402

NO_SCREEN = ("-nodefaults", "-display", "none")


def run(*arguments, **options):
    result = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, check=False, timeout=300, **options)
    return result.returncode, result.stdout, result.stderr


def data_of(size, seed):
    return bytes((i * 7 + i // 251 + seed) & 0xFF for i in range(size))


class Qemu(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(dir="/tmp", prefix="qt")
        self.addCleanup(shutil.rmtree, self.directory)

    def guest(self, *options, **more):
        guest = Guest(TOOL, self.directory, *options, **more)

        def leave():
            if guest.process.poll() is None:
                guest.process.kill()
            guest.process.communicate()
        self.addCleanup(leave)
        return guest

    def round_trip(self, guest, size, seed):
        """Host to HBM, there to the other stack, and back."""
        data = data_of(size, seed)
        back = DATA + 0x400000
        guest.write(DATA, data)
        guest.write(back, bytes(size))
        self.assertTrue(guest.copy(0x1000000, HOST | DATA, size))
        self.assertTrue(guest.copy(HBM1 + 0x1000000, 0x1000000, size))
        self.assertTrue(guest.copy(HOST | back, HBM1 + 0x1000000, size))
        self.assertEqual(guest.read(back, size), data)

    def test_register_sequences(self):
        report = os.path.join(self.directory, "report.json")
        trace = os.path.join(self.directory, "trace.pftrace")
        guest = self.guest("--report", report, "--trace", trace, "--set", "dma.engine_gbps=8.5")
        self.assertEqual(guest.config(0x00), 0x71641D0F)
        self.assertEqual(guest.config(0x08, size=1), 0x00)
        self.assertEqual(guest.config(0x3D, size=1), 0)
        self.assertEqual([guest.bar_size(bar) for bar in range(6)],
                         [1 << 30, 0, 0, 0, 512 << 20, 0])
        guest.boot()
        self.assertEqual(guest.get(MISC + 0x24), 0)
        self.assertTrue(guest.reset_device())
        guest.set_up_queue()
        for seed, size in enumerate((1, 4096, 65535, 65536, 200001)):
            self.round_trip(guest, size, seed)
        for seed in range(12):  # the rings wrap around
            self.round_trip(guest, 300, seed)
        self.assertEqual(guest.read(BAR4 + 0x1000000, 300), data_of(300, 11))
        self.assertEqual(guest.get(0x3FFF0000), 0)
        guest.process.terminate()
        self.assertEqual(guest.end()[0], 0)  # QEMU's way
        with open(report, encoding="utf-8") as file:
            said = json.load(file)
        self.assertGreater(os.path.getsize(trace), 1000)
        self.assertEqual(said["timing"]["overrides"][0]["name"], "dma.engine_gbps")
        self.assertEqual((said["policy"], said["repeatable"]), ("free", False))
        self.assertEqual([row["name"] for row in said["fidelity"]["unknown"]],
                         ["pcie bar0+0x03fff0000"])

    def test_system_reset(self):
        guest = self.guest()
        for seed in range(2):
            guest.boot()
            self.assertTrue(guest.reset_device())
            guest.set_up_queue()
            self.round_trip(guest, 70000, seed)
            guest.put(MISC + 0x190, 0x1234)
            guest.monitor("system_reset")
            self.assertTrue(guest.wait(lambda: guest.config(0x04, size=2) == 0))
            self.assertEqual(guest.config(0x10), 0)
            guest.boot()
            self.assertEqual(guest.get(MISC + 0x190), 0)
            self.assertEqual(guest.read(BAR4 + 0x1000000, 70000), data_of(70000, seed))
        guest.monitor("quit")
        self.assertEqual(guest.end()[0], 0)

    def test_qemu_revision(self):
        guest = self.guest("--revision", "qemu")
        self.assertEqual(guest.config(0x08, size=1), 0xFF)
        self.assertEqual(guest.bar_size(2), 1 << 30)
        guest.boot(register_bar=2)
        guest.put(0x30647010, 1)
        self.assertTrue(guest.reset_device())
        self.assertTrue(guest.wait(lambda: guest.get(0x30647010) == 0))

    def test_firmware_places_the_bars(self):
        process = subprocess.Popen(
            [TOOL, "qemu", "--", *NO_SCREEN, "-monitor", "stdio", "-m", "3G", "-vga", "std"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)

        def bars():
            process.stdin.write("info pci\n")
            process.stdin.flush()
            seen = []
            while not seen or "neuron0" not in seen[-1]:
                seen.append(process.stdout.readline())
                self.assertTrue(seen[-1], "QEMU is gone")
            return [line.split() for line in seen[-3:-1]]

        def wait_for_bars():
            for _ in range(200):
                seen = bars()
                if "0xffffffffffffffff" not in str(seen):
                    return seen
                time.sleep(0.05)
            return None
        first = wait_for_bars()
        self.assertEqual(first, [["BAR0:", "32", "bit", "memory", "at", "0x80000000",
                                  "[0xbfffffff]."],
                                 ["BAR4:", "32", "bit", "memory", "at", "0xc0000000",
                                  "[0xdfffffff]."]])
        # QEMU 7.2 locks itself up where the monitor and a processor are at the device.
        process.stdin.write("stop\nxp /1wx 0xb0fa0038\nsystem_reset\ncont\n")
        process.stdin.flush()
        time.sleep(0.2)
        self.assertEqual(wait_for_bars(), first)
        output, _ = process.communicate("quit\n", timeout=120)
        self.assertEqual(process.returncode, 0, output)

    def test_exit_status_of_the_guest(self):
        guest = self.guest(qemu=("-device", "isa-debug-exit,iobase=0xf4,iosize=4"))
        guest.process.stdin.write("outl 0xf4 0x15\n")
        guest.process.stdin.flush()
        self.assertEqual(guest.end()[0], 0x15 << 1 | 1)

    def children(self, pid):
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def test_a_killed_qemu(self):
        guest = self.guest()
        guest.config(0)
        (child,) = self.children(guest.process.pid)
        os.kill(int(child), signal.SIGKILL)
        self.assertEqual(guest.end()[0], 128 + signal.SIGKILL)

    def test_nothing_stays_behind(self):
        guest = self.guest()
        guest.config(0)
        (child,) = self.children(guest.process.pid)
        guest.process.kill()
        guest.process.communicate()
        for _ in range(100):
            if not os.path.exists(f"/proc/{child}"):
                return
            time.sleep(0.05)
        self.fail("QEMU outlives the machine")

    def test_at_rest_it_uses_no_processor(self):
        guest = self.guest()
        guest.boot()
        self.assertTrue(guest.reset_device())

        def ticks():
            fields = pathlib.Path(f"/proc/{guest.process.pid}/stat").read_text().rsplit(")")[1]
            return sum(int(n) for n in fields.split()[11:13])
        before = ticks()
        time.sleep(1)
        self.assertLessEqual(ticks() - before, 1)  # of 10 ms

    def test_registers_answer_soon(self):
        guest = self.guest()
        guest.boot()
        begin = time.monotonic()
        for _ in range(1000):
            guest.get(MISC + 0x24)
        # Each with two pipes and two processes of the test around it.
        self.assertLess((time.monotonic() - begin) / 1000, 0.001)

    def test_a_broken_protocol(self):
        """Whoever calls itself QEMU and speaks nonsense is ended; the failure is the machine's."""
        fake = os.path.join(self.directory, "qemu-system-x86_64")
        with open(fake, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n"
                       "fd=$(echo \"$*\" | sed 's/.*fd=\\([0-9]*\\).*/\\1/')\n"
                       "echo 'nonsense and more nonsense' >&$fd\n"
                       "exec sleep 60\n")
        os.chmod(fake, 0o755)
        environment = dict(os.environ, PATH=f"{self.directory}:{os.environ['PATH']}")
        status, _, errors = run("qemu", "--", "-m", "64", env=environment)
        self.assertEqual(status, 121)
        self.assertIn("remote PCI", errors)

    def test_no_qemu(self):
        status, _, errors = run("qemu", env={"PATH": self.directory})
        self.assertEqual(status, 127)
        self.assertIn("qemu-system-x86", errors)

    def test_what_qemu_refuses(self):
        status, _, errors = run("qemu", "--", "-device", "no-such-device", *NO_SCREEN)
        self.assertEqual(status, 1)
        self.assertIn("no-such-device", errors)
        self.assertEqual(run("qemu", "--", "--version")[0], 0)

    def test_what_cannot_be_combined(self):
        for arguments, word in ((("-m", "1G,slots=2,maxmem=2G"), "slots"), (("-m", "12x"), "12x"),
                                (("-M", "pc,memory-backend=m"), "memory-backend"),
                                (("-mem-path", "/tmp"), "-mem-path")):
            status, _, errors = run("qemu", "--", *arguments)
            self.assertEqual(status, 2, errors)
            self.assertIn(word, errors)
        for option, word in (("--revision=300", "silicon"), ("--set=time.slice_us=1", "no effect"),
                             ("--policy=epoch", "unknown argument")):
            status, _, errors = run("qemu", option)
            self.assertEqual(status, 2, errors)
            self.assertIn(word, errors)

    def test_platforms_that_do_not_fit(self):
        for platform in ("trn2.48xlarge", "trn2.3xlarge", "trn3-gen1-server", "trn1.32xlarge"):
            status, _, errors = run("qemu", "--platform", platform)
            self.assertEqual(status, 123, errors)
            self.assertIn("vfio-user", errors)


if __name__ == "__main__":
    unittest.main()
