#!/usr/bin/env python3
"""nccom-test on an emulated trn1.2xlarge: checked data for every operation and both algorithms, times
that neither --check nor --timing-only nor a second run changes, many processes, argument errors.

usage: end_to_end_test.py <directory with soma and nccom-test>"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1)
SOMA = os.path.join(BIN, "soma")
NCCOM = os.path.join(BIN, "nccom-test")
LIMIT_S = 300


def cores(line):
    """What a command line should see: as many cores as it has ranks. Initialising all others of
    many devices takes longer than what is tested."""
    return "0-%d" % (int(re.search(r"-r (\d+)", line)[1]) - 1)


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
        line = "-r 2 -b 2 -e 200002 -i 66666 -n 9 -w 1 -d bf16 -c --show-algorithm"
        for algorithm in ("ring", "mesh"):
            operations = ("allr", "allg", "redsct")
            choice = ",".join(f"{operation}:{algorithm}" for operation in operations)
            out = self.all_good([f"{line} {operation}" for operation in operations],
                                env={"NCCOM_CC_ALGO": choice})
            self.assertEqual(out.count(f" {algorithm}\n"), 12, out)

    def test_many_ranks_on_linked_devices(self):
        """Data of every operation over several devices: torus, ring, switch, LNC 1 and 2. Several
        nodes are in switches_test.py."""
        for platform, lnc, lines in (
                ("trn1.32xlarge", 1, ("-r 8 permute", "-r 8 sendrecv", "-r 8 alltoall", "-r 32 allr")),
                ("inf2.48xlarge", 1, ("-r 24 allg",)), ("trn2.3xlarge", 1, ("-r 8 redsct",)),
                ("trn2.48xlarge", 2, ("-r 16 allr",)), ("trn3-gen2-server", 2, ("-r 16 allr",))):
            self.all_good([f"-b 8192 -e 8192 -n 1 -w 0 -d fp32 -c {line}" for line in lines],
                          platform=platform, env={"NEURON_LOGICAL_NC_CONFIG": str(lnc)})

    def test_variable_sizes(self):
        """Equal blocks, blocks from a file, over several devices; times do not depend on --check."""
        for platform, lnc, lines in (
                ("trn1.2xlarge", 1, ("-r 2 alltoallv", "-r 2 allgv", "-r 2 redsctv")),
                ("trn1.32xlarge", 1, ("-r 8 alltoallv",)), ("trn2.3xlarge", 1, ("-r 8 allgv",)),
                ("trn2.48xlarge", 2, ("-r 8 redsctv",)),
                ("trn3-gen2-server", 2, ("-r 8 alltoallv",))):
            self.all_good([f"-b 8192 -e 8192 -n 3 -w 1 -d bf16 -c {line}" for line in lines],
                          platform=platform, env={"NEURON_LOGICAL_NC_CONFIG": str(lnc)})
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "metadata.json")
            # Rank 0 keeps nothing, rank 1 sends nothing to itself; blocks of many tiles and of none.
            with open(path, "w", encoding="ascii") as file:
                json.dump({"metadata": [
                    {"send_counts": [0, 700001], "send_displs": [9, 3],
                     "recv_counts": [0, 5], "recv_displs": [0, 77]},
                    {"send_counts": [5, 0], "send_displs": [700000, 1],
                     "recv_counts": [700001, 0], "recv_displs": [1, 0]}]}, file)
            line = [*words("-r 2 -b 1kb -e 1kb -n 2 -w 1 -d fp32 --show-algorithm alltoallv"),
                    "--variable-size-op-metadata", path]
            out = self.good(line)
            self.assertRegex(out, r"\n +2800024 +700006 +fp32 +[0-9.]+ +[0-9.]+ +[0-9.]+ +mesh\n")
            self.assertEqual(self.good([*line, "--check"]), out)
            self.assertEqual(self.good(line, soma=["--timing-only"]), out)
            with open(path, "w", encoding="ascii") as file:
                file.write('{"metadata": [{"send_counts": [1], "send_displs": [0]}]}')
            code, _, err = run(line)
            self.assertEqual(code, 2)
            self.assertIn("entry 0: send_counts has 1 elements, expected 2", err)

    def all_good(self, lines, **more):
        """Command lines of nccom-test, one after the other on one machine."""
        script = "set -e; " + "; ".join(
            f"NEURON_RT_VISIBLE_CORES={cores(line)} {NCCOM} {line}" for line in lines)
        code, out, err = run([], command=["sh", "-c", script], **more)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(out.count("Avg bus bandwidth:\t"), len(lines), out)
        return out

    def refused(self, line, text, env=None):
        code, out, err = run(words(f"-b 4096 -e 4096 -n 1 -w 0 {line}"), platform="trn1.32xlarge",
                             env={"NEURON_RT_VISIBLE_CORES": cores(line), **(env or {})})
        self.assertEqual(code, 1, out + err)
        self.assertIn("NRT_INVALID (2)", err)
        self.assertIn(text, out)

    def test_own_operations(self):
        """Operations of this project, with a root that is not the first rank, late ranks, two channels."""
        common = "-r 4 -b 8192 -e 8192 -n 2 -w 1 -d bf16 -c"
        self.all_good([f"{common} {line}" for line in (
            "bcast --x-root 3", "reduce --x-root 2 --x-reduction max", "barrier --x-skew 500",
            "permute_reduce --x-reduction min", "permute_implicit --x-channels 2",
            "permute_reduce_implicit --x-channels 2 --data-parallel-dimension 2",
            "allr --x-skew 500", "alltoall --x-skew 500", "bcast --x-skew 500 --x-root 3")],
            platform="trn1.32xlarge")

    def test_in_place(self):
        common = "-r 8 -b 8192 -e 8192 -n 2 -w 1 -d int32 -c --x-in-place"
        self.all_good([f"{common} {line}" for line in (
            "allr", "allg", "redsct", "permute", "permimp", "bcast", "reduce --x-root 2",
            "allg --coalesced-cc-size-ratio [1,2,1]", "redsct --coalesced-cc-size-ratio [1,2,1]")],
            platform="trn2.48xlarge")

    def test_a_late_rank_is_what_a_barrier_waits_for(self):
        times = [float(words(line)[3]) for line in self.all_good(
            [f"-r 4 -n 1 -w 0 -c barrier --x-skew {skew}" for skew in (0, 1000)],
            platform="trn2.3xlarge").splitlines() if " uint8 " in line]
        self.assertGreater(times[1], 10 * times[0])

    def test_several_communicators_in_one_program(self):
        groups = {"pairs": [[0, 1], [2, 3], [4, 5], [6, 7]], "halves": [[0, 2, 4, 6], [7, 5, 3, 1]]}
        with tempfile.TemporaryDirectory() as directory:
            for name, lists in groups.items():
                with open(os.path.join(directory, name), "w", encoding="ascii") as file:
                    json.dump({"replica_groups": [lists]}, file)
            streams = [{"operation": operation, "custom_replica_groups": os.path.join(directory, name)}
                       for operation, name in (("redsct", "pairs"), ("bcast", "halves"))]
            path = os.path.join(directory, "streams")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"streams": streams}, file)
            out = self.good(words(f"-r 8 -b 4096 -e 4096 -n 3 -w 1 -d int16 -c --streams-json {path}"),
                            platform="trn1.32xlarge", env={"NEURON_RT_VISIBLE_CORES": "0-7"})
        self.assertEqual(out.count("Avg bus bandwidth:"), 2, out)

    def test_refusals_of_the_runtime(self):
        self.refused("-r 8 -d int32 --x-in-place alltoall", "source and destination of rank 0 overlap")
        self.refused("-r 8 -d int32 --x-in-place permred", "source and destination of rank 0 overlap")
        self.refused("-r 8 -d fp32 --x-channels 3 permimp", "channel 2 over 8 ranks, whose group has 2")
        self.refused("-r 8 -d fp32 --x-reduction fma allr", "reduction FMA in a collective")
        self.refused("-r 6 allr", "of 6 ranks on trn1; legal sizes: 1, 2, 4, 8, 16, 32",
                     env={"NCCOM_CC_STRICT": "1"})
        self.refused(f"-r 32 --custom-src-target-pairs {self.far_pairs()} permute",
                     "permute: no direct link from rank 0 to rank 20", env={"NCCOM_CC_STRICT": "1"})
        self.refused("-r 2 allr", "NCCOM_CC_STRICT is 'yes'; it can be 0 or 1",
                     env={"NCCOM_CC_STRICT": "yes"})

    def far_pairs(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "pairs")
        with open(path, "w", encoding="ascii") as file:
            json.dump({"src_target_pairs": [[[0, 20], [20, 0]]]}, file)
        return path

    def test_types(self):
        types = ("uint8", "int8", "fp8", "int16", "fp16", "uint32", "fp32", "fp8e3", "fp8e5", "int64", "uint64")
        self.all_good([f"-r 2 -b 3000 -e 3000 -n 1 -w 0 -d {dtype} -c allr" for dtype in types])
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
        self.assertEqual(self.processes(16, "-c " + line, "trn2.48xlarge"),
                         self.all_good(["-r 16 " + line], platform="trn2.48xlarge"))

    def test_errors(self):
        code, out, err = run(words("-r 2 nothing"))
        self.assertEqual(code, 2)
        self.assertIn("nccom-test: error: argument operation: invalid choice: 'nothing'", err)
        code, out, err = run(words("-r 2 -b 1kb -e 1kb allr"), env={"NCCOM_CC_ALGO": "allr:hier"})
        self.assertEqual(code, 1)
        self.assertIn("1 errors found - test failed", out)

    def test_more_ranks_than_cores(self):
        """The message says what was found, and what to type."""
        for platform, ranks, cores, nodes in (("trn1.2xlarge", 3, 2, 3), ("trn2-ultraserver", 128, 64, 2)):
            code, out, err = run(words(f"-r {ranks} -b 1kb -e 1kb allr"), platform=platform)
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn(f"{ranks} ranks in this process, but it sees {cores} NeuronCores", err)
            self.assertIn(f"-r {ranks} -N {nodes} starts {ranks // nodes} ranks on each of {nodes} nodes", err)
        code, _, err = run(words("-r 2 allr"), env={"NEURON_RT_VISIBLE_CORES": "1"})
        self.assertEqual(code, 1)
        self.assertIn("1 NeuronCores (NEURON_RT_VISIBLE_CORES=1)", err)

    def test_matrix(self):
        """Refusals are lines of the table and nothing else; the runtime's log stays where the user
        wants it."""
        code, out, err = run(words("-r 2 -b 1kb -e 1kb -n 1 -w 0 --seed 1 --x-matrix"))
        self.assertEqual((code, err), (0, ""), out)
        lines = out.splitlines()
        self.assertEqual(lines[0].split(), ["operation", "with", "result"])
        refused = [line for line in lines if " refused  " in line]
        good = [line for line in lines if " ok       " in line]
        self.assertEqual(len(lines), 1 + len(refused) + len(good) + 1, out)
        self.assertEqual(lines[-1], f"{len(good)} ok, {len(refused)} refused, 0 failed")
        self.assertTrue(refused and good, out)
        for line in refused:
            self.assertNotIn("nrt_", line)  # the reason, not the function
        code, logged, _ = run(words("-r 1 -b 1kb -e 1kb -n 1 -w 0 --seed 1 --x-matrix"),
                              env={"NEURON_RT_LOG_LOCATION": "console"})
        self.assertEqual(code, 0, logged)
        self.assertIn(" ERROR   NRT:nrt_execute ", logged)

    def test_without_a_driver(self):
        done = subprocess.run([NCCOM, "-r", "2", "allr"], capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "LD_LIBRARY_PATH": os.path.join(BIN, "../lib")}, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Neuron DKMS Driver is not running!", done.stderr)


if __name__ == "__main__":
    unittest.main()
