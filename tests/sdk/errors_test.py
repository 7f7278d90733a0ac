#!/usr/bin/env python3
"""Mistakes of those who write platform files, blocks and policies: each ends in an exit status and
a message that names it, and never in a crash or a hang. errors_test.py BUILD"""
import json
import os
import re
import subprocess
import sys

from platforms import LIMIT, Platforms, main

USAGE = 2  # the platform does not fit
MACHINE = [122]  # code of others has failed while it ran
REGION = 0x2000_0000  # of attached blocks in BAR 0 of a trn1 chip
TRN1 = ("trn1.32xlarge", 32)


class Errors(Platforms):
    def start(self, path, *command, options=()):
        return self.run_on(["--platform", str(path), *options], list(command) or ["true"])

    def refused(self, path, pattern, options=()):
        """The machine is not built; one line says why."""
        run = self.start(path, options=options)
        self.assertEqual(run.status, USAGE, run.errors)
        self.assertRegex(run.errors, pattern)
        self.assertEqual(len(run.errors.splitlines()), 1, run.errors)

    def fails(self, path, pattern, *command):
        """The machine ends while it runs."""
        run = self.start(path, *command)
        self.assertIn(run.status, MACHINE, run.output + run.errors)
        self.assertRegex(run.errors, pattern)
        return run

    def all_reduce(self, ranks=2):
        return [self.program("nccom-test"), "-r", str(ranks), "-b", "64kb", "-e", "64kb", "-n", "1",
                "-w", "0", "allr"]

    def read(self, offset=REGION):
        return [str(self.build / "bin" / "client" / "read_block"), hex(offset)]

    def compiled(self, text):
        """A library made from C."""
        source = self.directory / "old.c"
        source.write_text(text, encoding="ascii")
        library = self.directory / "libold.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        return library


