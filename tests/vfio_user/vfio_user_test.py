#!/usr/bin/env python3
"""soma vfio-user with real clients: vfio_user_test.py SOMA v2|v3|v4|several"""
import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # tests leave nothing in the source tree
from protocol import CONFIG, Client, Memory, Refused  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SOMA = GENERATION = ""
PLATFORMS = {"v2": "trn1.2xlarge", "v3": "trn2.3xlarge", "v4": str(HERE / "one_trainium3.json")}
PATIENCE = 60


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="vfio")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.path = self.directory + "/socket"
        self.report = self.directory + "/report.json"

    def start(self, platform, *options):
        server = subprocess.Popen([SOMA, "vfio-user", "--platform", platform, "--socket", self.path, "--report", self.report,
                                   *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, server)
        self.assertTrue(select.select([server.stdout], [], [], PATIENCE)[0], "no line within a minute")
        line = server.stdout.readline()
        self.assertRegex(line, " ready at ", server.stderr.read() if not line else "")
        return server, line

    @staticmethod
    def end(server):
        if server.poll() is None:
            server.kill()
        server.communicate()

    def stop(self, server, with_signal=signal.SIGTERM):
        server.send_signal(with_signal)
        output = server.communicate(timeout=PATIENCE)
        self.assertEqual(server.returncode, 0, output)
        return output[1]

    def attach(self, path=None):
        client = Client(path or self.path)
        self.addCleanup(client.close)
        client.version()
        return client


class OneDevice(Case):
    def run_client(self, *options):
        return subprocess.run([sys.executable, "-B", HERE / "client.py", self.path, GENERATION, *options], capture_output=True,
                              text=True, timeout=PATIENCE)

    def assert_up(self, *options):
        result = self.run_client(*options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_bring_up_again_and_again(self):
        server, line = self.start(PLATFORMS[GENERATION])
        self.assertEqual(line, f"{PLATFORMS[GENERATION]} ready at {self.path}\n")
        self.assert_up()
        self.assert_up()  # the first one left without unmapping
        for place in ("message", "dma"):
            self.assertEqual(self.run_client("--die", place).returncode, -signal.SIGKILL, place)
        self.assert_up()
        self.stop(server)
        self.assertFalse(os.path.exists(self.path))
        report = json.loads(pathlib.Path(self.report).read_text())
        self.assertIs(report["repeatable"], False)
        counters = {each["name"]: each["value"] for each in report["counters"]}
        self.assertGreater(counters["packets"], 1000)

    def test_one_client_at_a_time(self):
        server, _ = self.start(PLATFORMS[GENERATION])
        first = self.attach()
        with self.assertRaises((EOFError, ConnectionError)):
            self.attach()
        self.assertEqual(first.read(CONFIG, 0, 2), struct.pack("<H", 0x1D0F))
        first.close()
        self.attach().device_info()
        said = self.stop(server, signal.SIGINT)
        self.assertIn("another client", said)
        self.assertEqual(said.count(self.path), 1, said)

    def test_other_versions_and_strangers(self):
        server, _ = self.start(PLATFORMS[GENERATION])
        for major in (1, 65535):
            client = Client(self.path)
            with self.assertRaises(Refused):
                client.version(major=major)
            with self.assertRaises(EOFError):
                client.receive()
            client.close()
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(self.path)
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n")
            try:
                self.assertEqual(stranger.recv(100), b"")
            except ConnectionResetError:  # it had more to say
                pass
        self.attach().device_info()
        self.assertIn("message size", self.stop(server))

    def test_idle_costs_nothing(self):
        server, _ = self.start(PLATFORMS[GENERATION])
        client = self.attach()
        client.map(Memory(0, 1 << 20))
        client.write(CONFIG, 4, struct.pack("<H", 6))

        def cpu_ticks():
            fields = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
        time.sleep(0.2)
        before = cpu_ticks()
        time.sleep(1)
        self.assertLessEqual(cpu_ticks() - before, 2)
        self.stop(server)

    def test_the_socket_path(self):
        server, _ = self.start(PLATFORMS[GENERATION])
        second = subprocess.run([SOMA, "vfio-user", "--platform", PLATFORMS[GENERATION], "--socket", self.path],
                                capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(second.returncode, 2, second.stderr)
        self.assertIn("in use", second.stderr)
        server.kill()
        server.wait()
        self.assertTrue(os.path.exists(self.path))
        again, _ = self.start(PLATFORMS[GENERATION])
        self.attach().device_info()
        self.stop(again)

    def test_a_connected_socket(self):
        ours, theirs = socket.socketpair()
        server = subprocess.Popen([SOMA, "vfio-user", "--platform", PLATFORMS[GENERATION], "--fd", str(theirs.fileno())],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()])
        self.addCleanup(self.end, server)
        theirs.close()
        client = Client(ours)
        client.version()
        client.device_info()
        client.close()
        output = server.communicate(timeout=PATIENCE)
        self.assertEqual((server.returncode, output), (0, (PLATFORMS[GENERATION] + " ready\n", "")))

    def test_the_revision_that_qemu_has(self):
        server, _ = self.start(PLATFORMS[GENERATION], "--revision", "qemu")
        self.assert_up("--qemu")
        self.stop(server)


class SeveralDevices(Case):
    PLATFORM = "inf2.24xlarge"
    COUNT = 6

    def test_each_has_a_socket(self):
        server, line = self.start(self.PLATFORM)
        self.assertEqual(line, f"{self.PLATFORM} ready at {self.path}.0 to {self.path}.{self.COUNT - 1}\n")
        clients = [self.attach(f"{self.path}.{n}") for n in range(self.COUNT)]
        routing_ids = set()
        for client in clients:
            client.map(Memory(0, 1 << 20))  # the same addresses: one host, or none of each other's business
            client.write(CONFIG, 4, struct.pack("<H", 6))
            routing_ids.add(client.read(0, 0x30FA_0024, 4))
        self.assertEqual(len(routing_ids), self.COUNT)
        clients[3].close()
        clients[4].device_info()
        self.attach(f"{self.path}.3").device_info()
        self.stop(server)
        self.assertEqual(os.listdir(self.directory), ["report.json"])

    def test_one_of_them(self):
        server, line = self.start(self.PLATFORM, "--device", "5")
        self.assertEqual(line, f"{self.PLATFORM} ready at {self.path}\n")
        client = self.attach()
        client.write(CONFIG, 4, struct.pack("<H", 6))
        self.assertEqual(client.read(0, 0x30FA_0024, 4), struct.pack("<I", 5))
        self.stop(server)

    def test_command_line(self):
        for options, text in ((("--platform", self.PLATFORM), "--socket"),
                              (("--platform", self.PLATFORM, "--socket", self.path, "--device", "6"), "0 to 5"),
                              (("--platform", self.PLATFORM, "--socket", self.path, "--revision", "256"), "256"),
                              (("--platform", "nothing", "--socket", self.path), "nothing"),
                              (("--socket", "/" + "x" * 200), "bytes"),
                              (("--socket", self.path, "--policy", "epoch"), "--policy"),
                              (("--socket", self.path, "--fd", "0"), "--fd"),
                              (("--fd", "55"), "no socket"),
                              (("--platform", self.PLATFORM, "--fd", "0"), "--device")):
            result = subprocess.run([SOMA, "vfio-user", *options], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)
        self.assertEqual(os.listdir(self.directory), [])


if __name__ == "__main__":
    SOMA, GENERATION = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], "SeveralDevices" if GENERATION == "several" else "OneDevice"], verbosity=2)
