#!/usr/bin/env python3
"""Ranks of one job in several processes: some die, some never come, some disagree, links fail. Every
other rank gets the documented status, ends, and the same cores compute right afterwards (the table
in docs/collectives.md). ranks_test.py BIN"""
import json
import os
import signal
import socket
import subprocess
import time

from common import PATIENCE, Ended, FailureTest, descendants, kill_family, main, tool, BIN

STAGED = BIN / "client/staged_ranks"
HANG = "NRT_EXEC_HW_ERR_COLLECTIVES (1200)"
FAILED = "NRT_FAILURE (1)"
GONE = "connection closed by remote peer"
CORES = 4  # of a process


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def trigger(kind, elements, destination_elements, group=0, stream=0):
    return (f"PSEUDO_TRIGGER_COLLECTIVE_2 $S[15]++@complete ctype={kind} op=ADD dtype=float32 "
            f"cc_dim=0\n    src0_var_id=1 src0_var_offset=0 src0_shape_reg=0 "
            f"src0_pattern=[1][{elements}]\n"
            f"PSEUDO_EXTENSION group_id={group} channel_id=0 stream_id={stream}\n"
            f"    dst_var_id=2 dst_var_offset=0 dst_shape_reg=0 "
            f"dst_pattern=[1][{destination_elements}]\n")


class RanksTest(FailureTest):
    platform = "trn1.32xlarge"

    def collectives(self, name, triggers, groups, elements):
        """A NEFF with these collectives between x and y, one after the other."""
        text = "".join(t + f"EVENT_SEMAPHORE $S[15]>={i}\n" for i, t in enumerate(triggers, 1))
        size = 4 * elements
        tensors = {n: {"type": kind, "var_id": i, "size": size, "x_dtype": "float32",
                       "x_shape": [elements]}
                   for i, (n, kind) in enumerate((("x", "input"), ("y", "output")), 1)}
        return self.pack(name, {"sp": text + "HALT"}, var=tensors, dma_queue={}, x_cc={
            "replica_groups": groups, "source_target_pairs": [None] * len(groups),
            "participants": sum(len(g) for g in groups[0]), "streams": 1, "ops": len(triggers)})

    def all_reduce(self, world, elements=4096):
        return self.collectives(f"allr{world}x{elements}",
                                [trigger("ALL_REDUCE", elements, elements)],
                                [[list(range(world))]], elements)

    def staged(self, file, world, first, count, port, executions=2, name="f", **variables):
        return Staged(self, name, (STAGED, file, world, first, count, executions), first, count,
                      port, variables)

    def benchmark(self, first, count, *arguments, port=None, core=None, **variables):
        """nccom-test with some of the ranks, on their cores."""
        core = first if core is None else core
        variables.setdefault("NEURON_RT_VISIBLE_CORES", f"{core}-{core + count - 1}")
        if port is not None:
            arguments = ("--x-rank-start", first, "--x-local-ranks", count, *arguments)
            variables["NEURON_RT_ROOT_COMM_ID"] = f"127.0.0.1:{port}"
        return self.start(tool("soma"), "exec", "--name", "f", "--", tool("nccom-test"),
                          *arguments, **variables)

    def assert_usable(self, ranks, first=0):
        result = self.finish(self.benchmark(first, ranks, "-r", ranks, "-b", "64kb", "-e", "64kb",
                                            "-n", 1, "-w", 0, "-d", "fp32", "--check", "allr",
                                            core=first))
        self.assertEqual(result.code, 0, result)


