#!/usr/bin/env python3
"""Several streams of collectives on the same cores, and collectives beside engines and the DMA of
the program (spec/collectives.md 3.5, 3.6). streams_test.py BUILD"""
import json
import random
import sys

from bench import main
from programs import Program, Programs

N = 4096
SMALL = ["--platform", "trn1.2xlarge"]
SLOW = ["--set", "dma.engine_gbps=1"]  # engines move a byte a nanosecond, all else is faster
COPIES = 16  # queues of a copy: what it adds to its semaphore
ALL_REDUCE = "ALL_REDUCE op=ADD"


def small_integers(rank, stream, count=N):
    return [float((rank * 5 + stream * 3 + i) % 11) for i in range(count)]


def add_chain(program, engine, stream, operations, group=0, turns=0, elements=N):
    """Input, a chain of all-reduces that only the stream orders, output; all on one engine."""
    names = [program.variable(f"b{stream}_{i}", elements) for i in range(operations + 1)]
    program.variable(f"x{stream}", elements, "input")
    program.variable(f"y{stream}", elements, "output")
    program.copy(engine, f"x{stream}", names[0], semaphore=stream)
    program.add(engine, f"EVENT_SEMAPHORE $S[{stream}]>={COPIES}")
    if turns:
        program.delay(engine, turns)
    for one, other in zip(names, names[1:]):
        done = program.collective(engine, ALL_REDUCE, one, other, stream=stream, group=group)
    program.copy(engine, names[-1], f"y{stream}", semaphore=4 + stream,
                 wait=f"$S[{done}]>={operations}")
    program.add(engine, f"EVENT_SEMAPHORE $S[{4 + stream}]>={COPIES}")


