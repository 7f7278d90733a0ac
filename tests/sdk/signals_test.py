#!/usr/bin/env python3
"""The file of signals, read by the rules of IEEE 1364-2005 18.2: its form, what it shows of a small
all-reduce, and that to look changes nothing. signals_test.py BUILD"""
import re
import sys

from platforms import Platforms, main

PS = {"fs": 1e-3, "ps": 1, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12}


class Signal:
    def __init__(self, kind, bits, name):
        self.kind, self.bits, self.name = kind, bits, name
        self.changes = []  # (time, value)

    def at(self, time):
        return [value for when, value in self.changes if when <= time][-1]


class SignalFile:
    """Signals by name; times in units of the time scale. Raises ValueError with the place of what
    does not belong there."""

    def __init__(self, text):
        self.scale, self.codes, self.signals, self.times = None, {}, {}, []
        words = [(word, number) for number, line in enumerate(text.splitlines(), 1)
                 for word in line.split()]
        self.words = iter(words)
        self.header()
        self.body()

    def section(self):
        """The words up to $end."""
        found = []
        for word, _ in self.words:
            if word == "$end":
                return found
            found.append(word)
        raise ValueError("the file ends inside of a section")

    def header(self):
        scopes = []
        for word, line in self.words:
            if word == "$enddefinitions":
                if self.section() or scopes or self.scale is None:
                    raise ValueError(f"line {line}: the header is not complete")
                return
            words = self.section()
            if word == "$timescale":
                number, unit = re.fullmatch(r"(1|10|100)([munpf]?s)", "".join(words)).groups()
                self.scale = int(number) * PS[unit]
            elif word == "$scope":
                scopes.append(words[1])
            elif word == "$upscope":
                scopes.pop()
            elif word == "$var":
                self.define(scopes, line, words)
            elif word not in ("$date", "$version", "$comment"):
                raise ValueError(f"line {line}: {word} in the header")
        raise ValueError("no $enddefinitions")

    def define(self, scopes, line, words):
        kind, bits, code, name = words[:4]
        if kind not in ("wire", "reg", "integer") or code in self.codes:
            raise ValueError(f"line {line}: $var {' '.join(words)}")
        path = ".".join([*scopes[1:], name])
        self.codes[code] = self.signals[path] = Signal(kind, int(bits), path)

    def body(self):
        time = None
        for word, line in self.words:
            if word.startswith("#"):
                if time is not None and int(word[1:]) <= time:
                    raise ValueError(f"line {line}: {word} is not behind #{time}")
                time = int(word[1:])
                self.times.append(time)
            elif word == "$comment":
                self.section()
            elif word in ("$dumpvars", "$dumpall", "$end"):
                continue
            elif word[0] in "01":
                self.change(time, line, word[1:], word[0])
            elif word[0] == "b":
                self.change(time, line, next(self.words)[0], word[1:])
            else:
                raise ValueError(f"line {line}: {word} is neither a time nor a value")

    def change(self, time, line, code, bits):
        signal = self.codes.get(code)
        if signal is None or len(bits) > signal.bits or set(bits) - {"0", "1"}:
            raise ValueError(f"line {line}: {bits} for {code}")
        signal.changes.append((time or 0, int(bits, 2)))