class Files(Errors):
    def test_what_is_right_runs(self):
        path = self.write_platform(blocks=[self.faulty()])
        run = self.start(path, *self.read())
        self.assertEqual((run.status, run.output), (0, "0x5a5a5a5a\n"), run.errors)
        self.assertEqual(self.start(path, *self.all_reduce()).status, 0)

    def test_unknown_keys_by_line(self):
        path = self.write_platform(blocks=[self.faulty(colour="red")])
        line = self.line_of(path, "colour")
        self.refused(path, rf"p\.json:{line}: .*colour")
        path = self.write_platform(policies={"weather": "fine"})
        line = self.line_of(path, "weather")
        self.refused(path, rf"p\.json:{line}: .*weather")

    def test_bases(self):
        self.refused(self.write_platform(base="trn9.huge"), "unknown platform 'trn9.huge'; valid: ")
        self.refused(self.write_platform(base="none.json"), r"none\.json: cannot read: No such")
        self.refused(self.write_platform(base="p.json"), r"p\.json:4: bases of bases go too deep")
        self.write_platform("q", base="p.json")
        self.refused(self.write_platform(base="q.json"), r"json:4: bases of bases go too deep")
        self.refused(self.write_platform(base=7), r"p\.json:4: base is the name of a platform")

    def test_names_and_places(self):
        for pattern, *blocks in (
                ("two blocks are called 'faulty'", {}, {}),
                (r"there is no chip 7 \(0 to 0\)", {"chips": [7]}),
                ("no semaphore 3 of core 5",
                 {"semaphores": [{"port": "done", "core": 5, "semaphore": 3}]}),
                ("/semaphore: Expected number less than or equal to 255",
                 {"semaphores": [{"port": "done", "core": 0, "semaphore": 256}]}),
                ("no core 9", {"initiators": [{"socket": "memory", "core": 9}]})):
            with self.subTest(pattern):
                path = self.write_platform(blocks=[self.faulty(**each) for each in blocks])
                self.refused(path, pattern)

    def test_sockets(self):
        for pattern, change in (
                ("no target socket 'regs'; it has .*registers.*memory.*done",
                 {"windows": [{"socket": "regs", "size": 4096}]}),
                ("'memory' is no target socket", {"windows": [{"socket": "memory", "size": 4}]}),
                ("no initiator socket 'mem'; it has ", {"initiators": [{"socket": "mem"}]}),
                ("'registers' is no initiator socket", {"initiators": [{"socket": "registers"}]}),
                (r"no sc_out<bool> 'ready'; it has ",
                 {"semaphores": [{"port": "ready", "core": 0, "semaphore": 1}]}),
                # What its platform file leaves out has nobody at the other end.
                ("cannot build .* not bound: port 'd0.faulty.block.memory'", {"initiators": []}),
                ("not bound: port 'd0.faulty.block.done'", {"semaphores": []})):
            with self.subTest(pattern):
                self.refused(self.write_platform(blocks=[self.faulty(**change)]), pattern)

    def test_windows(self):
        def window(address, size=4096):
            return [{"socket": "registers", "address": address, "size": size}]

        outside = "does not lie in the region for blocks of this generation, 0xfffe0000000 to "
        for windows in (window("0x1000"), window("0xfffe0000002"),
                        window("0xfffefffff00"), window("0xfffe0000000", 1 << 28 | 4)):
            with self.subTest(windows):
                self.refused(self.write_platform(blocks=[self.faulty(windows=windows)]),
                             f"{outside}|/size: Expected number less than or equal to")
        pair = [self.faulty(windows=window("0xfffe0000000")),
                self.faulty(windows=window("0xfffe0000800"), name="other")]
        self.refused(self.write_platform(blocks=pair), "block d0.other the window of socket "
                     "'registers' overlaps another")
        twice = window("0xfffe0000000") + window("0xfffe0010000")
        self.refused(self.write_platform(blocks=[self.faulty(windows=twice)]),
                     "socket 'registers' has two windows")

    def test_libraries(self):
        self.refused(self.write_platform(blocks=[self.faulty(library="libnone.so")]),
                     "block faulty: cannot load its library: libnone.so: .*No such file")
        self.refused(self.write_platform(blocks=[self.faulty(type="sundial")]),
                     r"libfaulty\.so registers no block of type 'sundial' .*soma_block_sundial")
        old = "struct { unsigned abi; const char* systemc; void* create; } soma_block_old = "
        for pattern, text in (
                ("compiled against version 77 of the headers .*; this is version 1",
                 old + '{77, "2.3.4", 0};'),
                ("compiled against SystemC 0.9-BETA; this is 2.3", old + '{1, "0.9-BETA", 0};')):
            library = self.compiled(text)
            with self.subTest(pattern):
                self.refused(self.write_platform(blocks=[self.faulty(library=str(library),
                                                                     type="old")]), pattern)

    def test_parameters(self):
        for parameters, pattern in (({"hwo": "thread"}, "d0.faulty has no parameter 'hwo'"),
                                    ({"after_us": "soon"},
                                     "parameter after_us is 'soon', which is not a whole number"),
                                    ({"after_us": True}, "'true', which is not a whole number")):
            path = self.write_platform(blocks=[self.faulty(parameters=parameters)])
            self.refused(path, pattern)

    def test_policies(self):
        for policies, pattern in (
                ({"links": "lifo"},
                 "policy links: there is no built-in policy 'lifo'; there are fifo and time_div"),
                ({"dma_queues": "lottery"}, "there are round_robin and strict_priority"),
                ({"routing": "torus"}, "the chips of this topology have no places in one"),
                ({"links": {"type": "fifo", "parameters": {"depth": 3}}},
                 "policy links: 'fifo' has no parameters"),
                ({"links": self.policy("idle")},
                 "'idle' of .*libfaulty.so is a queue_arbiter, not a link_arbiter"),
                ({"links": self.policy("sundial")}, "registers no policy of type 'sundial'"),
                ({"dma_queues": self.policy("idle", parameters={"depth": 3})},
                 "policy dma_queues has no parameter 'depth'")):
            with self.subTest(pattern):
                self.refused(self.write_platform(policies=policies), pattern)
        slots = {"links": {"type": "time_division", "parameters": {"turns": 0}}}
        self.refused(self.write_platform(base=TRN1[0], policies=slots), "turns: 1 to 1024")

    def test_signal_files(self):
        path = self.write_platform()
        file = str(self.directory / "none" / "x.vcd")
        self.refused(path, re.escape(f"cannot write {file}"),
                     ["--vcd", file, "--watch", "d0.dma*.busy"])
        file = str(self.directory / "x.vcd")
        self.refused(path, "--vcd requires --watch", ["--vcd", file])
        self.refused(path, "--watch requires --vcd", ["--watch", "d0.dma*.busy"])
        self.refused(path, r"'d9\.\*' matches no signal; signals are ",
                     ["--vcd", file, "--watch", "d9.*"])


