#!/usr/bin/env python3
"""A rate moves the simulated time where it is the bottleneck, and nowhere else. rates_test.py BUILD"""
import sys

from bench import EndToEnd, main

SIZE = 64 * 1024 * 1024
# Machines of which each has another bottleneck in a large all-reduce of two cores.
MACHINES = {
    "fabric": {"dma.engine_gbps": 17.0, "hbm.stack_gbps": 410.0, "fabric.core_to_core_gbps": 57.0},
    "dma": {"dma.engine_gbps": 1.0, "hbm.stack_gbps": 410.0, "fabric.core_to_core_gbps": 57.0},
    "hbm": {"dma.engine_gbps": 17.0, "hbm.stack_gbps": 50.0, "fabric.core_to_core_gbps": 57.0},
}
RATES = {"fabric": "fabric.core_to_core_gbps", "dma": "dma.engine_gbps", "hbm": "hbm.stack_gbps"}


class Rates(EndToEnd):
    def time(self, machine, operation="allr", size=SIZE):
        options = ["--timing-only"]
        for name, value in machine.items():
            options += ["--set", f"{name}={value:g}"]
        run = self.nccom(options, "-b", str(size), "-e", str(size), "-n", "1", "-w", "1", operation)
        self.assert_ok(run)
        return run.microseconds(size)

    def test_halving_a_rate_matters_only_at_the_bottleneck(self):
        for bottleneck, machine in MACHINES.items():
            before = self.time(machine)
            for resource, name in RATES.items():
                after = self.time(dict(machine, **{name: machine[name] / 2}))
                with self.subTest(bottleneck=bottleneck, halved=name):
                    expected = 2.0 if resource == bottleneck else 1.0
                    self.assertAlmostEqual(after / before, expected, delta=0.02)

    def test_small_operations_are_bound_by_latency(self):
        machine = MACHINES["fabric"]
        before = self.time(machine, size=1024)
        for name in RATES.values():
            with self.subTest(halved=name):
                ratio = self.time(dict(machine, **{name: machine[name] / 2}), size=1024) / before
                self.assertLess(ratio, 1.1)
                self.assertGreaterEqual(ratio, 1.0)
        slow = self.time({"cc.sem_wait_ns": 5000.0}, size=1024)
        self.assertGreater(slow - before, 5.0)  # microseconds: at least one wait of a CC-core

    def test_a_parameter_of_another_engine_matters_nowhere(self):
        self.assertEqual(self.time({"clk.pe_ghz": 1.4}), self.time({}))

    # Busy times of the report, for work on one core through libnrt: rings between HBM and SBUF.
    def busy(self, options):
        run = self.run_on(options, [self.program("vector_add"), self.neff("vector_add")])
        self.assert_ok(run)
        return {row["name"]: row["busy_ps"] for row in run.report["resources"]}

    def test_copies_on_one_core_are_bound_by_their_dma_engine(self):
        before = self.busy([])
        engine = self.busy(["--set", "dma.engine_gbps=8.5"])
        stack = self.busy(["--set", "hbm.stack_gbps=205"])
        fabric = self.busy(["--set", "fabric.core_to_core_gbps=28.5"])
        self.assertAlmostEqual(engine["d0.dma0"] / before["d0.dma0"], 2.0, delta=0.1)
        self.assertEqual(engine["d0.hbm0"], before["d0.hbm0"])
        self.assertAlmostEqual(stack["d0.hbm0"] / before["d0.hbm0"], 2.0, delta=0.01)
        self.assertAlmostEqual(stack["d0.dma0"] / before["d0.dma0"], 1.0, delta=0.01)
        self.assertEqual(fabric, before)


if __name__ == "__main__":
    main(sys.argv)
