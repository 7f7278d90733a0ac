#!/usr/bin/env python3
"""nccom-test on an emulated trn1.2xlarge: checked data for every operation and both algorithms, times
that neither --check nor --timing-only nor a second run changes, many processes, argument errors.

usage: end_to_end_test.py <directory with soma and nccom-test>"""
import os
import socket
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1)
SOMA = os.path.join(BIN, "soma")
NCCOM = os.path.join(BIN, "nccom-test")
LIMIT_S = 60


def run(arguments, soma=(), env=None, command=None, platform="trn1.2xlarge"):
    line = [SOMA, "run", "--platform", platform, *soma, "--", *(command or [NCCOM, *arguments])]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT_S,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


def words(text):
    return text.split()


class EndToEnd(unittest.TestCase):
    def good(self, arguments, **more):
        code, out, err = run(arguments, **more)
        self.assertEqual(code, 0, out + err)
        self.assertIn("Avg bus bandwidth:\t", out)
        return out

    def test_every_operation_and_algorithm_computes_right(self):
        for operation in ("allr", "allg", "redsct"):
            for algorithm in ("ring", "mesh"):
                out = self.good(words(f"-r 2 -b 2 -e 200002 -i 66666 -n 9 -w 1 -d bf16 -c --show-algorithm {operation}"),
                                env={"NCCOM_CC_ALGO": f"{operation}:{algorithm}"})
                self.assertEqual(out.count(f" {algorithm}\n"), 4, out)

    def test_many_ranks_on_linked_devices(self):
        """Data of every operation over several devices and nodes: torus, switch, LNC 1 and 2."""
        for platform, lnc, line in (
                ("trn1.32xlarge", 1, "-r 8 permute"), ("trn1.32xlarge", 1, "-r 8 sendrecv"),
                ("trn1.32xlarge", 1, "-r 32 alltoall"), ("trn1.32xlarge", 1, "-r 32 allr"),
                ("inf2.48xlarge", 1, "-r 24 allg"), ("trn2.3xlarge", 1, "-r 8 redsct"),
                ("trn2.48xlarge", 2, "-r 16 allr"), ("trn2-ultraserver", 2, "-r 8 -N 2 allr"),
                ("trn3-gen2-server", 2, "-r 16 allr")):
            self.good(words(f"-b 8192 -e 8192 -n 1 -w 0 -d fp32 -c {line}"), platform=platform,
                      env={"NEURON_LOGICAL_NC_CONFIG": str(lnc)})

    def test_types(self):
        for dtype in ("uint8", "int8", "fp8", "int16", "fp16", "uint32", "fp32"):
            self.good(words(f"-r 2 -b 3000 -e 3000 -n 1 -w 0 -d {dtype} -c allr"))
        self.good(words("-r 2 -b 3000 -e 3000 -n 1 -w 0 -d int32 -c all_ones redsct"))

    def test_nothing_but_the_machine_changes_times(self):
        line = words("-r 2 -b 1kb -e 1mb -f 32 -n 3 -w 1 -d bf16 allr")
        first = self.good(line)
        self.assertEqual(self.good(line), first)
        self.assertEqual(self.good([*line, "--check"]), first)
        self.assertEqual(self.good(line, soma=["--timing-only"]), first)

    def test_repeated_executions_of_one_neff(self):
        self.good(words("-r 2 -b 4096 -e 4096 -n 2 -w 1 -I 8 -W 1 -d int32 -c -t avg p50 allr"))

    def processes(self, count, line, platform):
        """`count` processes of one rank; the table that the process of rank 0 prints."""
        with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
            one = (f"NEURON_RT_VISIBLE_CORES=$R {NCCOM} -r {count} --x-rank-start $R --x-local-ranks 1 {line} "
                   f">{directory}/$R & all=\"$all $!\"")
            script = (f"export NEURON_RT_ROOT_COMM_ID=127.0.0.1:$P; for R in $(seq 0 {count - 1}); do {one}; done; "
                      f"for one in $all; do wait $one || exit 9; done")
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            code, out, err = run([], command=["bash", "-c", script], env={"P": str(port)}, platform=platform)
            self.assertEqual(code, 0, out + err)
            with open(os.path.join(directory, "0"), encoding="ascii") as file:
                return file.read()

    def test_two_processes(self):
        line = "-b 1kb -e 1mb -f 32 -n 3 -w 1 -d bf16 allr"
        self.assertEqual(self.processes(2, "-c " + line, "trn1.2xlarge"), self.good(words("-r 2 " + line)))

    def test_many_processes(self):
        line = "-b 4096 -e 4096 -n 2 -w 0 -d int32 allr"
        self.assertEqual(self.processes(32, "-c " + line, "trn2.48xlarge"),
                         self.good(words("-r 32 " + line), platform="trn2.48xlarge"))

    def test_errors(self):
        code, out, err = run(words("-r 2 nothing"))
        self.assertEqual(code, 2)
        self.assertIn("nccom-test: error: argument operation: invalid choice: 'nothing'", err)
        code, out, err = run(words("-r 3 -b 1kb -e 1kb allr"))
        self.assertEqual(code, 1)
        self.assertIn("1 errors found - test failed", out)

    def test_without_a_driver(self):
        done = subprocess.run([NCCOM, "-r", "2", "allr"], capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "LD_LIBRARY_PATH": os.path.join(BIN, "../lib")}, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Neuron DKMS Driver is not running!", done.stderr)


if __name__ == "__main__":
    unittest.main()
