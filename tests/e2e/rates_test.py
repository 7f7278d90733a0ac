#!/usr/bin/env python3
"""A rate moves the simulated time where it is the bottleneck, and nowhere else. rates_test.py BUILD"""
import sys

from bench import EndToEnd, main

SIZE = 64 * 1024 * 1024
# Machines of which each has another bottleneck in a large all-reduce of two cores. Reads over the
# fabric are as fast as writes.
MACHINES = {
    "fabric": {"dma.engine_gbps": 17.0, "hbm.stack_gbps": 820.0},
    "dma": {"dma.engine_gbps": 1.0, "hbm.stack_gbps": 820.0},
    "hbm": {"dma.engine_gbps": 17.0, "hbm.stack_gbps": 50.0},
}
for each in MACHINES.values():
    each.update({"fabric.core_to_core_gbps": 57.0, "fabric.core_read_gbps": 57.0})
RATES = {"fabric": "fabric.core_to_core_gbps", "dma": "dma.engine_gbps", "hbm": "hbm.stack_gbps"}


class Rates(EndToEnd):
    def time(self, machine, operation="allr", size=SIZE):
        options = ["--timing-only"]
        for name, value in machine.items():
            options += ["--set", f"{name}={value:g}"]
        run = self.nccom(options, "-b", str(size), "-e", str(size), "-n", "1", "-w", "1", "-d", "bf16",
                         operation)
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

    def test_a_parameter_of_what_takes_no_part_matters_nowhere(self):
        before = self.time({})
        for name, value in (("clk.pe_ghz", 1.4), ("host.pcie_gbps", 8)):
            self.assertEqual(self.time({name: value}), before, name)

    # The copy of client/long_copy: 60 times 64 KiB from stack to stack by one engine.
    def longest_request(self, **rates):
        options = []
        for name, value in rates.items():
            options += ["--set", f"{name.replace('__', '.')}={value}"]
        run = self.run_on(options, [self.program("client/long_copy")])
        self.assert_ok(run)
        requests, = (row for row in run.report["activities"] if row["name"] == "request")
        return requests["max_ps"]

    # The rates are so low that nothing else, such as the 10 ms of a closing process, takes longer.
    def test_a_copy_by_one_slow_engine(self):
        before = self.longest_request(dma__engine_gbps=0.17)
        self.assertAlmostEqual(before / (60 * 65536 / 0.17e9 * 1e12), 1.0, delta=0.01)
        slower = self.longest_request(dma__engine_gbps=0.085)
        self.assertAlmostEqual(slower / before, 2.0, delta=0.01)
        for rate in ({"hbm__stack_gbps": 205}, {"fabric__core_to_core_gbps": 28.5}):
            other = self.longest_request(dma__engine_gbps=0.17, **rate)
            self.assertAlmostEqual(other / before, 1.0, delta=0.01)

    def test_a_copy_between_slow_stacks(self):
        before = self.longest_request(hbm__stack_gbps=0.2)
        slower = self.longest_request(hbm__stack_gbps=0.1)
        self.assertAlmostEqual(slower / before, 2.0, delta=0.01)
        engine = self.longest_request(hbm__stack_gbps=0.2, dma__engine_gbps=8.5)
        self.assertAlmostEqual(engine / before, 1.0, delta=0.01)


if __name__ == "__main__":
    main(sys.argv)