class Described(Errors):
    def test_what_describe_prints_loads_again(self):
        extended = self.faulty(chips=[3, 1], background=True,
                               parameters={"how": "x", "after_us": 7})
        extended["windows"][0]["address"] = "0xfffe0004000"
        extended["initiators"][0].update(gbps="12.5", packet_bytes=64, core=1)
        path = self.write_platform(
            base=TRN1[0], blocks=[extended],
            policies={"dma_queues": "strict_priority", "routing": self.policy("astray"), "links":
                      {"type": "time_division", "parameters": {"turns": 3}}})
        again = self.directory / "again.json"
        texts = []
        for each in (path, again):
            texts.append(subprocess.run(
                [self.program("soma"), "describe", "--platform", str(each), "--json"], check=True,
                stdout=subprocess.PIPE, text=True).stdout)
            again.write_text(texts[-1])
        self.assertEqual(texts[1], texts[0])
        described = json.loads(texts[0])
        extended["parameters"]["after_us"] = "7"  # texts, as the block gets them
        self.assertEqual(described["blocks"], [extended])
        self.assertEqual(described["policies"], {
            "dma_queues": {"type": "strict_priority"}, "routing": self.policy("astray"),
            "links": {"type": "time_division", "parameters": {"turns": "3"}}})


class Behaviour(Errors):
    def misbehaving(self, how):
        return self.write_platform(blocks=[self.faulty(parameters={"how": how})])

    def test_constructor(self):
        self.refused(self.misbehaving("constructor"),
                     "block d0.faulty has no mood for construction")

    def test_transport(self):
        self.fails(self.misbehaving("transport"), "d0.faulty.registers: has no mood for access",
                   *self.read())

    def test_thread(self):
        self.fails(self.misbehaving("thread"), r"has no mood for work(.|\n)*d0\.faulty\.block\.run")

    def test_report_of_fatal_severity(self):
        run = self.fails(self.misbehaving("fatal"),
                         r"has no mood for anything(.|\n)*d0\.faulty\.block\.run")
        self.assertRegex(run.errors, r"error +100\.0+ us kernel: faulty: has no mood for anything")

    def test_no_answer(self):
        """A host waits as long as a completion time-out, then reads zero; the report says why."""
        run = self.start(self.misbehaving("silent"), *self.read())
        self.assertEqual((run.status, run.output), (0, "0x00000000\n"), run.errors)
        self.assertIn("d0.faulty.registers no answer", str(run.report))

    def test_routing(self):
        path = self.write_platform(base=TRN1[0], policies={"routing": self.policy("astray")})
        self.fails(path, r"the policy for routing answers with a route from chip \d+ to chip \d+ "
                   r"that does not exist: \d+ \d+", *self.all_reduce(TRN1[1]))

    def test_queue_arbiter(self):
        path = self.write_platform(policies={"dma_queues": self.policy("idle")})
        self.fails(path, r"d0\.dma\d+: the policy for DMA queues chooses queue \d+, "
                   "which does not wait", *self.all_reduce())

    def test_link_arbiter(self):
        path = self.write_platform(base=TRN1[0], policies={"links": self.policy("backwards")})
        self.fails(path, r"link\.d\d+-d\d+: its arbiter answers with a time that is over",
                   *self.all_reduce(TRN1[1]))


if __name__ == "__main__":
    main(sys.argv)