class Staged:
    """A process of tests/failures/staged_ranks.c below `soma exec`; its output goes to a file."""

    def __init__(self, test, name, command, first, count, port, variables):
        self.test, self.first, self.count, self.port = test, first, count, port
        self.command = command
        self.path = test.directory / f"{first}-{time.monotonic_ns()}.out"
        variables = {"NEURON_RT_VISIBLE_CORES": f"{first}-{first + count - 1}",
                     "NEURON_RT_ROOT_COMM_ID": f"127.0.0.1:{port}",
                     "NEURON_RT_EXEC_TIMEOUT": "1", **variables}
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen(
                [tool("soma"), "exec", "--name", name, "--", *(str(c) for c in command)],
                stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True,
                env=dict(test.environment, **variables))
        test.addCleanup(self.reap)

    def arguments(self, first):
        """Of RanksTest.staged(), for another process of the same job."""
        _, file, world, _, count, _ = self.command
        return file, world, first, count, self.port

    def reap(self):
        if self.process.poll() is None:
            kill_family(self.process)
        self.process.stdin.close()
        self.process.wait()

    def text(self):
        return self.path.read_text(errors="replace")

    def at(self, word):
        self.test.wait_until(lambda: word in self.text().split("\n") or self.process.poll() is not None,
                             f"{word}, got {self.text()}", PATIENCE)
        self.test.assertIn(word, self.text().split("\n"))
        return self

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self

    def kill(self):
        for pid in descendants(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.test.assertEqual(self.process.wait(PATIENCE), 137)

    def end(self):
        """Lets it run on to its end."""
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.test.fail(f"ranks from {self.first} did not end\n{self.text()}")
        return Ended(code, self.text(), "")

    def statuses(self, ended):
        lines = [line for line in ended.out.splitlines() if line.startswith("rank ")]
        self.test.assertEqual(len(lines), self.count, ended)
        return {line.split(": ", 1)[1] for line in lines}

    def ends_with(self, *statuses, words=()):
        ended = self.end()
        self.test.assertEqual(ended.code, 1, ended)
        self.test.assertLessEqual(self.statuses(ended), set(statuses), ended)
        for word in words:
            self.test.assertIn(word, ended.out)
        return ended


class Killed(RanksTest):
    """16 ranks on eight devices, four in each process; the last process is killed."""

    def setUp(self):
        super().setUp()
        self.machine = self.up("f", "--platform", self.platform)

    def ranks(self, world=16, count=CORES, elements=4096, **variables):
        port = free_port()
        file = self.all_reduce(world, elements)
        return [self.staged(file, world, first, count, port, **variables)
                for first in range(0, world, count)]

    def test_before_it_loads(self):
        # Nobody knows of it: the others wait for another process with its ranks.
        first, second = self.ranks(2, 1)
        second.at("ready").kill()
        first.at("ready").go().at("loaded").go()
        time.sleep(0.5)
        self.assertIsNone(first.process.poll(), first.text())
        again = self.staged(*first.arguments(1))
        for each in (again, first):
            ended = each.end()
            self.assertEqual((ended.code, each.statuses(ended)), (0, {"right (0)"}), ended)

    def test_while_they_meet(self):
        *others, victim, late = self.ranks()
        for each in (*others, victim, late):
            each.at("ready")
        for each in (*others, victim):
            each.go().at("loaded")
        victim.kill()
        late.go().at("loaded")
        for each in (*others, late):
            each.ends_with(FAILED, words=(GONE,))
        self.assert_usable(16)

    def test_between_load_and_execution(self):
        *others, victim = self.ranks()
        for each in (*others, victim):
            each.at("ready").go()
        for each in (*others, victim):
            each.at("loaded")
        time.sleep(0.3)  # they meet in the background
        victim.kill()
        for each in others:
            each.ends_with(FAILED, words=(GONE,))
        self.assert_usable(16)

    def test_between_executions(self):
        *others, victim = self.ranks()
        for word in ("ready", "loaded", "executed 1"):
            for each in (*others, victim):
                each.at(word)
            if word != "executed 1":
                for each in (*others, victim):
                    each.go()
        victim.kill()
        for each in others:
            each.ends_with(HANG, words=("suspected hang in collectives operation 0 out of 1", GONE))
        self.assert_usable(16)


if __name__ == "__main__":
    main()
