#!/usr/bin/env python3
"""The kernels of examples/kernels, in several sizes, against references: examples_test.py BUILD

Each is written by its program and executed by another through the runtime in a machine."""
import collections
import html.parser
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from trace_picture import (EVENT_NAME, EVENT_TRACK, NAME, PARENT, SLICE_BEGIN,  # noqa: E402
                           TIMESTAMP, TRACE_PACKET, TRACK_DESCRIPTOR, TRACK_EVENT, TYPE, UUID,
                           fields)

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
PATIENCE = 100  # seconds

ANNOTATION, DEPARTING, ARRIVING = 4, 47, 48  # of a track event (sim/perfetto.proto)
NOTE_NUMBER, NOTE_TEXT, NOTE_NAME = 3, 6, 10
Slice = collections.namedtuple("Slice", "track begin name notes departing arriving")


def note(data):
    parts = dict(fields(data))
    value = parts[NOTE_TEXT].decode() if NOTE_TEXT in parts else parts[NOTE_NUMBER]
    return parts[NOTE_NAME].decode(), value


def trace_slices(path):
    """The slices of a trace with all that they say."""
    tracks, slices = {}, []
    for number, value in fields(path.read_bytes()):
        packet = dict(fields(value)) if number == TRACE_PACKET else {}
        if TRACK_DESCRIPTOR in packet:
            track = dict(fields(packet[TRACK_DESCRIPTOR]))
            parent = tracks.get(track.get(PARENT))
            own = track[NAME].decode()
            tracks[track[UUID]] = own if parent is None else f"{parent}.{own}"
        if TRACK_EVENT not in packet:
            continue
        event = list(fields(packet[TRACK_EVENT]))
        single = dict(event)
        if single[TYPE] != SLICE_BEGIN:
            continue
        slices.append(Slice(tracks[single[EVENT_TRACK]], packet[TIMESTAMP],
                            single[EVENT_NAME].decode(),
                            dict(note(v) for k, v in event if k == ANNOTATION),
                            [v for k, v in event if k == DEPARTING],
                            [v for k, v in event if k == ARRIVING]))
    return slices


