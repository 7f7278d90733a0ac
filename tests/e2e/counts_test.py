#!/usr/bin/env python3
"""Metadata of operations of variable size that a stranger made: the documented statuses, right data
of all that is legal, and a machine that goes on. counts_test.py BUILD"""
import pathlib
import re
import shutil
import subprocess
import sys

from bench import LIMIT, EndToEnd, free_port, main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/neff/alltoallv_two_ranks"
WORST = 0xFFFFFFFF  # also -1
HALF = 0x80000000
WRAPS = 0x40000000  # times four bytes

# Tensors of 1024 elements. Rows of two: send counts, send displacements, receive counts (7: written
# by the device), receive displacements. Every entry: name, rank 0, rank 1, who is told (1) that its
# blocks are out of bounds.
ALL_TO_ALL_PLACED = [
    ("good", (100, 200, 0, 500, 7, 7, 0, 300), (0, 724, 9, 300, 7, 7, 800, 20), "00"),
    ("at_the_end", (100, 200, 0, 500, 7, 7, 0, 300), (0, 724, 9, 300, 7, 7, 824, 0), "00"),
    ("one_too_far", (100, 200, 0, 500, 7, 7, 0, 300), (0, 724, 9, 300, 7, 7, 825, 0), "10"),
    ("rubbish", (100, 200, 0, 500, 7, 7, 0, 300), (WORST, 1, 0, WORST, 7, 7, HALF, WORST - 15), "11"),
    ("counts_of_-1", (1, 1, 0, 0, 7, 7, 0, 9), (WORST, WORST, 0, 0, 7, 7, 0, 9), "01"),
    ("bytes_wrap", (WRAPS, 1, 0, 0, 7, 7, 0, 9), (1, WRAPS + 1, 0, 0, 7, 7, 0, 9), "11"),
    ("sums_wrap", (1, 1, WORST, 0, 7, 7, 0, 9), (HALF, 1, HALF, 0, 7, 7, 0, 9), "11"),
    ("behind_the_end", (1, 1, 1024, 0, 7, 7, 0, 9), (1, 1, 0, 0, 7, 7, 0, 1023), "10"),
    ("places_of_-1", (1, 1, 0, 0, 7, 7, 0, 9), (0, 5, 0, 0, 7, 7, WORST, WORST), "11"),
    ("places_wrap", (1, 1, 0, 0, 7, 7, 0, 9), (0, 5, 0, 0, 7, 7, WORST, WORST - 4), "11"),
    ("empty_anywhere", (0, 0, WORST, HALF, 7, 7, WORST, HALF), (0, 0, 1025, 1024, 7, 7, 1, 1), "00"),
    ("overlap", (400, 400, 0, 99, 7, 7, 0, 100), (400, 400, 0, 0, 7, 7, 5, 5), "00"),
    ("all_of_it", (1024, 0, 0, 0, 7, 7, 0, 3), (0, 1024, 0, 0, 7, 7, 3, 0), "00"),
    ("one_more", (1025, 0, 0, 0, 7, 7, 0, 3), (0, 1024, 1, 1, 7, 7, 3, 0), "11"),
]
# Without row 3 the block of rank k lies at 512 k.
ALL_TO_ALL = [
    ("good", (100, 200, 0, 500, 7, 7), (512, 1, 0, 1023, 7, 7), "00"),
    ("beyond_its_share", (600, 512, 0, 0, 7, 7), (100, 512, 0, 0, 7, 7), "00"),
    ("beyond_the_end", (1, 1, 0, 0, 7, 7), (513, 512, 0, 0, 7, 7), "01"),
    ("counts_of_-1", (WORST, WORST, 0, 0, 7, 7), (1, 1, 0, 0, 7, 7), "10"),
    ("bytes_wrap", (WRAPS, 1, 0, 0, 7, 7), (1, 2 * WRAPS, 0, 0, 7, 7), "11"),
    ("counts_in_row_2", (1, 2, 0, 0, WORST, WORST), (3, 4, 0, 0, HALF, 0), "00"),
]
# Only column 0 of the send rows counts.
ALL_GATHER = [
    ("good", (300, WORST, 10, WORST, 7, 7), (200, HALF, 824, HALF, 7, 7), "00"),
    ("beyond_the_end", (1, 1, 0, 0, 7, 7), (513, 1, 0, 0, 7, 7), "01"),
    ("beyond_its_share", (513, 0, 0, 0, 7, 7), (1, 1, 0, 0, 7, 7), "00"),
    ("counts_of_-1", (WORST, 0, 0, 0, 7, 7), (WORST, 0, WORST, 0, 7, 7), "11"),
    ("sums_wrap", (2, 0, WORST, 0, 7, 7), (1, 1, 0, 0, 7, 7), "10"),
    ("empty_anywhere", (0, 1, WORST, 0, 7, 7), (512, 1, 512, 0, 7, 7), "00"),
]
ALL_GATHER_PLACED = [
    ("good", (300, 0, 10, 0, 7, 7, 0, 300), (200, 0, 824, 0, 7, 7, 724, 1), "00"),
    ("places_of_-1", (1, 1, 0, 0, 7, 7, 0, WORST), (200, 0, 0, 0, 7, 7, 0, 8), "01"),
    ("overlap", (300, 0, 0, 0, 7, 7, 20, 30), (300, 0, 1, 0, 7, 7, 0, 0), "00"),
]
# Counts and displacements of all ranks; each folds what its own metadata says.
REDUCE_SCATTER = [
    ("good", (300, 200, 5, 824), (300, 200, 5, 824), "00"),
    ("one_too_far", (300, 200, 5, 825), (300, 200, 5, 825), "01"),
    ("counts_of_-1", (WORST, WORST, 0, 0), (WORST, WORST, 0, 0), "11"),
    ("bytes_wrap", (WRAPS, 1, 0, 0), (WRAPS, 1, 0, 0), "10"),
    ("sums_wrap", (1, HALF, WORST, HALF), (1, HALF, WORST, HALF), "11"),
    ("empty_anywhere", (0, 0, WORST, HALF), (0, 0, WORST, HALF), "00"),
    ("each_its_own", (10, 0, 1014, WORST), (WORST, 20, 0, 7), "00"),
    ("all_of_it", (1024, 1024, 0, 0), (1024, 1024, 0, 0), "00"),
]


