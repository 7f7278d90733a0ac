#!/usr/bin/env python3
"""Options of nccom-test that show only in a run: where tensors are, what goes to files and terminals, launchers.

usage: switches_test.py <directory with soma and nccom-test>"""
import glob
import json
import os
import pty
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1)
SOMA = os.path.join(BIN, "soma")
NCCOM = os.path.join(BIN, "nccom-test")
LIMIT_S = 300
BRIEF = "-n 2 -w 1 -d fp32 -c"


def call(*command, **env):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          env={**os.environ, **env})


def run(*lines, platform="trn2.3xlarge", lnc=None, cores=None):
    """Command lines of nccom-test, one after the other on one machine, until one fails."""
    script = " && ".join(shlex.join([NCCOM, *line.split()]) for line in lines)
    return call(SOMA, "run", "--platform", platform, "--", "sh", "-c", script,
                **({"NEURON_LOGICAL_NC_CONFIG": str(lnc)} if lnc else {}),
                **({"NEURON_RT_VISIBLE_CORES": cores} if cores else {}))


class Tensors(unittest.TestCase):
    def good(self, *lines, **more):
        done = run(*(f"{BRIEF} {line}" for line in lines), **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, text, line, code=1, **more):
        done = run(f"{BRIEF} {line}", **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    def test_sbuf(self):
        for lnc, ranks in ((1, 2), (1, 8), (2, 4)):
            self.good(*(f"-r {ranks} -b 8192 -e 532480 -f 65 --sb2sb {operation}"
                        for operation in ("allr", "allg", "redsct")), lnc=lnc)
        self.good("-r 8 -b 65536 -e 65536 --sb2sb allr", platform="trn2.48xlarge", cores="0-7")

    def test_sbuf_shapes(self):
        self.good("-r 4 -b 12288 -e 12288 --sb2sb --cc-dim 0 --input-shape [1,3][24,32] "
                  "--output-shape [1,2][96,32] allg")
        self.good("-r 4 -b 12288 -e 12288 --sb2sb --input-shape [1,3][24,32] --output-shape [1,1][48,64] allg")
        self.good("-r 4 -b 12288 -e 12288 --sb2sb --input-shape [1,1][48,64] --output-shape [1,1][24,32] redsct")

    def test_streams_in_both_memories(self):
        """Operations that differ in nothing but where their tensors are."""
        streams = [{"operation": "allr", "sb2sb": True}, {"operation": "allr"},
                   {"operation": "allg", "sb2sb": True, "cc_dim": 0}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"streams": streams}, file)
            file.flush()
            out = self.good(f"-r 4 -b 65536 -e 65536 --streams-json {file.name}")
        self.assertEqual(out.count("Avg bus bandwidth:"), 3)

    def test_sbuf_refusals(self):
        self.refused("argument --sb2sb: only on trn2, this is trn1", "-r 2 --sb2sb allr", platform="trn1.2xlarge")
        done = run(f"{BRIEF} -r 2 -b 16777216 -e 16777216 --sb2sb allr")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 errors found - test failed", done.stdout)

    def test_shared_output(self):
        self.good("-r 8 -b 8192 -e 524288 -f 8 --shared-output-buff allg", lnc=1)
        self.good("-r 4 -b 8192 -e 524288 -f 8 --shared-output-buff allr", lnc=2)
        self.refused("argument --shared-output-buff: with ranks of one core only for all_gather",
                     "-r 2 --shared-output-buff allr", lnc=1)
        self.refused("argument --shared-output-buff: every core of trn1", "-r 2 --shared-output-buff allg",
                     platform="trn1.2xlarge")