class Streams(Programs):
    def check_chain(self, stream, operations, groups, ranks):
        for rank in range(ranks):
            group, = (each for each in groups if rank in each)
            total = [sum(column) * len(group) ** (operations - 1)
                     for column in zip(*(small_integers(member, stream) for member in group))]
            self.assertEqual(self.output(f"y{stream}", rank), total, (stream, rank))

    def check_order(self, spans, stream, operations):
        for of_rank in spans:
            mine = [span for span in of_rank if span["stream"] == stream]
            self.assertEqual(len(mine), operations)
            for one, other in zip(mine, mine[1:]):
                self.assertLess(one["stop"], other["start"])

    def times(self, streams):
        """Program time with these streams, each of four operations."""
        program = Program()
        engines = {0: "pool", 1: "act"}
        for stream in streams:
            add_chain(program, engines[stream], stream, operations=4)
        inputs = {f"x{s}": [small_integers(rank, s) for rank in range(2)] for s in streams}
        result = self.execute(program, SMALL, inputs)
        for stream in streams:
            self.check_chain(stream, 4, [[0, 1]], 2)
            self.check_order(result["spans"], stream, 4)
        return self.program_time(result), result["spans"]

    def test_streams_of_one_device_overlap(self):
        alone, _ = self.times([0])
        other, _ = self.times([1])
        both, spans = self.times([0, 1])
        self.assertLess(both, 0.7 * (alone + other))
        self.assertGreater(both, max(alone, other))
        for of_rank in spans:
            first = {stream: min(span["start"] for span in of_rank if span["stream"] == stream)
                     for stream in (0, 1)}
            last = {stream: max(span["stop"] for span in of_rank if span["stream"] == stream)
                    for stream in (0, 1)}
            self.assertLess(max(first.values()), min(last.values()))

    def test_order_between_streams_is_what_semaphores_say(self):
        """One chain over two streams in turns: each operation waits for the other stream's."""
        program = Program()
        program.variable("x", N, "input")
        program.variable("y", N, "output")
        names = [program.variable(f"b{i}", N) for i in range(7)]
        program.copy("pool", "x", "b0", semaphore=0)
        program.add("pool", f"EVENT_SEMAPHORE $S[0]>={COPIES}")
        wait = ""
        for i in range(6):
            done = program.collective("pool", ALL_REDUCE, names[i], names[i + 1], wait=wait,
                                      stream=i % 2)
            wait = f"$S[{done}]>={i // 2 + 1}"
        program.copy("pool", "b6", "y", semaphore=1, wait=wait)
        program.add("pool", f"EVENT_SEMAPHORE $S[1]>={COPIES}")
        inputs = [small_integers(rank, 0) for rank in range(2)]
        result = self.execute(program, SMALL, {"x": inputs}, executions=2)
        for rank in range(2):
            self.assertEqual(self.output("y", rank), [32 * (a + b) for a, b in zip(*inputs)])
            spans = result["spans"][rank]
            self.assertEqual([span["stream"] for span in spans], [0, 1, 0, 1, 0, 1] * 2)
            for one, other in zip(spans, spans[1:]):
                self.assertLess(one["stop"], other["start"])

    def test_groups_take_turns_in_a_stream(self):
        """Sums over rows, columns, rows, columns of eight ranks that start when they like."""
        rows, columns = [[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 4], [5, 1], [2, 6], [7, 3]]
        programs = []
        for rank in range(8):
            program = Program(groups=[rows, columns], ranks=8)
            names = ["x", *(f"b{i}" for i in range(3)), "y"]
            for name in names:
                program.variable(name, N, {"x": "input", "y": "output"}.get(name, "tmp-buf"))
            program.delay("pool", 1 + 50 * (rank * 3 % 8))
            for i in range(4):
                program.collective("pool", ALL_REDUCE, names[i], names[i + 1], group=i % 2)
            program.add("pool", "EVENT_SEMAPHORE $S[20]>=4")
            programs.append(program)
        inputs = [small_integers(rank, 0) for rank in range(8)]
        self.execute(programs, ["--platform", "trn1.32xlarge"], {"x": inputs}, executions=2)
        for rank in range(8):
            self.assertEqual(self.output("y", rank), [8 * sum(column) for column in zip(*inputs)])

    def starts_in_any_order(self, platform, arch, lnc, ranks, groups, seed):
        """Every stream has groups of its own and begins on every rank when it likes."""
        dice = random.Random(seed)
        programs = []
        for _ in range(ranks):
            program = Program(arch, lnc, groups, ranks)
            for stream, engine in zip(range(len(groups)), ("pool", "act", "dve", "sp")):
                add_chain(program, engine, stream, operations=3, group=stream,
                          turns=dice.choice((1, 100, 400)))
            programs.append(program)
        inputs = {f"x{s}": [small_integers(rank, s) for rank in range(ranks)]
                  for s in range(len(groups))}
        result = self.execute(programs, ["--platform", platform], inputs, executions=2,
                              NEURON_LOGICAL_NC_CONFIG=str(lnc))
        orders = set()
        for stream, lists in enumerate(groups):
            self.check_chain(stream, 3, lists, ranks)
            self.check_order(result["spans"], stream, 6)
        for of_rank in result["spans"]:
            orders.add(tuple(span["stream"] for span in of_rank[:len(groups)]))
        self.assertGreater(len(orders), 1, "all ranks have started alike")

    def test_priorities_within_a_stream(self):
        """Each priority has a queue; the stream still orders its operations."""
        program = Program("trn3", lnc=2, ranks=4)
        names = ["x", *(f"b{i}" for i in range(3)), "y"]
        for name in names:
            program.variable(name, N, {"x": "input", "y": "output"}.get(name, "tmp-buf"))
        for one, other, priority in zip(names, names[1:], (3, 0, 3, 1)):
            program.collective("pool", ALL_REDUCE, one, other, priority=priority)
        program.add("pool", "EVENT_SEMAPHORE $S[20]>=4")
        inputs = [small_integers(rank, 0) for rank in range(4)]
        self.execute(program, ["--platform", "trn3-gen2-server"], {"x": inputs}, executions=2)
        for rank in range(4):
            self.assertEqual(self.output("y", rank), [64 * sum(column) for column in zip(*inputs)])

    def test_two_streams_of_four_devices(self):
        rows = [[0, 1, 2, 3, 4, 5, 6, 7]]
        columns = [[0, 2, 4, 6], [7, 5, 3, 1]]
        for seed in range(2):
            self.starts_in_any_order("trn1.32xlarge", "trn1", 1, 8, [rows, columns], seed)

    def test_four_streams_of_four_devices(self):
        chips = [[4 * chip + core for core in range(4)] for chip in range(4)]
        across = [[4 * chip + core for chip in range(4)] for core in range(4)]
        pairs = [[r, 15 - r] for r in range(8)]
        # Among them four rings of one rank per chip beside a mesh, once a deadlock (runtime 2.30).
        self.starts_in_any_order("trn2.48xlarge", "trn2", 2, 16,
                                 [[list(range(16))], chips, across, pairs], seed=1)


    def test_streams_of_nccom_test(self):
        """Four operations at once on the ranks of four devices, with checked data."""
        groups = {"replica_groups": [[[4 * chip + core for chip in range(4)] for core in range(4)]]}
        (self.directory / "groups.json").write_text(json.dumps(groups))
        streams = [{"operation": "allr", "priority": 2},
                   {"operation": "allg", "custom_replica_groups": "groups.json"},
                   {"operation": "redsct", "ops_per_iter": 2, "priority": 3},
                   {"operation": "alltoall"}]
        (self.directory / "streams.json").write_text(json.dumps({"streams": streams}))
        run = self.run_on(["--platform", "trn3-gen2-server"],
                          [self.program("nccom-test"), "-r", "16", "-b", "64kb", "-e", "64kb", "-n",
                           "3", "-w", "1", "-d", "fp32", "-c", "--streams-json", "streams.json"])
        self.assert_ok(run)
        self.assertEqual(run.output.count("Avg bus bandwidth"), 4)


    def test_more_streams_than_cc_cores_are_refused(self):
        program = Program()
        for name in "ab":
            program.variable(name, 64)
        program.collective("pool", ALL_REDUCE, "a", "b", stream=3)
        run = self.attempt(program, SMALL)
        self.assertNotEqual(run.status, 0)
        self.assertIn("Stream 3: the core has 2", run.output)


