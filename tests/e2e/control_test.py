#!/usr/bin/env python3
"""Functions, queue instances, barriers and the rank in programs, through libnrt.
control_test.py BUILD"""
import array
import struct
import sys

from bench import main
from programs import Program, Programs

ONE = ["--platform", "trn1.2xlarge"]
PAIR = ["--platform", "trn2.3xlarge"]
N = 1024


def word(number):
    """What a float32 tensor holds where a program reads this integer."""
    return struct.unpack("f", struct.pack("I", number))[0]


def filled(value, elements=N):
    return [float(value)] * elements


class Control(Programs):
    def alone(self, options, program, inputs, **more):
        return self.execute(program, options, {n: [v] for n, v in inputs.items()}, **more)

    def tensors(self, program, **kinds):
        for name, kind in kinds.items():
            program.variable(name, N, kind)

    def test_a_function_runs_where_it_is_called(self):
        """Its transfers and those of its caller share rings, in the order of execution."""
        p = Program(ranks=1)
        self.tensors(p, a="input", b="input", x="tmp-buf", first="output", then="output",
                     last="output")
        of_caller = p.block("sp", "b", "x", 1)
        of_function = p.block("sp", "a", "x", 1, function_start="from_a")
        p.function("sp", "from_a", [f"PSEUDO_DMA_TRIGGER $S[1]>=r3 {of_function}",
                                    "REGISTER_ALU op=ADD dst=r3 a=r3 b=16",
                                    "EVENT_SEMAPHORE $S[1]>=r3"])
        p.function("sp", "twice_removed", ["CALL name=from_a"])
        p.add("sp", "REGISTER_MOVE dst=r3 src=0")
        p.add("sp", "CALL name=from_a")
        p.copy("sp", "x", "first", 2)
        p.add("sp", f"PSEUDO_DMA_TRIGGER $S[2]>=16 {of_caller}")
        p.add("sp", "REGISTER_MOVE dst=r3 src=32")
        p.copy("sp", "x", "then", 3, "$S[1]>=32")
        p.add("sp", "EVENT_SEMAPHORE $S[3]>=16")
        p.add("sp", "CALL name=twice_removed")
        p.copy("sp", "x", "last", 4)
        p.add("sp", "EVENT_SEMAPHORE $S[4]>=16")
        self.alone(ONE, p, {"a": filled(1), "b": filled(2)}, executions=3)
        self.assertEqual(self.output("first", 0), filled(1))
        self.assertEqual(self.output("then", 0), filled(2))
        self.assertEqual(self.output("last", 0), filled(1))

    def test_a_trigger_starts_the_block_of_the_active_instance(self):
        p = Program(ranks=1)
        self.tensors(p, a="input", b="input", x="tmp-buf", base="output", other="output",
                     back="output")
        trigger = p.block("sp", "a", "x", 1)
        p.queues["qsp1"]["queue_instances"] = ["spare"]
        p.block("sp", "b", "x", 1, id=1, instance_name="spare")
        for number, target in enumerate(("base", "other", "back")):
            switch = {"other": " instance=spare"}.get(target, "")
            p.add("sp", f"SWITCH_QUEUE_INSTANCE qsp1{switch}")
            p.add("sp", f"PSEUDO_DMA_TRIGGER {trigger}")
            p.copy("sp", "x", target, 2 + number, f"$S[1]>={16 * (number + 1)}")
            p.add("sp", f"EVENT_SEMAPHORE $S[{2 + number}]>=16")
        self.alone(ONE, p, {"a": filled(1), "b": filled(2)}, executions=2)
        self.assertEqual(self.output("base", 0), filled(1))
        self.assertEqual(self.output("other", 0), filled(2))
        self.assertEqual(self.output("back", 0), filled(1))

    def test_engines_meet_at_a_barrier(self):
        """The later one of two writes a number that the other one reads, to and fro."""
        p = Program(ranks=1)
        p.variables["SB"] = {"type": "state-buffer", "var_id": 0, "size": 0x2000000}
        p.variable("out", 4, "output")
        cell = lambda byte: f"uint32@{byte}[1][1] partitions=0..0"
        barrier = "ALL_ENGINE_BARRIER semaphore=40"
        p.delay("act", 500)
        p.add("act", "REGISTER_MOVE dst=r5 src=7")
        p.add("act", f"REGISTER_STORE src=r5 dst={cell(0)}")
        p.add("act", barrier)
        p.add("act", barrier)
        p.add("act", f"REGISTER_LOAD dst=r6 src={cell(4)}")
        p.add("act", "REGISTER_ALU op=MUL dst=r6 a=r6 b=2")
        p.add("act", f"REGISTER_STORE src=r6 dst={cell(8)}")
        p.add("act", barrier)
        p.add("dve", barrier)
        p.add("dve", f"REGISTER_LOAD dst=r6 src={cell(0)}")
        p.add("dve", "REGISTER_ALU op=ADD dst=r6 a=r6 b=1")
        p.delay("dve", 500)
        p.add("dve", f"REGISTER_STORE src=r6 dst={cell(4)}")
        p.add("dve", barrier)
        p.add("dve", barrier)
        for _ in range(3):
            p.add("sp", barrier)
        p.copy("sp", "SB", "out", 1, size=16)
        p.add("sp", "EVENT_SEMAPHORE $S[1]>=16")
        self.alone(ONE, p, {}, executions=2)
        self.assertEqual(self.words("out", 0)[:3], [7, 8, 16])

    def test_physical_cores_meet_at_a_barrier(self):
        p = Program("trn2", lnc=2, ranks=1)
        self.tensors(p, a="input", b="output")
        p.variable("shared", N, "output")
        other = p.second_core()
        other.delay("sp", 2000)
        other.copy("sp", "a", "shared", 1)
        other.add("sp", "PSEUDO_CORE_BARRIER $S[1]>=16 semaphore=9 id=1")
        other.add("sp", "PSEUDO_CORE_BARRIER semaphore=9 id=1")
        p.add("sp", "PSEUDO_CORE_BARRIER semaphore=9 id=1")
        p.copy("sp", "shared", "b", 2)
        p.add("sp", "PSEUDO_CORE_BARRIER $S[2]>=16 semaphore=9 id=1")
        self.alone(PAIR, p, {"a": filled(5)}, executions=2, NEURON_LOGICAL_NC_CONFIG="2")
        self.assertEqual(self.output("b", 0), filled(5))

    def test_a_barrier_that_one_core_has_not_is_refused(self):
        p = Program("trn2", lnc=2, ranks=1)
        self.tensors(p, a="input", b="output")
        p.second_core().copy("sp", "a", "b", 1)
        p.add("sp", "PSEUDO_CORE_BARRIER semaphore=9 id=4")
        run = self.attempt(p, PAIR, {"a": [filled(5)]}, NEURON_LOGICAL_NC_CONFIG="2",
                           NEURON_RT_LOG_LOCATION="console")
        self.assertNotEqual(run.status, 0)
        self.assertIn("Core barrier 4 stands 1 times in the program of the first", run.output)

    def test_a_tensor_holds_the_trip_count_of_a_loop(self):
        """Row by row: the first rows of a tensor, as many as another one says."""
        rows, size = 8, 512
        for trips in (5, 1):
            with self.subTest(trips=trips):
                p = Program("trn2", ranks=1)
                p.variable("count", 2, "input")
                p.variable("a", rows * size // 4, "input")
                p.variable("b", rows * size // 4, "output")
                p.variable("done", 4, "output")
                p.table("tensors", "count", "a", "b", "done")
                p.queues["qdyn"] = {"type": "dynamic", "num_queues": 16, "owner": "sp"}
                p.add("sp", "TENSOR_LOAD dst=r1 src=uint32@t0:4[4][1]")
                p.add("sp", "REGISTER_MOVE dst=r2 src=0")
                p.add("sp", "REGISTER_MOVE dst=r3 src=0")
                p.add("sp", "row:")
                p.add("sp", "DMA_MEMCPY qdyn mode=HWDGE "
                            f"dst=uint8@t2:0+r2*{size}[1][{size}] "
                            f"src=uint8@t1:0+r2*{size}[1][{size}] semaphore=7")
                p.add("sp", "REGISTER_ALU op=ADD dst=r2 a=r2 b=1")
                p.add("sp", "REGISTER_ALU op=ADD dst=r3 a=r3 b=16")
                p.add("sp", "EVENT_SEMAPHORE $S[7]>=r3")
                p.add("sp", "COMPARE_BRANCH cond=LTU a=r2 b=r1 target=row")
                p.add("sp", "TENSOR_STORE dst=uint64@t3:8[8][1] src=r2")
                a = [float(i) for i in range(rows * size // 4)]
                self.alone(PAIR, p, {"count": [0.0, word(trips)], "a": a}, executions=2,
                           NEURON_LOGICAL_NC_CONFIG="1")
                copied = trips * size // 4
                self.assertEqual(self.output("b", 0)[:copied], a[:copied])
                self.assertFalse(any(self.output("b", 0)[copied:]))
                self.assertEqual(self.words("done", 0), [0, 0, trips, 16 * trips])

    def test_a_function_runs_on_the_tensors_of_its_call(self):
        p = Program("trn2", ranks=1)
        self.tensors(p, a="input", b="input", x="output", y="output", z="output")
        p.table("first", "a", "x")
        second = p.table("second", "b", "y")
        third = p.table("third", "b", "z")
        p.queues["qdyn"] = {"type": "dynamic", "num_queues": 16, "owner": "sp"}
        p.function("sp", "copy", [
            f"DMA_MEMCPY qdyn mode=HWDGE dst=fp32@arg1:0[4][{N}] src=fp32@arg0:0[4][{N}] "
            "semaphore=7",
            "REGISTER_ALU op=ADD dst=r3 a=r3 b=16",
            "EVENT_SEMAPHORE $S[7]>=r3",
            "TENSOR_LOAD dst=r1 src=uint32@arg0:0[4][1]",
            "TENSOR_STORE dst=uint32@arg1:4[4][1] src=r1"],
            arguments=p.variables["first"]["var_id"])
        p.function("sp", "copies", ["CALL name=copy", "CALL name=inner"])
        p.function("sp", "inner", ["TENSOR_LOAD dst=r1 src=uint32@arg0:8[4][1]",
                                   "TENSOR_STORE dst=uint32@arg1:12[4][1] src=r1"])
        p.add("sp", "REGISTER_MOVE dst=r3 src=0")
        p.add("sp", "CALL name=copy")
        p.add("sp", f"CALL name=copy args_table_var_id={second}")
        p.add("sp", f"CALL name=copies args_table_var_id={third}")
        a = [float(i + 1) for i in range(N)]
        b = [float(-i - 1) for i in range(N)]
        self.alone(PAIR, p, {"a": a, "b": b}, executions=2, NEURON_LOGICAL_NC_CONFIG="1")
        self.assertEqual(self.output("x", 0), [a[0], a[0], *a[2:]])
        self.assertEqual(self.output("y", 0), [b[0], b[0], *b[2:]])
        # `copies` takes b and z to `inner`, while `copy` has arguments of its own.
        self.assertEqual(self.output("z", 0)[3], b[2])
        self.assertEqual(self.output("z", 0)[:3], [0.0, 0.0, 0.0])

    def test_an_argument_that_a_call_has_not_is_refused(self):
        p = Program(ranks=1)
        self.tensors(p, a="input", b="output")
        table = p.table("only", "a")
        p.function("sp", "f", ["TENSOR_LOAD dst=r1 src=uint32@arg1:0[4][1]"])
        p.add("sp", f"CALL name=f args_table_var_id={table}")
        run = self.attempt(p, ONE, {"a": [filled(3)]}, NEURON_RT_LOG_LOCATION="console")
        self.assertNotEqual(run.status, 0)
        self.assertIn("argument 1 of 1 is named", run.output)

    def test_the_rank(self):
        p = Program(ranks=2)
        p.variables["SB"] = {"type": "state-buffer", "var_id": 0, "size": 0x2000000}
        p.variable("out", 1, "output")
        p.add("sp", "GET_GLOBAL_RANK_ID dst=r9")
        p.add("sp", "REGISTER_STORE src=r9 dst=uint32@0[1][1] partitions=0..0")
        p.copy("sp", "SB", "out", 1, size=4)
        p.add("sp", "EVENT_SEMAPHORE $S[1]>=16")
        p.variable("sum", 1, "output")
        p.collective("act", "ALL_REDUCE op=ADD", "out", "sum")
        self.execute(p, ONE)
        self.assertEqual([self.words("out", rank)[0] for rank in range(2)], [0, 1])

    def test_the_rank_whose_data_have_come(self):
        """As a register says after each turn of a ring of four ranks, and as the data say."""
        p = Program("trn2", ranks=4)
        self.tensors(p, a="input", once="output", twice="output", thrice="output")
        p.variable("who", 5, "output")
        p.table("tensors", "who")
        query = "GET_CUR_PROCESSING_RANK_ID dst=r4 group_id=0 channel_id=0"
        p.add("dve", "REGISTER_MOVE dst=r5 src=0")
        p.add("dve", "turn:")
        p.add("dve", f"{query} iteration=r5")
        p.add("dve", "TENSOR_STORE dst=uint32@t0:0+r5*4[4][1] src=r4")
        p.add("dve", "REGISTER_ALU op=ADD dst=r5 a=r5 b=1")
        p.add("dve", "COMPARE_BRANCH cond=LTU a=r5 b=4 target=turn")
        p.add("dve", f"{query} iteration=6")
        p.add("dve", "TENSOR_STORE dst=uint32@t0:16[4][1] src=r4")
        done = p.collective("sp", "PERMUTE_IMPLICIT", "a", "once")
        p.collective("sp", "PERMUTE_IMPLICIT", "once", "twice", f"$S[{done}]>=1")
        p.collective("sp", "PERMUTE_IMPLICIT", "twice", "thrice", f"$S[{done}]>=2")
        p.add("sp", f"EVENT_SEMAPHORE $S[{done}]>=3")
        self.execute(p, PAIR, {"a": [filled(rank) for rank in range(4)]}, executions=2,
                     NEURON_LOGICAL_NC_CONFIG="1")
        for rank in range(4):
            who = self.words("who", rank)
            self.assertEqual(who[0], rank)
            self.assertEqual(sorted(who[:4]), [0, 1, 2, 3])
            self.assertEqual(who[4], who[2])
            for turns, name in enumerate(("once", "twice", "thrice"), 1):
                self.assertEqual(self.output(name, rank), filled(who[turns]))

    def test_a_rank_query_needs_collectives(self):
        p = Program(ranks=1)
        self.tensors(p, a="input", b="output")
        p.copy("sp", "a", "b", 1)
        p.add("sp", "GET_CUR_PROCESSING_RANK_ID dst=r4 iteration=0 group_id=0 channel_id=0")
        run = self.attempt(p, ONE, {"a": [filled(3)]}, NEURON_RT_LOG_LOCATION="console")
        self.assertNotEqual(run.status, 0)
        self.assertIn("in a program without collectives", run.output)

    def test_collectives_of_the_second_physical_core(self):
        """Its own on stream 1, those of the first core on stream 0, at the same time."""
        p = Program("trn2", lnc=2, ranks=2)
        self.tensors(p, a="input", sum="output", other="output")
        second = p.second_core()
        done = second.collective("dve", "ALL_REDUCE op=ADD", "a", "other", stream=1)
        second.add("dve", f"EVENT_SEMAPHORE $S[{done}]>=1")
        done = p.collective("sp", "ALL_REDUCE op=ADD", "a", "sum")
        p.add("sp", f"EVENT_SEMAPHORE $S[{done}]>=1")
        self.execute(p, PAIR, {"a": [filled(3), filled(4)]}, executions=2,
                     NEURON_LOGICAL_NC_CONFIG="2")
        for rank in range(2):
            self.assertEqual(self.output("sum", rank), filled(7))
            self.assertEqual(self.output("other", rank), filled(7))

    def words(self, name, rank):
        return list(array.array("I", (self.directory / f"{name}.{rank}").read_bytes()))


if __name__ == "__main__":
    main(sys.argv)