class Counts(EndToEnd):
    def program_of(self, kind, rows):
        """The example with another operation and number of rows."""
        folder = self.directory / f"{kind}{rows}"
        shutil.copytree(EXAMPLE, folder)
        for file in folder.rglob("*.*"):
            text = file.read_text()
            text = text.replace("ctype=ALL_TO_ALL_V", f"ctype={kind}")
            text = text.replace("has_rdispls=1", f"has_rdispls={int(rows == 4)}")
            text = text.replace("[4, 2]", f"[{rows}, 2]")
            text = re.sub(r'("size": ) *32\b', rf"\g<1>{8 * rows}", text)
            file.write_text(text)
        neff = folder.with_suffix(".neff")
        subprocess.run([self.program("neff"), "pack", folder, "-o", neff], check=True, timeout=LIMIT)
        return str(neff)

    def check(self, kind, rows, table, options=()):
        """Every entry, and the first one again after each."""
        lines = []
        for name, first, second, told in table:
            lines.append((name, first, second, told))
            lines.append((f"after_{name}", *table[0][1:]))
        path = self.directory / "table"
        path.write_text("".join(f"{name} {' '.join(map(str, (*first, *second)))}\n"
                                for name, first, second, _ in lines))
        operation = kind.split(" ")[0].replace("_", "").lower()
        run = self.run_on(list(options), [self.program("client/bad_counts"),
                                          self.program_of(kind, rows), operation, str(rows), path],
                          NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{free_port()}")
        self.assertEqual(run.status, 0, run.output + run.errors)
        status = ("NRT_SUCCESS", "NRT_EXEC_OOB")
        wanted = [f"{name}: {status[int(told[0])]} {status[int(told[1])]}"
                  for name, _, _, told in lines]
        got = [line.split(", ") for line in run.output.splitlines() if ": NRT_" in line]
        self.assertEqual([line[0] for line in got], wanted, run.output + run.errors)
        if not options:
            self.assertEqual([line for line in got if line[1] != "right"], [])

    def test_all_to_all_with_receive_displacements(self):
        self.check("ALL_TO_ALL_V", 4, ALL_TO_ALL_PLACED)

    def test_metadata_is_real_also_without_payload(self):
        self.check("ALL_TO_ALL_V", 4, ALL_TO_ALL_PLACED, ["--timing-only"])

    def test_all_to_all(self):
        self.check("ALL_TO_ALL_V", 3, ALL_TO_ALL)

    def test_all_gather(self):
        self.check("ALL_GATHER_V", 3, ALL_GATHER)

    def test_all_gather_with_receive_displacements(self):
        self.check("ALL_GATHER_V", 4, ALL_GATHER_PLACED)

    def test_reduce_scatter(self):
        self.check("REDUCE_SCATTER_V op=ADD", 2, REDUCE_SCATTER)


if __name__ == "__main__":
    main(sys.argv)
