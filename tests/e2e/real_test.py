#!/usr/bin/env python3
"""Properties that only the real chain of descriptors, CC-cores and rings has. real_test.py BUILD"""
import pathlib
import re
import shutil
import subprocess
import sys
import time

from bench import LIMIT, EndToEnd, free_port, main

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "neff"


class Descriptors(EndToEnd):
    def test_one_changed_destination_moves_exactly_those_bytes(self):
        run = self.run_on([], [self.program("client/one_descriptor")])
        self.assert_ok(run)
        lines = run.output.splitlines()
        self.assertEqual(lines[0], "as built: 0 bytes differ")
        self.assertEqual(lines[2:], ["one destination changed: 0 bytes differ", "ok"])
        # Bytes that equal the background are the only ones that may not be counted twice.
        moved = int(re.fullmatch(r"against the old expectation: (\d+) bytes differ.*",
                                 lines[1]).group(1))
        length = 256 + 13 * 97
        self.assertTrue(1.9 * length < moved <= 2 * length, lines[1])


    def test_rings_of_a_loaded_program_are_what_runs(self):
        run = self.run_on([], [self.program("client/one_loaded_descriptor"),
                               self.neff("vector_add")])
        self.assert_ok(run)
        self.assertRegex(run.output, r"^256 bytes at \d+ of the output: [1-9] executions moved "
                                     r"them, \d+ did not, 0 went wrong$")


class HaltedCcCore(EndToEnd):
    def halt(self, core):
        return self.run_on([], [self.program("client/halted_cc_core"),
                                self.neff("allreduce_two_ranks"), core],
                           NEURON_RT_EXEC_TIMEOUT="4", NEURON_RT_LOG_LEVEL="ERROR",
                           NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{free_port()}")

    def test_nothing_halted(self):
        run = self.halt("none")
        self.assertEqual((run.status, run.output),
                         (0, "rank 0: NRT_SUCCESS\nrank 1: NRT_SUCCESS\n"), run.errors)

    def test_a_client_that_only_takes_its_time_is_no_hang(self):
        run = self.run_on([], ["sleep", "3.5"])
        self.assertEqual((run.status, run.errors), (0, ""))

    def test_both_ranks_get_the_documented_status_in_time(self):
        start = time.monotonic()
        run = self.halt("0")
        self.assertLess(time.monotonic() - start, 60)
        # spec/nrt-api.md 9.3: a time-out whose cause is a collective is classified as 1200.
        self.assertEqual((run.status, re.findall("^rank.*", run.output, re.MULTILINE)),
                         (1, ["rank 0: NRT_EXEC_HW_ERR_COLLECTIVES",
                              "rank 1: NRT_EXEC_HW_ERR_COLLECTIVES"]), run.output + run.errors)
        # The runtime's log has the published line and the state of each CC-core.
        self.assertIn("missing collectives status on Neuron Device 0 NC 1", run.output)
        self.assertRegex(run.output, r"CC-core 0: status 4 ")
        # A machine that rests for 3 s while clients wait says who waits on what.
        self.assertRegex(run.errors, r"d0\.cc0 is halted")
        self.assertRegex(run.errors, r"d0\.cc[1-5] waits for ")


class CheckedData(EndToEnd):
    ARGUMENTS = ("-b", "64kb", "-e", "64kb", "-n", "1", "-w", "0", "--check", "--seed", "7", "allr")

    def remove_what_it_left(self, run):
        """The log and the tensors that a failed check writes."""
        names = re.findall(r"/tmp/nccom_test_log_\w+\.log", run.output)
        for name in names:
            pathlib.Path(name).unlink(missing_ok=True)
        directories = re.findall(r"(/tmp/nccom_check_\w+)/", run.errors)
        for directory in directories:
            left = sorted(path.name for path in pathlib.Path(directory).iterdir())
            self.assertEqual(len(left), 3, left)
            shutil.rmtree(directory)
        self.assertTrue(directories, run.errors)
        # A second rank that fails writes too, but only the first is reported.
        for file in pathlib.Path("/tmp").glob("nccom_check_*/allr_65536_uint8_rank?_input.bin"):
            shutil.rmtree(file.parent, ignore_errors=True)

    def test_right_data_pass(self):
        self.assert_ok(self.nccom([], *self.ARGUMENTS))

    def test_one_changed_bit_is_found(self):
        flip = self.build / "lib" / "libflip_one_bit.so"
        self.assertTrue(flip.exists())
        run = self.run_on([], ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{flip}" exec "$0" "$@"',
                               self.program("nccom-test"), "-r", "2", *self.ARGUMENTS])
        self.remove_what_it_left(run)
        self.assertNotEqual(run.status, 0, run.output)
        self.assertIn("check failed", run.errors)
        self.assertIn("1 of 65536 elements differ", run.errors)

    def test_data_that_never_moved_are_found(self):
        run = self.nccom(["--timing-only"], *self.ARGUMENTS)
        self.remove_what_it_left(run)
        self.assertNotEqual(run.status, 0, run.output)
        self.assertIn("elements differ", run.errors)
        self.assertIn("a value that timing-only did not compute was read", run.errors)
        elided = {row["name"]: row["count"] for row in run.report["fidelity"]["elided"]}
        self.assertGreater(elided["read of payload"], 0)


class Examples(EndToEnd):
    def test_nine_executions_in_a_row(self):
        run = self.run_on([], [self.program("vector_add"), self.neff("vector_add"), "9"])
        self.assert_ok(run)
        self.assertEqual(run.output, "c: 8192 elements, 0 wrong\n" * 9 + "vector add: ok\n")

    def test_nine_executions_of_a_looping_program(self):
        neff = str(self.directory / "loop.neff")
        subprocess.run([self.program("neff"), "pack", EXAMPLES / "vector_add_loop", "-o", neff],
                       check=True, timeout=LIMIT)
        run = self.run_on([], [self.program("vector_add"), neff, "9"])
        self.assert_ok(run)
        self.assertEqual(run.output, "c: 128000 elements, 0 wrong\n" * 9 + "vector add: ok\n")

    def test_two_processes_meet_by_address(self):
        run = self.two_processes()
        self.assert_ok(run)
        self.assertEqual(run.output, "".join(
            f"rank {rank}: y: 1024 elements, 0 wrong\n" * 3 + "all-reduce of 2 ranks: ok\n"
            for rank in (0, 1)))


if __name__ == "__main__":
    main(sys.argv)
