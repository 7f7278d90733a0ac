#!/usr/bin/env python3
"""Programs that do not end: the documented status within the time limit, and a line that says who
waits on what. hang_test.py BIN"""
import signal
import time

from common import VECTOR_ADD, VECTOR_ADD_TRANSFERS, FailureTest, descendants, main, tool

TIMEOUT = ("NRT_TIMEOUT", "(5)")  # spec/nrt-api.md 4.1
LIMIT = "4"                       # seconds; the machine speaks up after three


class Hang(FailureTest):
    def hang(self, name, program, transfers=()):
        path = self.pack(name, program, transfers)
        return self.start(tool("soma"), "run", "--", tool("vector_add"), path,
                          NEURON_RT_EXEC_TIMEOUT=LIMIT)

    def ended(self, process):
        result = self.finish(process)
        self.assertEqual(result.code, 1, result)
        self.assert_lines(result.err, "nrt_execute", *TIMEOUT)
        self.assert_lines(result.out, "ERROR", "execution timeout (4000 ms)", "NC 0")
        return result

    def test_who_waits_on_what(self):
        # Side by side: they do nothing but wait.
        idle = self.start(tool("soma"), "run", "--", "sleep", "4")
        never = self.hang("never", {"dve": "NOP\nEVENT_SEMAPHORE $S[99]>=3\nHALT"})
        transfer = self.hang("transfer", {"sp": VECTOR_ADD["sp"]}, VECTOR_ADD_TRANSFERS)
        loop = self.hang("loop", {"dve": "here:\nBRANCH target=here\nHALT"})
        longer = self.hang("longer", {"dve": "here:\nNOP\nREGISTER_MOVE dst=r1 src=7\n"
                                             "COMPARE_BRANCH cond=EQ a=r1 b=7 target=here\nHALT"})
        result = self.ended(never)
        self.assert_lines(result.err, "waiting", "nc0.dve", "semaphore 99", "3", "pc")
        self.assert_lines(result.out, "Missing infer_status notification", "dve")
        self.assert_lines(self.ended(transfer).err, "waiting", "nc0.sp", "semaphore 20")
        for process in (loop, longer):
            self.assert_lines(self.ended(process).err, "nc0.dve", "loops for ever", "pc")
        result = self.finish(idle)
        self.assertEqual((result.code, result.out, result.err), (0, "", ""))
        self.assert_nothing_left()

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
                    self.wait_until(lambda: descendants(process.pid), "it has a child")
                    time.sleep(0.5)  # until it hangs: the result is the same before
                    self.assertIsNone(process.poll())
                    begin = time.monotonic()
                    process.send_signal(number)
                    result = self.finish(process)
                    self.assertEqual(result.code, 128 + number, result)
                    self.assertLess(time.monotonic() - begin, 60)
                    self.assert_nothing_left()


if __name__ == "__main__":
    main()
