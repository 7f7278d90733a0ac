#!/usr/bin/env python3
"""Bytes on every direction of every link, and accesses of memory, as the machine counts them,
against the formulas of spec/collectives.md 2.5 to 2.15. Payload is what is not a signal (4 bytes
each). links_test.py BUILD"""
import re
import sys

from bench import EndToEnd, main

CHUNK = 1 << 17  # bytes: the long buffer, max(input, output) per rank, has one per rank
TRN1 = ("trn1.32xlarge", 32)
INF2 = ("inf2.48xlarge", 24)
TRN2 = ("trn2.48xlarge", 64)
TRN3 = ("trn3-gen2-server", 16)

# Ways of spec/collectives.md 2.7.1 by displacement in rows and columns.
WAYS = {(0, 1): "E", (0, 2): "WW", (0, 3): "W", (1, 0): "S", (1, 1): "ES", (1, 2): "WWS",
        (1, 3): "WS", (2, 0): "NN", (2, 1): "ENN", (2, 2): "SSEE", (2, 3): "SSW", (3, 0): "N",
        (3, 1): "EN", (3, 2): "NEE", (3, 3): "NW"}
MOVES = {"N": (-1, 0), "S": (1, 0), "E": (0, 1), "W": (0, -1)}


def torus_links(source, target):
    """Directed links between two chips of a 4 x 4 torus, by name."""
    row, column = divmod(source, 4)
    other = divmod(target, 4)
    at = source
    for move in WAYS.get(((other[0] - row) % 4, (other[1] - column) % 4), ""):
        row, column = (row + MOVES[move][0]) % 4, (column + MOVES[move][1]) % 4
        yield f"link.d{at}-d{4 * row + column}"
        at = 4 * row + column