class Overlap(Programs):
    """Times of collectives beside other work of the same cores; data do not matter."""

    def timed(self, program, *options, platform="trn1.2xlarge", **environment):
        """Picoseconds of the program, and of the longest collective of each stream."""
        options = ["--platform", platform, "--timing-only", *options]
        result = self.execute(program, options, **environment)
        longest = [max(span["stop"] - span["start"] for of_rank in result["spans"]
                       for span in of_rank if span["stream"] == stream)
                   for stream in range(program.streams)]
        return self.program_time(result), longest

    def work(self, elements, turns=0, copied=0):
        """Each rank gives so many elements to the other; vector instructions; a copy: at once."""
        program = Program()
        program.variable("a", elements)
        program.variable("b", elements)
        program.collective("pool", "PERMUTE_IMPLICIT", "a", "b")
        program.add("pool", "EVENT_SEMAPHORE $S[20]>=1")
        if turns:
            program.add("dve", "REGISTER_MOVE dst=r0 src=0\nloop:\n"
                        "TENSOR_TENSOR op=ADD dst=fp32@8192[1][1024] src0=fp32@0[1][1024] "
                        "src1=fp32@4096[1][1024] partitions=0..127\n"
                        "REGISTER_ALU op=ADD dst=r0 a=r0 b=1\n"
                        f"COMPARE_BRANCH cond=LTU a=r0 b={turns} target=loop")
        if copied:
            program.variable("from", copied)
            program.variable("to", copied)
            program.copy("act", "from", "to", semaphore=0)
            program.add("act", f"EVENT_SEMAPHORE $S[0]>={COPIES}")
        return program

    def test_engines_compute_while_a_collective_runs(self):
        communication, _ = self.timed(self.work(1 << 19))
        computation, _ = self.timed(self.work(64, turns=17))
        self.assertAlmostEqual(communication / computation, 1, delta=0.3)  # neither hides easily
        both, _ = self.timed(self.work(1 << 19, turns=17))
        self.assertLess(both, 1.02 * max(communication, computation))

    def shares(self, elements, copied, program_packet, collective_packet):
        """An engine that has both at hand serves a packet of each in turn."""
        sizes = {"NEURON_RT_DBG_DMA_PACKETIZATION_SIZE": str(program_packet),
                 "NEURON_RT_DBG_CC_DMA_PACKET_SIZE": str(collective_packet)}
        alone, [collective] = self.timed(self.work(elements), *SLOW, **sizes)
        both, [beside] = self.timed(self.work(elements, copied=copied), *SLOW, **sizes)
        share = collective_packet / (program_packet + collective_packet)
        # Turns at the ends, among them those of the operation's signals.
        self.assertGreater(beside, 0.999 * collective / share)
        self.assertLess(beside, collective / share + 4 * 1000 * program_packet)
        # Together they take what they take one after the other.
        self.assertAlmostEqual(both / (alone + 1000 * 4 * copied / COPIES), 1, delta=0.01)

    def test_packet_sizes_set_the_shares_of_an_engine(self):
        self.shares(1 << 20, 1 << 22, 4096, 65536)
        self.shares(1 << 20, 5 << 22, 65536, 4096)

    def streams(self, *operations, **environment):
        """Times of operations at once, (packets of an engine, priority) by stream, on a chip of
        Trn3 whose engines bound them."""
        program = Program("trn3", lnc=2)
        for stream, (packets, priority) in enumerate(operations):
            elements = packets * 65536 // 4 * 32  # of two cores with 16 engines
            program.variable(f"a{stream}", elements)
            program.variable(f"b{stream}", elements)
            program.collective("pool", "PERMUTE_IMPLICIT", f"a{stream}", f"b{stream}",
                               stream=stream, priority=priority)
        for stream in range(len(operations)):
            program.add("pool", f"EVENT_SEMAPHORE $S[{20 + stream}]>=1")
        return self.timed(program, *SLOW, platform="trn3-gen2-server", **environment)[1]

    def test_an_urgent_collective_overtakes(self):
        """It comes second, and waits for the packet in flight only."""
        [small] = self.streams((4, 0))
        [large] = self.streams((16, 0))
        packet = (large - small) / 12
        for priority in (0, 2):
            late, urgent = self.streams((16, priority), (4, priority))
            self.assertGreater(urgent, small + 3.5 * packet)  # in turns
            self.assertAlmostEqual(late, large + small, delta=packet)
        for low, high in ((3, 0), (2, 1)):
            late, urgent = self.streams((16, low), (4, high))
            self.assertLess(urgent, small + 1.2 * packet)
            self.assertAlmostEqual(late, large + small, delta=packet)

    def test_packet_sizes_of_streams_set_their_shares(self):
        """The published setting for tensor parallelism on stream 0 and FSDP on stream 1."""
        [alone] = self.streams((16, 0))
        sizes = {"NEURON_RT_DBG_CC_DMA_PACKET_SIZE": "65536,4096"}
        first, second = self.streams((16, 0), (16, 0), **sizes)
        self.assertAlmostEqual(first / alone, 17 / 16, delta=0.02)
        self.assertAlmostEqual(second / alone, 2, delta=0.05)

    def test_no_priorities_before_trn3(self):
        program = self.work(64)
        program.collective("pool", ALL_REDUCE, "a", "b", priority=1)
        run = self.attempt(program, SMALL)
        self.assertNotEqual(run.status, 0)
        self.assertIn("Collectives have priorities on NeuronCore-v4 and later only", run.output)