class Kernels(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kernels")
        self.addCleanup(directory.cleanup)
        self.neff = pathlib.Path(directory.name) / "kernel.neff"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("NEURON_")}

    def command(self, *words):
        return subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, env=self.environment, timeout=PATIENCE)

    def write(self, example, *sizes):
        return self.command(BUILD / "bin" / f"kernel_{example}", *sizes, self.neff)

    def execute(self, example, *sizes, machine=()):
        return self.command(BUILD / "bin" / "soma", "run", *machine, "--",
                            BUILD / "bin" / "client" / "check_kernel", self.neff, example, *sizes)

    def check(self, example, *sizes, options=(), machine=()):
        with self.subTest(example=example, sizes=sizes):
            written = self.write(example, *options, *sizes)
            self.assertEqual(written.returncode, 0, written.stdout)
            ran = self.execute(example, *sizes, machine=machine)
            self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_tensor_add(self):
        for elements in (1, 127, 128, 1000, 600_001):
            self.check("tensor_add", elements)

    def test_softmax(self):
        for sizes in ((1, 1), (128, 64), (200, 333)):
            self.check("softmax", *sizes)

    def test_norm(self):
        for kind in ("rms", "layer"):
            for sizes in ((1, 8), (130, 257)):
                self.check("norm", *sizes, options=(kind,))

    def test_matmul(self):
        """One tile; blocks that end within a tile in each of the three dimensions."""
        for dtype, sizes in (("float32", (1, 1, 1)), ("float32", (128, 128, 512)),
                             ("float32", (130, 700, 600)), ("bfloat16", (300, 128, 513)),
                             ("bfloat16", (2100, 130, 1100))):
            self.check("matmul", *sizes, options=(dtype,))

    def test_matmul_mx(self):
        """One element; a chunk; chunks and tiles that end within; two blocks in each of the dimensions."""
        self.environment["NEURON_LOGICAL_NC_CONFIG"] = "1"
        for sizes in ((1, 1, 1), (128, 512, 512), (131, 700, 515),
                      (1030, 100, 1030), (130, 2100, 20)):
            self.check("matmul_mx", *sizes, machine=("--platform", "trn3-gen2-server"))

    def test_matmul_mx_needs_v4(self):
        self.assertEqual(self.write("matmul_mx", 1, 1, 1).returncode, 0)
        ran = self.execute("matmul_mx", 1, 1, 1)
        self.assertEqual(ran.returncode, 1, ran.stdout)

    def test_transpose(self):
        for sizes in ((1, 5), (128, 128), (200, 300)):
            self.check("transpose", *sizes)

    def test_average_pool(self):
        for sizes in ((3, 8, 8, 2, 2), (130, 9, 11, 3, 2), (1, 5, 5, 5, 1)):
            self.check("average_pool", *sizes)

    def test_attention(self):
        """One query; keys that end within a block; spans of queries of which the last is short."""
        for dtype, sizes in (("float32", (1, 1, 1, 0)), ("float32", (2, 515, 99, 1)),
                             ("bfloat16", (1, 130, 127, 0)), ("bfloat16", (1, 1100, 128, 1)),
                             ("float32", (1, 4200, 8, 1))):
            self.check("attention", *sizes, options=(dtype,))

    def test_rotary(self):
        for sizes in ((1, 1, 2), (130, 3, 10), (200, 70, 64)):
            self.check("rotary", *sizes)

    def test_mamba_scan(self):
        for sizes in ((1, 1, 1), (130, 3, 50), (40, 16, 1100)):
            self.check("mamba_scan", *sizes)

    def test_mlp(self):
        for sizes in ((1, 1, 1), (130, 200, 300), (600, 130, 1100)):
            self.check("mlp", *sizes)

    def of_ranks(self, ranks):
        """The machine for them; each has a core."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.environment["NEURON_RT_ROOT_COMM_ID"] = f"127.0.0.1:{probe.getsockname()[1]}"
        self.environment["NEURON_RT_VISIBLE_CORES"] = f"0-{ranks - 1}"
        return ("--platform", "trn1.32xlarge")

    def test_transformer_layer(self):
        """The least of all; blocks, heads and weights that end within a tile; all-reduces that
        are waited for."""
        for mode, block, sizes in (("overlap", 512, (1, 1, 1, 2, 1, 1)),
                                   ("overlap", 100, (230, 200, 3, 10, 300, 1)),
                                   ("wait", 130, (300, 130, 4, 64, 260, 2)),
                                   ("overlap", 64, (150, 520, 4, 128, 280, 4))):
            self.check("transformer_layer", *sizes, options=(mode, block),
                       machine=self.of_ranks(sizes[-1]))

    def test_layers_are_refused(self):
        for sizes in ((513, 600, 128, 4, 64, 128, 1), (512, 600, 128, 3, 64, 128, 2),
                      (512, 600, 128, 4, 64, 129, 2), (512, 600, 128, 4, 63, 128, 2)):
            self.assertEqual(self.write("transformer_layer", "overlap", *sizes).returncode, 2)

    def test_all_reduces_overlap(self):
        """32 ranks: what is overlapped is not waited for."""
        machine = (*self.of_ranks(32), "--timing-only")
        times = []
        for mode in ("wait", "overlap"):
            written = self.write("transformer_layer", mode, 128, 512, 1024, 32, 64, 2048, 32)
            self.assertEqual(written.returncode, 0, written.stdout)
            report = self.neff.with_name("report.json")
            ran = self.execute("time", 32, machine=(*machine, "--report", report))
            self.assertEqual(ran.returncode, 0, ran.stdout)
            executions = json.loads(report.read_text())["executions"]
            self.assertEqual(len({each["core"] for each in executions}), 32)
            times.append(max(each["total_ps"] for each in executions))
        self.assertLess(times[1], 0.9 * times[0])

    def test_stochastic_rounding(self):
        """Of what the kernel keeps in bfloat16: by random numbers that the seed decides."""
        sizes = (130, 200, 300)
        self.assertEqual(self.write("mlp", *sizes).returncode, 0)

        def checksums(seed=None):
            if seed is not None:
                self.environment["NEURON_RT_STOCHASTIC_ROUNDING_EN"] = "1"
                self.environment["NEURON_RT_STOCHASTIC_ROUNDING_SEED"] = str(seed)
            ran = self.execute("mlp", *sizes)
            self.assertEqual(ran.returncode, 0, ran.stdout)
            return re.findall(r"checksum (\w+)", ran.stdout)

        nearest, one = checksums(), checksums(1)
        self.assertEqual(len(nearest), 2)  # executions
        self.assertNotEqual(one, nearest)
        self.assertEqual(checksums(1), one)
        self.assertNotEqual(checksums(2), one)

    def test_experts(self):
        """Fewer experts than max8 looks for; experts that are full; several batches of places."""
        for sizes in ((1, 1, 1, 1, 1), (130, 200, 5, 2, 60), (300, 130, 16, 3, 40),
                      (200, 520, 8, 8, 130)):
            self.check("experts", *sizes)

    def test_embedding(self):
        self.environment["NEURON_LOGICAL_NC_CONFIG"] = "1"
        for sizes in ((1, 50, 1), (128, 64, 256), (300, 1000, 77)):
            self.check("embedding", *sizes, machine=("--platform", "trn2.3xlarge"))

    def test_messages_name_the_line(self):
        """A program that waits for what never comes: the runtime says where in the kernel."""
        self.assertEqual(self.write("softmax", 100, 64).returncode, 0)
        members = self.neff.with_name("members")
        neff = BUILD / "bin" / "neff"
        self.assertEqual(self.command(neff, "unpack", self.neff, "-o", members).returncode, 0)
        (members / "neff.tgz").unlink()
        program = members / "sg00" / "dve.bin"
        text = self.command(neff, "dis", program).stdout
        self.assertIn("TENSOR_REDUCE $S[16]>=16 ", text)
        source = program.with_suffix(".s")
        source.write_text(text.replace("$S[16]>=16", "$S[16]>=17"))
        self.assertEqual(self.command(neff, "as", source, "-o", program).returncode, 0)
        source.unlink()
        self.assertEqual(self.command(neff, "pack", members, "-o", self.neff).returncode, 0)
        self.environment["NEURON_RT_EXEC_TIMEOUT"] = "2"
        ran = self.execute("softmax", 100, 64)
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertRegex(ran.stdout, r"end:dve.*, \S*softmax\.cpp:\d+ \(tensor_reduce\)")

    def measure(self, *options):
        """A run of attention with these options of soma; the report's first execution."""
        report = self.neff.with_name("report.json")
        ran = self.command(BUILD / "bin" / "soma", "run", *options, "--report", report, "--",
                           BUILD / "bin" / "client" / "check_kernel", self.neff, "attention",
                           1, 256, 64, 0)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        return json.loads(report.read_text())["executions"][0]

    def test_trace_has_names_lines_and_arrows(self):
        """Every instruction has a line; whom an update or a transfer released shows an arrow."""
        self.assertEqual(self.write("attention", "bfloat16", 1, 256, 64, 0).returncode, 0)
        trace = self.neff.with_name("kernel.pftrace")
        self.measure("--trace", trace)
        slices = trace_slices(trace)
        work = [s for s in slices if re.search(r"nc0\.(pe|act|pool|dve|sp)( #\d+)?$", s.track)]
        products = [s for s in work if s.name == "MATMUL"]
        self.assertTrue(products)
        for each in products:
            self.assertRegex(each.notes["line"], r"^attention\.h:\d+ \((matmul|transpose)\)$")
            self.assertRegex(each.notes["operands"], r"psum fp32 \d+ x \d+ @\d+")
        without = {s.name for s in work if "line" not in s.notes}
        self.assertLessEqual(without, {"NOTIFY", "DRAIN", "HALT"} | {s.name for s in work
                                                                     if s.name.startswith("wait")})
        departed = {flow: s for s in slices for flow in s.departing}
        arrived = [(flow, s) for s in slices for flow in s.arriving]
        self.assertEqual(len(arrived), len({flow for flow, _ in arrived}))
        sources = set()
        for flow, waiter in arrived:
            source = departed[flow]
            sources.add(source.track.split(".")[1])
            self.assertLess(source.begin, waiter.begin)
            self.assertGreaterEqual(waiter.notes["waited ps"], 1)
        self.assertIn("nc0", sources)
        self.assertTrue(any(name.startswith("dma") for name in sources), sources)
        waits = [s for s in work if s.name == "wait: act"]
        self.assertTrue(waits)
        self.assertEqual(waits[0].notes["cause"], "semaphore")
        copies = [s for s in slices if ".dma" in s.track and s.name.startswith("copy")]
        self.assertTrue(copies and all(s.notes["bytes"] > 0 for s in copies))

    def test_profile_says_what_lines_cost(self):
        """Repeatable; its lines add up to what the engines count; nothing else changes by it."""
        self.assertEqual(self.write("attention", "bfloat16", 1, 256, 64, 0).returncode, 0)
        trace = self.neff.with_name("kernel.pftrace")
        first, second = self.measure("--profile"), self.measure("--profile", "--trace", trace)
        self.assertEqual(first, second)
        profile = first.pop("profile")
        self.assertEqual(first, self.measure())
        for engine in first["engines"]:
            lines = [line for line in profile["lines"] if line["engine"] == engine["name"]]
            self.assertEqual(sum(line["executed"] for line in lines), engine["instructions"])
            self.assertEqual(sum(line["busy_ps"] for line in lines), engine["busy_ps"])
            waited = sum(sum(line["waited_ps"].values()) for line in lines)
            self.assertEqual(waited, sum(time for cause, time in engine["stalled_ps"].items()
                                         if cause != "issue"))
        lanes = profile["timeline"]["lanes"]
        self.assertEqual([lane["name"] for lane in lanes][:6],
                         ["pe", "act", "pool", "dve", "sp", "dma0"])
        for lane in lanes:
            until = 0
            for begin, length, *_ in (map(int, span.split()) for span in lane["spans"]):
                self.assertGreaterEqual(begin, until)
                until = begin + length
            self.assertLessEqual(until, profile["timeline"]["total_ps"])

    def test_report_is_a_page_that_needs_nothing_else(self):
        self.assertEqual(self.write("attention", "bfloat16", 1, 256, 64, 0).returncode, 0)
        self.measure("--profile")
        page, timeline, roofline = (self.neff.with_name(name) for name in
                                    ("page.html", "timeline.svg", "roofline.svg"))
        said = self.command(BUILD / "bin" / "soma", "report", self.neff.with_name("report.json"),
                            "--html", page, "--timeline", timeline, "--roofline", roofline)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertRegex(said.stdout, r"attention\.h:\d+ \(matmul\) +pe ")
        pictures = re.findall(r"<svg.*?</svg>", page.read_text(), re.DOTALL)
        self.assertEqual(len(pictures), 3)
        for picture in pictures + [timeline.read_text(), roofline.read_text()]:
            ElementTree.fromstring(picture)  # well-formed
        bars = ElementTree.fromstring(timeline.read_text())
        titles = [e.text for e in bars.iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(re.match(r"MATMUL attention\.h:\d+ \(matmul\), ", t)
                            for t in titles))
        self.assertTrue(any(" waits for " in t for t in titles))
        checker = html.parser.HTMLParser()
        checker.feed(page.read_text())
        checker.close()

    def test_what_does_not_fit_is_said(self):
        result = self.write("softmax", 128, 12000)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"softmax\.cpp:\d+: tile 'out1': 48000 bytes in each of "
                         r"128 partitions do not fit in SBUF of 180224: 144000 are allocated")
        self.assertFalse(self.neff.exists())


if __name__ == "__main__":
    unittest.main()