class Output(unittest.TestCase):
    def test_failures_are_kept_where_asked(self):
        with tempfile.TemporaryDirectory() as directory:
            done = run(f"-r 2 -b 64 -e 64 --x-ops-per-iter 1000 --benchmark-log-directory "
                       f"{directory} allr")
            self.assertEqual(done.returncode, 1)
            named = re.search(r"Failure running neuron-bench - log file (\S+/nccom_test_log_\w{8}\.log)$", done.stdout,
                              re.MULTILINE)
            self.assertTrue(named, done.stdout)
            with open(named.group(1), encoding="ascii") as log:
                self.assertIn("1000 operations per iteration; at most 512", log.read())

    def test_a_terminal_shows_progress(self):
        for line, shown in (("", True), ("--non-interactive", False), ("--debug", False)):
            ours, theirs = pty.openpty()
            command = [SOMA, "run", "--platform", "trn2.3xlarge", "--", NCCOM, "-r", "2", "-b", "64", "-e", "64",
                       "-n", "1", "-w", "0", *line.split(), "allr"]
            with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL) as process:
                os.close(theirs)
                text = b""
                while True:
                    try:
                        part = os.read(ours, 4096)
                    except OSError:  # the other end is closed
                        break
                    if not part:
                        break
                    text += part
                self.assertEqual(process.wait(LIMIT_S), 0)
            os.close(ours)
            self.assertEqual(b"\r|" in text, shown, text)
            self.assertIn(b"Avg bus bandwidth:\t", text)

    def test_debug_says_what_is_done(self):
        done = run("-r 2 -b 64 -e 64 -n 1 -w 0 --debug allr")
        self.assertEqual(done.returncode, 0)
        self.assertIn("nccom-test: all_reduce of 64 bytes", done.stderr)


class Launchers(unittest.TestCase):
    """On one machine for all tests: it has many devices."""
    SMALL = "-r 8 -N 2 -b 64 -e 64 -n 1 -w 0"

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nl")
        cls.addClassCleanup(directory.cleanup)
        cls.place = {"XDG_RUNTIME_DIR": directory.name}
        started = call(SOMA, "up", "--platform", "trn2-ultraserver", **cls.place)
        if started.returncode != 0:
            raise AssertionError(started.stderr)
        cls.addClassCleanup(call, SOMA, "down", **cls.place)

    def run_small(self, line):
        return call(SOMA, "exec", "--", NCCOM, *f"{self.SMALL} {line} allr".split(), **self.place)

    def launch(self, line):
        done = self.run_small(line)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("Avg bus bandwidth:"), 1, done.stdout)

    def test_every_instance_has_its_log(self):
        with tempfile.TemporaryDirectory() as directory:
            self.launch(f"--mpi-log-dir {directory}/logs")
            names = sorted(os.path.basename(path) for path in glob.glob(f"{directory}/logs/*"))
            self.assertEqual(names, ["nccom_test_rank_0.log", "nccom_test_rank_4.log"])
            with open(f"{directory}/logs/{names[0]}", encoding="ascii") as log:
                self.assertIn("nccom-test: all_reduce of 64 bytes: measured", log.read())

    def test_the_first_process_collects(self):
        with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            probe.listen()
            port = probe.getsockname()[1]
            collector = f"--data-collector-host localhost --data-collector-port {port}"
            busy = self.run_small(collector)
            self.assertEqual(busy.returncode, 1, busy.stderr)
            self.assertIn(f"data collector port: {port}", busy.stderr)
            probe.close()
            self.launch(f"{collector} --report-to-json-file {directory}/results")
            with open(f"{directory}/results", encoding="ascii") as file:
                self.assertEqual([line["size(B)"] for line in json.load(file)["results"]], [64])

    def test_slurm_runs_the_script_on_every_node(self):
        with tempfile.TemporaryDirectory() as directory:
            script = f"{directory}/set_up"
            with open(script, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\ntouch {directory}/$(uname -n)\n")
            os.chmod(script, 0o755)
            self.launch(f"-S -u 2 --slurm-job-id 5 --slurm-use-head-node-neuron-bench --slurm-setup-script {script}")
            self.assertEqual(len(os.listdir(directory)), 3)
            done = self.run_small("-S --slurm-setup-script /bin/false")
            self.assertEqual(done.returncode, 1)
            self.assertIn("argument --slurm-setup-script: /bin/false failed", done.stderr)

    def test_a_host_may_be_named_twice(self):
        self.launch("-c --hosts node-0 node-0")
        self.launch("-c --hosts 127.0.0.1 127.0.0.1")


if __name__ == "__main__":
    unittest.main()
