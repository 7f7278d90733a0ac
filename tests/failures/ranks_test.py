#!/usr/bin/env python3
"""Ranks of one job in several processes: some die, some never come, some disagree, links fail. Every
other rank gets the documented status, ends, and the same cores compute right afterwards (the table
in docs/collectives.md). ranks_test.py BIN"""
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import unittest

from common import (PATIENCE, Ended, FailureTest, descendants, entries, kill_family, main, tool,
                    BIN)

STAGED = BIN / "client/staged_ranks"
HANG = "NRT_EXEC_HW_ERR_COLLECTIVES (1200)"
FAILED = "NRT_FAILURE (1)"
GONE = "connection closed by remote peer"
CORES = 4  # of a process
SLOW = bool(os.environ.get("SLOW_TESTS"))


def free_port():
    """Below those that the system gives to connections, which may begin at any time."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(20000, 32000)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def trigger(kind, elements, destination_elements, group=0, stream=0):
    return (f"PSEUDO_TRIGGER_COLLECTIVE_2 $S[15]++@complete ctype={kind} op=ADD dtype=float32 "
            f"cc_dim=0\n    src0_var_id=1 src0_var_offset=0 src0_shape_reg=0 "
            f"src0_pattern=[1][{elements}]\n"
            f"PSEUDO_EXTENSION group_id={group} channel_id=0 stream_id={stream}\n"
            f"    dst_var_id=2 dst_var_offset=0 dst_shape_reg=0 "
            f"dst_pattern=[1][{destination_elements}]\n")


class RanksTest(FailureTest):
    platform = "trn1.32xlarge"

    def collectives(self, name, triggers, groups, elements, world=None):
        """A NEFF with these collectives between x and y, one after the other."""
        file = self.directory / f"{name}.neff"
        if file.exists():
            return file
        text = "".join(t + f"EVENT_SEMAPHORE $S[15]>={i}\n" for i, t in enumerate(triggers, 1))
        size = 4 * elements
        tensors = {n: {"type": kind, "var_id": i, "size": size, "x_dtype": "float32",
                       "x_shape": [elements]}
                   for i, (n, kind) in enumerate((("x", "input"), ("y", "output")), 1)}
        return self.pack(name, {"sp": text + "HALT"}, var=tensors, dma_queue={}, x_cc={
            "replica_groups": groups, "source_target_pairs": [None] * len(groups),
            "participants": world or sum(len(g) for g in groups[0]), "streams": 1,
            "ops": len(triggers)})

    def all_reduce(self, world, elements=4096):
        return self.collectives(f"allr{world}x{elements}",
                                [trigger("ALL_REDUCE", elements, elements)],
                                [[list(range(world))]], elements)

    def staged(self, file, world, first, count, port, executions=2, name="f", **variables):
        return Staged(self, name, (STAGED, file, world, first, count, executions), first, count,
                      port, variables)

    def preloaded(self, library, file, world, first, count, port, executions=2, **variables):
        """The same with a library of tests/failures in front of the runtime's."""
        return Staged(self, "f", ("sh", "-c", 'LD_PRELOAD="$0 $LD_PRELOAD" exec "$@"',
                                  BIN / f"client/lib{library}.so", STAGED, file, world, first,
                                  count, executions), first, count, port, variables)

    def benchmark(self, first, count, *arguments, port=None, core=None, **variables):
        """nccom-test with some of the ranks, on their cores."""
        core = first if core is None else core
        variables.setdefault("NEURON_RT_VISIBLE_CORES", f"{core}-{core + count - 1}")
        if port is not None:
            arguments = ("--x-rank-start", first, "--x-local-ranks", count, *arguments)
            variables["NEURON_RT_ROOT_COMM_ID"] = f"127.0.0.1:{port}"
        return self.start(tool("soma"), "exec", "--name", "f", "--", tool("nccom-test"),
                          *arguments, **variables)

    def remove_logs(self, ended):
        for name in re.findall(r"/tmp/nccom_test_log_\w+\.log", ended.out):
            pathlib.Path(name).unlink(missing_ok=True)

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

    def sleeps(self):
        """All of its threads wait for something."""
        try:
            states = {pathlib.Path(f"{task}/stat").read_text().rsplit(")", 1)[1].split()[0]
                      for pid in descendants(self.process.pid)
                      for task in entries(f"/proc/{pid}/task")}
        except OSError:  # one has ended meanwhile
            return False
        return states == {"S"}

    def kill(self):
        for pid in descendants(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.test.assertEqual(self.process.wait(PATIENCE), 137)

    def free(self):
        """Lets it run on to its end."""
        self.process.stdin.close()
        return self

    def end(self):
        self.free()
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
    """2 to 16 ranks on one to eight devices, some in each process; one process is killed."""

    def setUp(self):
        super().setUp()
        self.machine = self.up("f", "--platform", self.platform)

    def met(self, ranks, *processes):
        """Waits until so many ranks of these processes have said to rank 0 who they are."""
        def connected():
            lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
            return sum(line.split()[2].endswith(f":{processes[0].port:04X}") and
                       line.split()[3] == "01" for line in lines)
        # Who is connected is woken, and says so before it sleeps again.
        self.wait_until(lambda: connected() == ranks and all(p.sleeps() for p in processes),
                        f"{ranks} connections", PATIENCE)

    def ranks(self, world=16, count=CORES, elements=4096, executions=2, **variables):
        # A busy host may bring the ranks to one execution in seconds only.
        variables.setdefault("NEURON_RT_EXEC_TIMEOUT", "5")
        port = free_port()
        file = self.all_reduce(world, elements)
        return [self.staged(file, world, first, count, port, executions, **variables)
                for first in range(0, world, count)]

    def execute_once(self, *processes):
        for word in ("ready", "loaded"):
            for each in processes:
                each.at(word).go()
        for each in processes:
            each.at("executed 1")

    def test_before_it_loads(self):
        # Nobody knows of it: the others wait for another process with its ranks.
        first, second = self.ranks(2, 1)
        second.at("ready").kill()
        first.at("ready").go().at("loaded").go()
        time.sleep(0.5)
        self.assertIsNone(first.process.poll(), first.text())
        again = self.staged(*first.arguments(1))
        for each in (again.free(), first.free()):
            ended = each.end()
            self.assertEqual((ended.code, each.statuses(ended)), (0, {"right (0)"}), ended)

    def test_while_they_meet(self):
        *others, victim, late = self.ranks(8, 2)
        for each in (*others, victim, late):
            each.at("ready")
        for each in (*others, victim):
            each.go().at("loaded")
        self.met(5, *others, victim)
        victim.kill()
        late.go().at("loaded")
        for each in (*others, late):
            each.ends_with(FAILED, words=(GONE,))
        self.assert_usable(8)

    def test_between_load_and_execution(self):
        *others, victim = self.ranks(8, 2)
        for each in (*others, victim):
            each.at("ready").go()
        for each in (*others, victim):
            each.at("loaded")
        self.met(7, *others, victim)
        victim.kill()
        for each in others:
            each.ends_with(FAILED, words=(GONE,))
        self.assert_usable(8)

    def test_between_executions(self):
        # Long before the limit: the closed connection says that nobody will come.
        *others, victim = self.ranks(NEURON_RT_EXEC_TIMEOUT=str(10 * PATIENCE))
        self.execute_once(*others, victim)
        victim.kill()
        for each in others:
            each.ends_with(HANG, words=("suspected hang in collectives operation 0 out of 1",
                                        GONE + " (ranks 12, 13, 14, 15)"))
        self.assert_usable(16)

    def test_a_stopped_process_is_named(self):
        *others, victim = self.ranks(8, 2)
        self.execute_once(*others, victim)
        stopped = descendants(victim.process.pid)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        for each in [each.free() for each in others]:
            each.ends_with(HANG, words=("operation 0 out of 1; ranks 6, 7 do not answer",))
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        victim.kill()
        self.assert_usable(8)

    def test_a_rank_that_does_not_execute_is_named(self):
        *others, idle = self.ranks(4, 2)
        self.execute_once(*others, idle)
        for each in others:
            each.ends_with(HANG, words=("operation 0 out of 1; ranks 2, 3 have not begun it",))
        idle.kill()
        self.assert_usable(4)

    def test_the_next_job_has_other_cores(self):
        # Ranks 2 and 3 of the first job still stand at its barrier, on the core of rank 0.
        first, second = self.ranks(4, 2)
        for word in ("ready", "loaded"):
            for each in (first, second):
                each.at(word).go()
        first.at("executed 1").kill()
        second.ends_with(HANG, words=(GONE,))
        file, port = self.all_reduce(4), free_port()
        jobs = [self.staged(file, 4, 0, 2, port),
                self.staged(file, 4, 2, 2, port, NEURON_RT_VISIBLE_CORES="8-9")]
        for each in [each.free() for each in jobs]:
            ended = each.end()
            self.assertEqual((ended.code, each.statuses(ended)), (0, {"right (0)"}), ended)

    def test_in_the_middle_of_one(self):
        # Requests, and deaths, get in between steps of 10 us; the operation takes some hundred.
        self.take_down()
        self.up("f", "--platform", self.platform, "--policy", "overlap")
        *others, victim = [each.free() for each in
                           self.ranks(4, 2, 1 << 18, executions=100000,
                                      NEURON_RT_EXEC_TIMEOUT=str(10 * PATIENCE))]
        victim.at("executed 2").kill()
        for each in others:
            each.ends_with(HANG, words=("suspected hang in collectives operation", GONE))
        self.assert_usable(4)


@unittest.skipUnless(SLOW, "slow")
class Missing(RanksTest):
    """Processes that wait for ranks that never come: two minutes to the first line."""

    def test_lines_and_interrupt(self):
        self.up("f", "--platform", self.platform)
        port = free_port()
        jobs = [self.benchmark(rank, 1, "-r", 4, "-b", "1kb", "-e", "1kb", "allr", port=port)
                for rank in (0, 2)]
        time.sleep(123)
        for job in jobs:
            job.send_signal(signal.SIGINT)
        root, peer = [self.finish(job) for job in jobs]
        self.assertEqual((root.code, peer.code), (130, 130), (root, peer))
        self.assert_lines(root.out, "Timeout waiting for incoming connection (waited 120 sec) - "
                          "retrying; rank 0 of 4 waits for ranks 1, 3")
        self.assert_lines(peer.out, "Timeout waiting for RX (waited 120 sec) - retrying; rank 2 of 4 "
                          "waits for the others, which rank 0 knows")
        self.assert_usable(4)


class Disagree(RanksTest):
    """Ranks that do not fit together learn it from their statuses, before a device waits."""

    def setUp(self):
        super().setUp()
        self.up("f", "--platform", self.platform)

    def benchmarks(self, *lines, firsts=(0, 1), count=1, variables=({}, {})):
        port = free_port()
        jobs = [self.benchmark(first, count, "-n", 1, "-w", 0, *line.split(), port=port,
                               core=core * count, **more)
                for core, (first, line, more) in enumerate(zip(firsts, lines, variables))]
        return [self.finish(job) for job in jobs]

    def assert_told(self, ended, *words):
        for each in ended:
            self.remove_logs(each)
            self.assertEqual(each.code, 1, each)
            self.assertIn("NRT_FAILURE (1)", each.err + each.out)
            self.assert_lines(each.out + each.err, *words)

    def test_programs(self):
        one = "-r 2 -b 1kb -e 1kb -d fp32 allr"
        differs = ("collective 0 of 1 differs: rank 0 has ", "; rank 1 has ", "ranks 0 and 1")
        for other, words in (
                ("-r 2 -b 1kb -e 1kb -d fp32 allg", ("all_reduce of", "all_gather of", *differs)),
                ("-r 2 -b 1kb -e 1kb -d int32 allr", ("of float32", "of int32", *differs)),
                ("-r 2 -b 2kb -e 2kb -d fp32 allr", ("1024 bytes", "2048 bytes", *differs)),
                ("-r 2 -b 1kb -e 1kb -d fp32 -n 2 allr",
                 ("mismatching number of cc ops, expected 1 received 2", "ranks 0 and 1"))):
            with self.subTest(other=other):
                self.assert_told(self.benchmarks(one, other), *words)

    def test_groups(self):
        line = "-r 4 -b 1kb -e 1kb allr"
        two = line + " --data-parallel-dimension 2"
        self.assert_told(self.benchmarks(line, two, firsts=(0, 2), count=2),
                         "groups [0,1,2,3]", "groups [0,1],[2,3]")

    def test_algorithms(self):
        line = "-r 2 -b 1kb -e 1kb allr"
        self.assert_told(self.benchmarks(line, line, variables=(
            {"NCCOM_CC_ALGO": "allr:ring"}, {"NCCOM_CC_ALGO": "allr:mesh"})), "by ring", "by mesh")

    def test_numbers_of_ranks(self):
        self.assert_told(self.benchmarks("-r 2 -b 1kb -e 1kb allr", "-r 3 -b 1kb -e 1kb allr"),
                         "a world of 3 ranks, the root has 2")

    def test_one_number_twice(self):
        line = "-r 3 -b 1kb -e 1kb allr"
        self.assert_told(self.benchmarks(line, line, line, firsts=(0, 1, 1), variables=({},) * 3),
                         "rank 1 is already here")

    def test_orders(self):
        triggers = [trigger("ALL_REDUCE", 1024, 1024), trigger("ALL_GATHER", 512, 1024)]
        port = free_port()
        ranks = [self.staged(self.collectives(f"order{rank}", order, [[[0, 1]]], 1024), 2, rank, 1,
                             port) for rank, order in enumerate((triggers, triggers[::-1]))]
        for each in [each.free() for each in ranks]:
            each.ends_with(FAILED, words=("collective 0 of 2 differs: rank 0 has all_reduce",))
        self.assert_usable(2)

    def test_one_that_cannot_take_part(self):
        """Another file for one rank: its algorithm is not eligible, so all ranks stop."""
        ended = self.benchmarks("-r 2 -b 1kb -e 1kb allr", "-r 2 -b 1kb -e 1kb allr", variables=(
            {}, {"NCCOM_CC_ALGO": "allr:kangaring"}))
        for each in ended:
            self.remove_logs(each)
            self.assertEqual(each.code, 1, each)
            self.assertIn("NRT_INVALID (2)", each.err)
        self.assert_lines(ended[0].out, "Rank 1 cannot take part", "kangaring")


    def test_one_that_has_no_memory_for_its_rings(self):
        """Found out after the ranks have told each other what they have."""
        file, port = self.all_reduce(2), free_port()
        ranks = [self.staged(file, 2, 0, 1, port),
                 self.preloaded("refuse_rings", file, 2, 1, 1, port)]
        for each in [each.free() for each in ranks]:
            each.ends_with("NRT_RESOURCE (4)")
        self.assertIn("Rank 1 cannot take part: ", ranks[0].text())
        self.assert_usable(2)


class Unlimited(RanksTest):
    """NEURON_RT_EXEC_TIMEOUT=0: executions wait for as long as there is hope."""

    def setUp(self):
        super().setUp()
        self.up("f", "--platform", self.platform)

    def ranks(self, **variables):
        """Rank 0 in its last execution, to which rank 1 does not come."""
        file, port = self.all_reduce(2), free_port()
        first, second = [self.staged(file, 2, rank, 1, port, NEURON_RT_EXEC_TIMEOUT="0", **variables)
                         for rank in (0, 1)]
        for word in ("ready", "loaded"):
            for each in (first, second):
                each.at(word).go()
        first.at("executed 1").go()
        second.at("executed 1")
        time.sleep(1.5)
        self.assertIsNone(first.process.poll(), first.text())
        return first, second

    def test_close(self):
        first, second = self.ranks(STAGED_CLOSE="1000")
        first.ends_with(HANG)
        second.kill()
        self.assert_usable(2)

    def test_the_other_rank_dies(self):
        first, second = self.ranks()
        second.kill()
        first.ends_with(HANG, words=(GONE + " (rank 1)",))
        self.assert_usable(2)

    def test_the_other_rank_has_left(self):
        """Ranks that execute the same program another number of times."""
        file, port = self.all_reduce(2), free_port()
        first, second = [self.staged(file, 2, rank, 1, port, executions=2 - rank,
                                     NEURON_RT_EXEC_TIMEOUT="0") for rank in (0, 1)]
        for word in ("ready", "loaded"):
            for each in (first, second):
                each.at(word).go()
        self.assertEqual(second.end().code, 0)
        first.at("executed 1").ends_with(HANG, words=("; rank 1 has left",))
        self.assert_usable(2)

    def test_signal(self):
        first, second = self.ranks()
        first.process.send_signal(signal.SIGTERM)
        self.assertEqual(first.process.wait(5), 143, first.text())
        second.ends_with(HANG, words=(GONE + " (rank 0)",))
        self.assert_usable(2)


class LinkDown(RanksTest):
    """Ranks 0 to 3 are on chips 0 and 1; others on chips 4 and 5."""

    JOB = ("-r", 4, "-b", "1mb", "-e", "1mb", "-n", 1, "-w", 0, "-d", "fp32", "--check", "allr")

    def setUp(self):
        super().setUp()
        self.up("f", "--platform", self.platform)

    def fault(self, state, *options, link="0-1"):
        result = self.command(tool("soma"), "fault", "--name", "f", "--link", link, *options, state)
        self.assertEqual((result.code, result.out, result.err), (0, "", ""))

    def machine_log(self):
        return (self.runtime / f"soma-{os.getuid()}-up-f" / "log").read_text()

    def test_in_the_middle_of_a_collective(self):
        self.fault("down", "--after-us", "20")
        job = self.benchmark(0, 4, *self.JOB, NEURON_RT_EXEC_TIMEOUT="4")
        self.wait_until(lambda: "link.d0-d1 is down" in self.machine_log(), "the machine's word")
        self.assertIsNone(job.poll())
        others = self.finish(self.benchmark(8, 4, *self.JOB))
        self.assertEqual(others.code, 0, others)
        ended = self.finish(job)
        self.remove_logs(ended)
        self.assertEqual(ended.code, 1, ended)
        self.assertEqual(ended.err.count(HANG), 1, ended)  # once for all ranks
        self.assertEqual(ended.out.count("suspected hang in collectives operation 0 out of 1"), 4)
        self.assert_lines(self.machine_log(), "waiting", "d0.dma", "for a chip that is not connected")
        self.fault("up")
        self.assert_usable(4)

    def test_back_in_time(self):
        """Down and up again: nothing is lost, it takes as long as the link was away."""
        tables = []
        for _ in range(2):
            self.fault("down", "--after-us", "20", link="link.d1-d0")
            self.fault("up", "--after-us", "520")
            report = self.directory / "report"
            ended = self.command(tool("soma"), "exec", "--name", "f", "--report", report, "--",
                                 tool("nccom-test"), *self.JOB)
            self.assertEqual(ended.code, 0, ended)
            tables.append(ended.out)
            read = json.loads(report.read_text())
            self.assertEqual([row["name"] for row in read["faults"]],
                             ["link.d0-d1 up", "link.d1-d0 down"])
        self.assertEqual(tables[0], tables[1])
        time_us = float(tables[0].splitlines()[1].split()[3])
        self.assertGreater(time_us, 520)
        self.assertLess(time_us, 800)


class Vandal(RanksTest):
    """A rank that writes garbage over what is its own may break its job, and nothing else."""

    def setUp(self):
        super().setUp()
        self.up()

    def scribble(self, what, seed, **flip):
        port = free_port()
        file = self.all_reduce(2)
        preload = {"SCRIBBLE_WHAT": what, "SCRIBBLE_SEED": str(seed), **flip, "SCRIBBLE_CORE": "1"}
        honest = self.staged(file, 2, 0, 1, port)
        vandal = self.preloaded("scribble", file, 2, 1, 1, port, **preload)
        for word in ("ready", "loaded"):
            for each in (honest, vandal):
                each.at(word).go()
        vandal.at("executed 1").go().at("scribbled")
        for each in (honest.at("executed 1"), vandal):
            ended = each.end()
            self.assertEqual(len(each.statuses(ended)), 1, ended)
        self.assert_usable(2)

    def test_programs_and_semaphores(self):
        self.scribble("pocs", 1)

    def test_rings_and_engines(self):
        self.scribble("re", 1)

    @unittest.skipUnless(SLOW, "slow")
    def test_everything(self):
        for seed in range(4):
            for what in ("p", "o", "c", "s", "e", "r", "pocser"):
                for flip in ({}, {"SCRIBBLE_FLIP": "1"}):
                    with self.subTest(what=what, seed=seed, **flip):
                        self.scribble(what, seed, **flip)


class Illegal(RanksTest):
    def test_programs(self):
        self.up()
        reduce = trigger("ALL_REDUCE", 1024, 1024)
        inside = trigger("ALL_REDUCE", 512, 512).replace("dst_var_id=2 dst_var_offset=0",
                                                         "dst_var_id=1 dst_var_offset=64")
        invalid, resource = "NRT_INVALID (2)", "NRT_RESOURCE (4)"
        for number, (name, triggers, groups, status, words) in enumerate((
                ("a rank twice", [reduce], [[[0, 0]]], invalid, "rank 0 occurs twice in a group"),
                ("overlapping lists", [reduce], [[[0, 1], [1, 0]]], invalid, "rank 1 occurs twice"),
                ("unequal lists", [reduce], [[[0, 1], [2]]], invalid, "unequal length"),
                ("a rank beyond the world", [reduce], [[[0, 3]]], invalid, "rank 3 is not in a world"),
                ("not a member", [reduce], [[[1]]], resource, "does not have myself 0"),
                ("no such group", [trigger("ALL_REDUCE", 1024, 1024, group=1)], [[[0, 1]]], invalid,
                 "group"),
                ("many groups", [trigger("ALL_REDUCE", 1024, 1024, group=i) for i in range(17)],
                 [[[0, 1]]] * 17, resource, "more than 16 different replica groups"),
                ("stream 4", [trigger("ALL_REDUCE", 1024, 1024, stream=4)], [[[0, 1]]], invalid,
                 "tream"),
                ("not divisible", [trigger("REDUCE_SCATTER", 1023, 512)], [[[0, 1]]], invalid,
                 "do not fit 2 ranks"),
                ("partly in place", [inside], [[[0]]], invalid, "overlap"))):
            with self.subTest(name):
                world = 1 if name == "partly in place" else 3 if name == "unequal lists" else 2
                file = self.collectives(f"n{number}", triggers, groups, 1024, world)
                only = self.staged(file, world, 0, 1, free_port())
                ended = only.end()
                self.assertEqual((ended.code, only.statuses(ended)), (1, {status}), ended)
                self.assertIn(words, ended.out)

    def test_arguments(self):
        groups = self.directory / "groups.json"
        groups.write_text(json.dumps({"replica_groups": [[[0, 1], [1]]]}))
        for line, code, words in (
                ("-r 2 -d float128 allr", 2, "invalid choice: 'float128'"),
                ("-r 2 -b 2kb -e 1kb allr", 2, "is less than"),
                ("-r 2 -b 1 -e 1gb -i 1 allr", 2, "1073741824 sizes; at most 100000"),
                ("-r 2 -b 1kb -e 1gb -f 1 allr", 2, "-f/--stepfactor"),
                ("-r 2 -b 400000gb -e 400000gb allr", 2, "invalid size value"),
                (f"-r 2 --custom-replica-groups {groups} allr", 2, "--custom-replica-groups"),
                ("-r 64 -b 1kb -e 1kb allr", 1, "64 ranks in this process, but it sees 2 NeuronCores"),
                ("-r 2 -b 1kb -e 1kb --x-ops-per-iter 1000 allr", 1,
                 "1000 operations per iteration; at most 512"),
                ("-r 2 -b 200000gb -e 200000gb allr", 1, "1 errors found - test failed"),
                ("-r 2 -b 1kb -e 1gb -f 1000000000 allr", 2, "-f/--stepfactor"),
                ("-r 2 -b 1kb -e 1kb -f 32768 -n 1 -w 0 allr", 0, "Avg bus bandwidth")):
            with self.subTest(line=line):
                ended = self.run_in_machine(tool("nccom-test"), *line.split())
                self.remove_logs(ended)
                self.assertEqual(ended.code, code, ended)
                self.assertIn(words, ended.out + ended.err)


if __name__ == "__main__":
    main()