class Rings(Programs):
    def sizes(self, order):
        """Bytes of rings of a program with these operations; equal letters are equal ones."""
        program = Program()
        for name in "ab":
            program.variable(f"{name}in", 1 << 20)
            program.variable(f"{name}out", 1 << 20)
        for name in order:
            program.collective("pool", ALL_REDUCE, f"{name}in", f"{name}out")
        program.add("pool", f"EVENT_SEMAPHORE $S[20]>={len(order)}")
        return self.execute(program, [*SMALL, "--timing-only"], rings=True)["rings"]

    def test_equal_operations_share_rings(self):
        one = self.sizes("a")
        self.assertGreater(one, 0)
        self.assertEqual(self.sizes(100 * "a"), one)
        two = self.sizes("ab")
        self.assertEqual(self.sizes(50 * "ab"), two)
        self.assertGreater(self.sizes("abb" + "ab"), two)

    def engines(self, elements):
        """DMA engines that move a message of rank 0."""
        program = Program()
        program.variable("a", elements)
        program.variable("b", elements)
        program.collective("pool", "PERMUTE_IMPLICIT", "a", "b")
        program.add("pool", "EVENT_SEMAPHORE $S[20]>=1")
        report = self.execute(program, SMALL)["run"].report
        names = {f"d0.dma{e}" for e in range(16)}
        return sum(row["name"] in names for row in report["resources"])

    def test_a_small_message_uses_one_engine(self):
        self.assertEqual(self.engines(16), 1)
        self.assertEqual(self.engines(1 << 20), 16)


if __name__ == "__main__":
    main(sys.argv)