class Signals(Platforms):
    OPERATIONS = 4
    ALL_REDUCE = ["-b", "64kb", "-e", "64kb", "-n", "3", "-w", "1", "-d", "fp32", "allr"]

    def watched(self, *patterns):
        path = self.directory / "x.vcd"
        options = [each for pattern in patterns for each in ("--watch", pattern)]
        run = self.nccom(["--vcd", str(path), *options], *self.ALL_REDUCE)
        self.assert_ok(run)
        return run, SignalFile(path.read_text(encoding="ascii"))

    def test_to_look_changes_nothing(self):
        plain = self.nccom([], *self.ALL_REDUCE)
        self.assert_ok(plain)
        run, file = self.watched("*")
        self.assertEqual(run.output, plain.output)
        self.assertEqual(run.report_text, plain.report_text)
        self.assertGreater(len(file.signals), 1000)

    def test_all_reduce(self):
        run, file = self.watched("d0.dma*.busy", "d0.dma*.q*.depth", "d0.nc*.sem*", "d0.nc*.state",
                                 "d0.nc*.pc", "d0.cc*.sem*", "d0.hbm*.busy",
                                 "d0.hbm*.backlog_ns")
        self.assertEqual(file.scale, 1)
        self.assertGreater(len(file.times), 100)
        for signal in file.signals.values():
            with self.subTest(signal.name):
                self.assertTrue(signal.changes, "no value at the begin")
                # A line for each change, and for nothing else.
                values = [value for _, value in signal.changes]
                self.assertTrue(all(a != b for a, b in zip(values, values[1:])))
        self.check_engines(run, file)
        self.check_cores(file)

    def check_engines(self, run, file):
        """Engines move bytes in turns, and rest at the end; memory is busy for about as long as
        the report says, and whenever something is left to do."""
        busy = [s for name, s in file.signals.items() if re.fullmatch(r"d0\.dma\d+\.busy", name)]
        self.assertEqual(len(busy), 32 + 2)  # of the cores, of the host
        for signal in busy:
            self.assertEqual(signal.bits, 1)
            # At least once for each operation.
            self.assertGreaterEqual(len(signal.changes), 1 + 2 * self.OPERATIONS, signal.name)
            self.assertEqual((signal.changes[0][1], signal.changes[-1][1]), (0, 0), signal.name)
        depths = [s for name, s in file.signals.items() if name.endswith(".depth")]
        self.assertEqual(len(depths), 34 * 16)
        self.assertTrue(any(max(v for _, v in s.changes) > 0 for s in depths))
        self.assertTrue(all(s.changes[-1][1] == 0 for s in depths))
        reported = {row["name"]: row for row in run.report["resources"]}
        for stack in ("d0.hbm0", "d0.hbm1"):
            changes = file.signals[f"{stack}.busy"].changes
            spans = list(zip(changes[1::2], changes[2::2]))
            self.assertTrue(all((up[1], down[1]) == (1, 0) for up, down in spans))
            sums = sum(down[0] - up[0] for up, down in spans)
            # Each span may lose a part of a picosecond.
            self.assertLessEqual(abs(sums - reported[stack]["busy_ps"]), len(spans))
            left = [(t, v) for t, v in file.signals[f"{stack}.backlog_ns"].changes if v > 0]
            self.assertTrue(all(file.signals[f"{stack}.busy"].at(time) == 1 for time, _ in left))
            for up, down in spans:
                through = max(t + 1000 * v for t, v in left if up[0] <= t < down[0])
                self.assertTrue(down[0] - 1000 < through <= down[0], (up, down, through))

    def check_cores(self, file):
        """One semaphore of each core counts operations; those of CC-cores return to zero; engines
        that execute take one instruction after the other."""
        for core in ("d0.nc0", "d0.nc1"):
            values = [[v for _, v in s.changes] for name, s in file.signals.items()
                      if re.fullmatch(re.escape(core) + r"\.sem\d+", name)]
            self.assertEqual(len(values), 256)
            self.assertEqual(values.count(list(range(self.OPERATIONS + 1))), 1)
            executing = file.signals[f"{core}.pool.state"].changes
            self.assertEqual([v for _, v in executing], [0, 1, 2])
            steps = file.signals[f"{core}.pool.pc"].changes
            self.assertEqual([v for _, v in steps], list(range(len(steps))))
            self.assertGreater(len(steps), self.OPERATIONS)
            self.assertTrue(all(executing[1][0] <= t <= executing[2][0] for t, _ in steps[1:]))
        used = [s for name, s in file.signals.items() if re.match(r"d0\.cc\d+\.sem", name)
                and len(s.changes) > 1]
        self.assertGreater(len(used), 2)
        for signal in used:
            self.assertGreater(max(v for _, v in signal.changes), 0)
            self.assertEqual(signal.changes[-1][1], 0, signal.name)


if __name__ == "__main__":
    main(sys.argv)
