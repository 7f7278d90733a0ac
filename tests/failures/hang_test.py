#!/usr/bin/env python3
"""Programs that do not end: the documented status within the time limit, and a line that says who
waits on what. hang_test.py BIN"""
import signal
import time

from common import VECTOR_ADD, VECTOR_ADD_TRANSFERS, FailureTest, main, tool

TIMEOUT = ("NRT_TIMEOUT", "(5)")  # nrt-api.md 4.1
LIMIT = "5"                       # seconds; the machine speaks up after three


class Hang(FailureTest):
    def hang(self, program, transfers=(), options=()):
        path = self.pack("hang", program, transfers)
        begin = time.monotonic()
        result = self.run_in_machine(tool("vector_add"), path, options=options,
                                     NEURON_RT_EXEC_TIMEOUT=LIMIT)
        self.assertEqual(result.code, 1, result)
        self.assert_lines(result.err, "nrt_execute", *TIMEOUT)
        self.assert_lines(result.out, "ERROR", "execution timeout (5000 ms)", "NC 0")
        self.assertLess(time.monotonic() - begin, 20)
        self.assert_nothing_left()
        return result

    def test_semaphore_that_never_comes(self):
        result = self.hang({"dve": "NOP\nEVENT_SEMAPHORE $S[99]>=3\nHALT"})
        self.assert_lines(result.err, "waiting", "nc0.dve", "semaphore 99", "3", "pc")
        self.assert_lines(result.out, "Missing infer_status notification", "dve")

    def test_transfer_that_is_never_started(self):
        result = self.hang({"sp": VECTOR_ADD["sp"]}, VECTOR_ADD_TRANSFERS)
        self.assert_lines(result.err, "waiting", "nc0.sp", "semaphore 20")

    def test_branch_to_itself(self):
        for text in ("here:\nBRANCH target=here", "here:\nNOP\nREGISTER_MOVE dst=r1 src=7\n"
                     "COMPARE_BRANCH cond=EQ a=r1 b=7 target=here"):
            with self.subTest(text=text):
                result = self.hang({"dve": text + "\nHALT"})
                self.assert_lines(result.err, "nc0.dve", "loops for ever", "pc")
                self.doCleanups()
                self.setUp()

    def test_loop_that_does_something(self):
        # Endless, but never in the same state: simulated time passes, requests get in between.
        path = self.pack("busy", {"dve": "here:\nREGISTER_ALU op=ADD dst=r0 a=r0 b=1\n"
                                         "BRANCH target=here\nHALT"})
        result = self.run_in_machine(tool("vector_add"), path, NEURON_RT_EXEC_TIMEOUT="1",
                                     options=("--set", "time.slice_us=1000", "--set",
                                              "seq.alu_cycles=10000"))
        self.assertEqual(result.code, 1, result)
        self.assert_lines(result.err, "nrt_execute", *TIMEOUT)
        self.assert_lines(result.err, "warning")  # not repeatable

    def test_the_next_program_runs(self):
        self.up()
        good = self.pack("good", VECTOR_ADD, VECTOR_ADD_TRANSFERS)
        for name, text in (("wait", "EVENT_SEMAPHORE $S[99]>=3"), ("loop", "here:\nBRANCH target=here")):
            path = self.pack(name, {"dve": text + "\nHALT"})
            result = self.exec(tool("vector_add"), path, NEURON_RT_EXEC_TIMEOUT="1")
            self.assert_lines(result.err, "nrt_execute", *TIMEOUT)
            result = self.exec(tool("vector_add"), good, 3)
            self.assertEqual(result.code, 0, result)

    def test_interrupts_while_it_hangs(self):
        path = self.pack("hang", {"dve": "EVENT_SEMAPHORE $S[99]>=3\nHALT"})
        loop = self.pack("loop", {"dve": "here:\nREGISTER_ALU op=ADD dst=r0 a=r0 b=1\n"
                                         "BRANCH target=here\nHALT"})
        for number in (signal.SIGINT, signal.SIGTERM):
            for file in (path, loop):
                with self.subTest(signal=number, file=file.name):
                    process = self.start(tool("soma"), "run", "--", tool("vector_add"), file)
                    time.sleep(0.7)
                    self.assertIsNone(process.poll())
                    begin = time.monotonic()
                    process.send_signal(number)
                    result = self.finish(process, 10)
                    self.assertEqual(result.code, 128 + number, result)
                    self.assertLess(time.monotonic() - begin, 5)
                    self.assert_nothing_left()


if __name__ == "__main__":
    main()
