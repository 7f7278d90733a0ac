#!/usr/bin/env python3
"""Several streams of collectives on the same cores, and collectives beside engines.
streams_test.py BUILD"""
import random

from bench import main
from programs import Program, Programs
import sys

N = 4096


class Order(Programs):
    def test_operations_of_a_stream_run_in_their_order(self):
        """Without a wait: each operation reads what the one before it wrote."""
        program = Program()
        program.variable("x", N, "input")
        program.variable("y", N, "output")
        names = [program.variable(f"b{i}", N) for i in range(5)]
        program.copy("pool", "x", "b0", semaphore=10)
        for i in range(4):
            program.collective("pool", "ALL_REDUCE op=ADD", names[i], names[i + 1],
                               wait="$S[10]>=16" if i == 0 else "")
        program.copy("pool", "b4", "y", semaphore=11, wait="$S[20]>=4")
        program.add("pool", "EVENT_SEMAPHORE $S[11]>=16")
        inputs = [[float(r + i % 7) for i in range(N)] for r in range(2)]
        result = self.execute(program, ["--platform", "trn1.2xlarge"], {"x": inputs})
        expected = [8 * (a + b) for a, b in zip(*inputs)]
        for rank in range(2):
            self.assertEqual(self.output("y", rank), expected)
            spans = result["spans"][rank]
            self.assertEqual(len(spans), 4)
            for one, other in zip(spans, spans[1:]):
                self.assertLess(one["stop"], other["start"])


if __name__ == "__main__":
    main(sys.argv)