class Links(EndToEnd):
    def measured(self, platform, ranks, operation, algorithm=None, *options, operations=1,
                 chunk=CHUNK, **environment):
        """The report of nccom-test."""
        size = chunk * ranks
        if algorithm:
            environment["NCCOM_CC_ALGO"] = f"{operation}:{algorithm}"
        if "-N" not in options:  # it initialises all cores that it sees
            environment["NEURON_RT_VISIBLE_CORES"] = f"0-{ranks - 1}"
        run = self.run_on(["--platform", platform, "--timing-only"],
                          [self.program("nccom-test"), "-r", str(ranks), "-b", str(size), "-e",
                           str(size), "-n", str(operations), "-w", "0", "-d", "bf16", *options,
                           operation],
                          limit=90, **environment)
        self.assert_ok(run)
        return run.report

    def payload(self, *arguments, chunk=CHUNK, **more):
        """By link direction or switch port: payload in chunks."""
        report = self.measured(*arguments, chunk=chunk, **more)
        return {row["name"]: (row["bytes"] - 4 * row.get("signals", 0)) / chunk
                for row in report["resources"] if row["name"].startswith(("link", "switch"))}

    def check(self, where, links, rows):
        """rows: operation, algorithm, chunks that cross each of so many directions."""
        for operation, algorithm, chunks in rows:
            with self.subTest(platform=where[0], operation=operation, algorithm=algorithm):
                payload = self.payload(*where, operation, algorithm)
                self.assertEqual(len(payload), links)
                self.assertEqual(set(payload.values()), {chunks})

    def torus(self, local, transfers):
        """What each link carries when rank r sends so many chunks to rank s: (r, s, chunks).
        `local`: ranks per chip."""
        loads = {}
        for source, target, chunks in transfers:
            for link in torus_links(source // local, target // local):
                loads[link] = loads.get(link, 0) + chunks
        return loads


class Quick(Links):
    def test_trn1(self):
        self.check(TRN1, 64, [("allr", "ring", 2 * 31 / 4)])
        ring = [(rank, (rank + 1) % 32, 32) for rank in range(32)]
        self.assertEqual(self.payload(*TRN1, "permute"), self.torus(2, ring))

    def test_inf2(self):
        # Two rings, one each way; a mesh takes the shorter way, half way round either of them.
        self.check(INF2, 24, [("redsct", "ring", 23 / 2), ("alltoall", None, 4 * 18)])

    def test_trn2(self):
        self.check(TRN2, 64, [("allr", "rdh", 2 * 15)])

    def test_single_step_mesh(self):
        """Below B* every rank gives its whole buffer, 16 chunks, to every other."""
        all_pairs = [(r, s, 16) for r in range(16) for s in range(16)]
        payload = self.payload("trn2.48xlarge", 16, "allr", "mesh", chunk=64)
        self.assertEqual(payload, self.torus(4, all_pairs))

    def test_trn3(self):
        # Each port: what the four ranks of a chip get from the twelve others.
        self.check(TRN3, 8, [("allg", "kangaring", 14), ("redsct", "mesh", 12),
                             ("alltoall", None, 4 * 12)])

    def test_two_nodes(self):
        """Four ranks each: sections of a quarter, halved and doubled once over the cable."""
        payload = self.payload("trn2-ultraserver", 8, "allr", "hier", "-N", "2")
        self.assertEqual(payload, {"link.d0-d16": 8, "link.d16-d0": 8})


class Slow(Links):
    def test_trn1(self):
        # Straight all-gather of a mesh: two chunks to two ranks each, 8 chip pairs on a link.
        self.check(TRN1, 64, [
            ("allg", "ring", 31 / 4), ("redsct", "ring", 31 / 4), ("allg", "mesh", 8 * 4),
            ("redsct", "mesh", 8 * 2), ("allr", "mesh", 8 * 6), ("alltoall", "mesh", 8 * 4),
            ("alltoall", "pairwise", 8 * 4), ("alltoall", "ring", sum(range(32)) / 4)])

    def test_rdh_on_two_ranks_per_chip(self):
        """Axes in two rotations: 1, 2, 4, 8 and the same one further."""
        payload = self.payload(*TRN1, "allr", "rdh")
        loads = [2 * (1 + 8), 2 * (2 + 1), 2 * (4 + 2), 2 * (8 + 4)]
        self.assertEqual(sorted(payload.values()), sorted(16 * loads))

    def test_inf2(self):
        self.check(INF2, 24, [("allg", "ring", 23 / 2), ("allr", "ring", 23),
                              ("allg", "mesh", 4 * 18), ("redsct", "mesh", 2 * 18),
                              ("allr", "mesh", 6 * 18)])

    def test_trn2(self):
        self.check(TRN2, 64, [
            ("allg", "ring", 15.75), ("redsct", "ring", 15.75), ("allr", "ring", 31.5),
            ("allg", "kangaring", 15.5), ("redsct", "kangaring", 15.5),
            ("allr", "kangaring", 31), ("allg", "mesh", 32), ("redsct", "mesh", 32),
            ("allr", "mesh", 64), ("allg", "rdh", 15), ("redsct", "rdh", 15),
            ("alltoall", "mesh", 128), ("alltoall", "pairwise", 128),
            ("alltoall", "ring", sum(range(64)) / 4)])

    def accesses(self, operation, algorithm):
        """Reads and writes of memory per chunk of one more operation."""
        totals = []
        for operations in (1, 2):
            report = self.measured(*TRN2, operation, algorithm, operations=operations)
            counters = {row["name"]: row["value"] for row in report["counters"]}
            memory = sum(row["bytes"] for row in report["resources"]
                         if re.fullmatch(r"d\d+\.hbm\d+", row["name"]))
            # A signal reads its word; register writes are nothing else here.
            totals.append(memory - 4 * counters["register_writes"])
        record = 64  # one more trigger in the program of each rank
        return (totals[1] - totals[0] - record * 64) / (64 * CHUNK)

    def test_memory_of_trn2(self):
        """The own chunk is copied, too: ring, written with the first hop; KangaRing, on its own."""
        for operation, algorithm, accesses in (
                ("allg", "ring", 2 * 63 + 1), ("redsct", "ring", 3 * 64 - 1),
                ("allg", "kangaring", 3 * 31 + 2 + 2), ("redsct", "kangaring", 4 * 32 - 1)):
            with self.subTest(operation=operation, algorithm=algorithm):
                self.assertEqual(self.accesses(operation, algorithm), accesses)

    def test_physical_cores_of_trn2(self):
        """128 ranks at LNC=1; a KangaRing has groups of four."""
        for operation, algorithm, chunks in (("allr", "ring", 2 * 127 / 4), ("allr", "rdh", 60),
                                             ("allg", "kangaring", 124 / 4)):
            payload = self.payload("trn2.48xlarge", 128, operation, algorithm,
                                   NEURON_LOGICAL_NC_CONFIG="1")
            self.assertEqual(set(payload.values()), {chunks})

    def test_permute_on_trn2(self):
        ring = [(rank, (rank + 1) % 64, 64) for rank in range(64)]
        self.assertEqual(self.payload(*TRN2, "permute"), self.torus(4, ring))

    def test_all_to_all_by_chips(self):
        """128 ranks: blocks for a chip go together to one of its ranks; the bytes are the same."""
        payload = self.payload("trn2.48xlarge", 128, "alltoall", NEURON_LOGICAL_NC_CONFIG="1")
        self.assertEqual(set(payload.values()), {8 * 64})

    def test_trn3(self):
        self.check(TRN3, 8, [
            ("allg", "ring", 15), ("redsct", "ring", 15), ("allr", "ring", 30),
            ("redsct", "kangaring", 14), ("allr", "kangaring", 28), ("allg", "mesh", 4 * 12),
            ("allr", "mesh", 60), ("allg", "rdh", 12), ("redsct", "rdh", 12), ("allr", "rdh", 24),
            ("permute", None, 16)])

    def test_two_nodes(self):
        """On each node 16 ranks of four chips; between the nodes a sixteenth per rank."""
        for operation, cable, torus in (("allg", 4, 12), ("redsct", 4, 12), ("allr", 8, 24)):
            payload = self.payload("trn2-ultraserver", 32, operation, "hier", "-N", "2")
            for name, chunks in payload.items():
                a, b = (int(end) for end in name.replace("link.d", "").split("-d"))
                self.assertEqual(chunks, torus if a // 16 == b // 16 else cable, name)
            self.assertEqual(len(payload), 24)

    def test_ultraserver(self):
        """Sections of four chunks per rank. Inside a node RDH: 30 of them on each link. Between the
        four nodes a mesh: a chunk to each other node, over 1, 2 and 1 cables, there and back, by
        four ranks of a chip with two cables."""
        payload = self.payload("trn2-ultraserver", 256, "allr", "hier", "-N", "4")
        self.assertEqual(len(payload), 4 * 64 + 4 * 16 * 2)
        for name, chunks in payload.items():
            a, b = (int(end) // 16 for end in name.replace("link.d", "").split("-d"))
            self.assertEqual(chunks, 30 * 4 if a == b else 2 * (1 + 2 + 1) * 4 / 2, name)


if __name__ == "__main__":
    main(sys.argv)
