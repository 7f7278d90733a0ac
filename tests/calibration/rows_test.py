#!/usr/bin/env python3
"""Cheap rows of docs/accuracy.md keep to their published times: rows_test.py BUILD

Each is simulated again. A deviation over the limit fails unless data/calibration/notes.json
explains it; so does a row of the page that says something else."""
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import accuracy_kernels  # pylint: disable=wrong-import-position

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
CHEAP = re.compile(r"D01|D02|D03|I0|T9\.(tensor_tensor|ldweights|matmul|pass|copy|add)|K10\.05|K14|"
                   r"K12\.03|K05")


class Rows(unittest.TestCase):
    def setUp(self):
        self.kernels = accuracy_kernels.Kernels(BUILD)
        self.notes = json.loads((ROOT / "data/calibration/notes.json").read_text())["kernels"]

    def test_published_times(self):
        page = (ROOT / "docs/accuracy.md").read_text()
        rows = [row for row in self.kernels.rows if CHEAP.match(row["id"])]
        self.assertGreater(len(rows), 30)
        for row in rows:
            with self.subTest(row=row["id"]):
                simulated, published = self.kernels.simulate(row), float(row["published"])
                error = 100 * (simulated - published) / published
                if accuracy_kernels.needs_words(self.kernels.is_limit(row), error):
                    self.assertIn(row["id"], self.notes["rows"], f"{simulated} {row['unit']}")
                value = re.escape(f"{simulated:.4g}")
                self.assertRegex(page, rf"\| {re.escape(row['id'])} \|.* {value} ")

    def test_rows_and_notes_name_each_other(self):
        names = [row["id"] for row in self.kernels.rows]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(self.notes["rows"]) - set(names), set())
        self.assertEqual({row["source"] for row in self.kernels.rows}, set(self.notes["sources"]))

    def test_summary(self):
        self.assertEqual(accuracy_kernels.summary([1, -2, 3, -30]),
                         "4 rows, median error 2.5 %, 90th percentile 30.0 %")
        self.assertTrue(accuracy_kernels.needs_words(False, -10.1))
        self.assertFalse(accuracy_kernels.needs_words(False, 9.9))
        self.assertTrue(accuracy_kernels.needs_words(True, 0.1))
        self.assertFalse(accuracy_kernels.needs_words(True, -50))


if __name__ == "__main__":
    unittest.main()
