#!/usr/bin/env python3
"""Clients and ranks that die: what they held is released and the next one runs. kill_test.py BIN"""
import ctypes
import functools
import os
import pathlib
import random
import signal
import socket
import time

from common import VECTOR_ADD, VECTOR_ADD_TRANSFERS, FailureTest, main, tool

KILLS = 20
COLLECTIVE = ("NRT_EXEC_HW_ERR_COLLECTIVES", "1200")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Killed(FailureTest):
    def resident_kib(self, pid):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                yield int(line.split()[1])

    def usage(self, pid):
        return len(os.listdir(f"/proc/{pid}/fd")), sum(self.resident_kib(pid))

    def kill_application(self, process):
        """The application below `soma exec`, not the command itself."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        self.wait_until(lambda: children.read_text() or process.poll() is not None, "no child yet")
        for child in children.read_text().split() if process.poll() is None else ():
            os.kill(int(child), signal.SIGKILL)

    def kill_after(self, seconds, *command):
        process = self.start(tool("soma"), "exec", "--name", "f", "--", *command)
        time.sleep(seconds)
        self.kill_application(process)
        return self.finish(process)

    def test_killed_at_any_moment(self):
        pid = self.up()
        good = self.pack("good", VECTOR_ADD, VECTOR_ADD_TRANSFERS)
        delays = random.Random(1)
        before = None
        codes = set()
        for number in range(KILLS):
            command = ((tool("vector_add"), good, 100000) if number % 2 else
                       (tool("nccom-test"), "-r", 2, "-b", "1kb", "-e", "4mb", "-f", 4, "-n", 1000,
                        "allr"))
            codes.add(self.kill_after(delays.uniform(0.0, 0.5), *command).code)
            if number == KILLS // 4:
                self.assertEqual(self.exec(tool("vector_add"), good, 2).code, 0)
                before = self.usage(pid)
        self.assertEqual(codes, {137})
        for command in ((tool("vector_add"), good, 2),
                        (tool("nccom-test"), "-r", 2, "-b", "1kb", "-e", "4mb", "-f", 4, "-n", 2,
                         "--check", "random", "allr")):
            result = self.exec(*command)
            self.assertEqual(result.code, 0, result)
        files, memory = self.usage(pid)
        self.assertLessEqual(files, before[0] + 4)
        # Pages of device memory stay with the machine; what 15 dead clients left would be more.
        self.assertLess(memory, before[1] + (96 << 10))

    def test_killed_while_it_executes(self):
        # The third program never comes to rest; a second of its time takes long to simulate.
        self.up("f", "--set", "time.slice_us=20000")
        good = self.pack("good", VECTOR_ADD, VECTOR_ADD_TRANSFERS)
        for text in ("EVENT_SEMAPHORE $S[99]>=3", "here:\nBRANCH target=here",
                     "here:\nREGISTER_ALU op=ADD dst=r0 a=r0 b=1\nBRANCH target=here"):
            with self.subTest(program=text):
                path = self.pack(f"p{len(text)}", {"dve": text + "\nHALT"})
                self.assertEqual(self.kill_after(0.6, tool("vector_add"), path).code, 137)
                result = self.exec(tool("vector_add"), good)
                self.assertEqual(result.code, 0, result)

    def test_device_memory_is_released(self):
        self.up()
        # Two thirds of a core's memory stack: a second one finds room only if the first is gone.
        size = 10 << 30
        path = self.pack("large", {"dve": "EVENT_SEMAPHORE $S[99]>=3\nHALT"}, var={
            "SB": {"type": "state-buffer", "var_id": 0, "size": 1 << 25},
            "t": {"type": "tmp-buf", "var_id": 1, "size": size}})
        for _ in range(3):
            result = self.kill_after(0.5, tool("vector_add"), path)
            self.assertNotIn("nrt_load", result.err)
            self.assertEqual(result.code, 137, result)

    def two_ranks(self, port, **variables):
        return [self.start(tool("soma"), "exec", "--name", "f", "--", tool("nccom-test"), "-r", 2,
                           "--x-rank-start", rank, "--x-local-ranks", 1, "-b", "64kb", "-e", "64kb",
                           "-n", 1, "-w", 0, "-I", 1000000, "allr", NEURON_RT_VISIBLE_CORES=str(rank),
                           NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{port}", **variables)
                for rank in (0, 1)]

    def test_rank_killed_in_the_middle(self):
        machine = self.up()
        for victim in (0, 1):
            with self.subTest(victim=victim):
                ranks = self.two_ranks(free_port(), NEURON_RT_EXEC_TIMEOUT="2")
                self.wait_for_work(machine)
                for rank in ranks:
                    self.assertIsNone(rank.poll(), "the ranks were to run for longer")
                self.kill_application(ranks[victim])
                self.assertEqual(self.finish(ranks[victim]).code, 137)
                survivor = self.finish(ranks[1 - victim])
                self.assertNotIn(survivor.code, (0, 137), survivor)
                # In an execution; between two, the closed connection ends the job (spec/nrt-api.md 10.4).
                text = survivor.out + survivor.err
                if "connection closed by remote peer" not in text:
                    self.assert_lines(text, *COLLECTIVE)
                result = self.exec(tool("nccom-test"), "-r", 2, "-b", "1kb", "-e", "1kb", "-n", 2,
                                   "--check", "random", "allr")
                self.assertEqual(result.code, 0, result)

    def test_rank_that_stops_in_the_middle(self):
        machine = self.up()
        ranks = self.two_ranks(free_port(), NEURON_RT_EXEC_TIMEOUT="2")
        self.wait_for_work(machine)
        children = f"/proc/{ranks[1].pid}/task/{ranks[1].pid}/children"
        stopped = int(pathlib.Path(children).read_text().split()[0])
        os.kill(stopped, signal.SIGSTOP)
        survivor = self.finish(ranks[0])
        self.assertNotEqual(survivor.code, 0)
        self.assert_lines(survivor.out + survivor.err, *COLLECTIVE)
        os.kill(stopped, signal.SIGKILL)
        self.finish(ranks[1])

    def test_machine_that_nobody_reaps(self):
        """Its clock stood still when it died; those who sleep by it notice, although its number is
        still taken."""
        set_child_subreaper = functools.partial(ctypes.CDLL(None).prctl, 36)
        set_child_subreaper(1)  # the machine becomes a child of this process
        self.addCleanup(set_child_subreaper, 0)
        machine = self.up()
        self.start(tool("soma"), "exec", "--name", "f", "--", tool("nccom-test"), "-r", 2,
                   "-b", "4mb", "-e", "4mb", "-n", 100000, "allr")
        sleeper = self.start(tool("soma"), "exec", "--name", "f", "--", "sleep", 4)
        time.sleep(1.5)
        os.kill(machine, signal.SIGKILL)
        self.finish(sleeper, patience=60)
        self.assertEqual(os.waitpid(machine, 0), (machine, signal.SIGKILL))

    def test_rank_that_never_comes(self):
        """Ranks wait for their peers without end (spec/nrt-api.md 10.4), but not against a
        signal."""
        self.up()
        process = self.start(tool("soma"), "exec", "--name", "f", "--", tool("nccom-test"), "-r", 2,
                             "--x-rank-start", 0, "--x-local-ranks", 1, "-b", "1kb", "-e", "1kb",
                             "allr", NEURON_RT_VISIBLE_CORES="0",
                             NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{free_port()}")
        time.sleep(1.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).code, 130)
        result = self.exec(tool("nccom-test"), "-r", 2, "-b", "1kb", "-e", "1kb", "-n", 2,
                           "--check", "random", "allr")
        self.assertEqual(result.code, 0, result)


if __name__ == "__main__":
    main()
