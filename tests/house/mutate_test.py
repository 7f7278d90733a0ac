#!/usr/bin/env python3
"""What scripts/mutate.py makes of a line, and which lines it leaves alone."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop(1))
import mutate  # pylint: disable=wrong-import-position


def made(line, what=None):
    return [after for kind, after in mutate.mutants_of(line) if what in (None, kind)]


class Mutants(unittest.TestCase):
    def test_operators(self):
        self.assertEqual(made("  if (a < b) {", "operator"), ["  if (a <= b) {", "  if (a >= b) {"])
        self.assertEqual(made("  x = a + b - c;", "operator"),
                         ["  x = a - b - c;", "  x = a + b + c;"])
        self.assertEqual(made("  n = std::min(a, b);", "operator"), ["  n = std::max(a, b);"])
        self.assertEqual(made("  bool untrue = true;", "operator"), ["  bool untrue = false;"])
        self.assertEqual(made("  std::vector<int> v(p->q);", "operator"), [])

    def test_constants(self):
        self.assertEqual(made("  f(10, 0x20, v2, 1.5);", "constant"), ["  f(11, 0x20, v2, 1.5);"])
        self.assertEqual(made("  x = 0u;", "constant"), ["  x = 1u;"])

    def test_conditions(self):
        self.assertEqual(made("  if (ready) return 7;", "condition"), ["  if (!(ready)) return 7;"])
        self.assertEqual(made("  } else if (a == b) {", "condition"),
                         ["  } else if (!(a == b)) {"])
        self.assertEqual(made("  while (next()) {", "condition"), ["  while (!(next())) {"])

    def test_statements(self):
        for line in ("  count_ += 1;", "  queue.push(x);", "  return;", "  ++level_;"):
            self.assertIn("  ;", made(line, "statement"), line)
        self.assertEqual(made("  int fresh = 1;", "statement"), [])
        self.assertEqual(made("  return x;", "statement"), [])

    def test_text_and_comments_stay(self):
        self.assertEqual(made('  f("a + 1 == b");  // then a < 2'), ["  ;"])
        self.assertEqual(made("  c = '+';", "operator"), [])

    def test_lines_that_do_nothing(self):
        for line in ("", "// a == b", "#define N 1", "using a = b<1>;", "static_assert(a == 1);",
                     "  assert(a < b);", '  log_.warn("{}", a + b);', "  case 3:", "  throw E(1);",
                     "  bool operator==(const A& b) const {"):
            self.assertEqual(made(line), [], line)

    def test_rooms_of_files(self):
        for room in mutate.ROOMS:
            self.assertEqual(mutate.room_of(room + "/a.cpp"), room)
        self.assertIsNone(mutate.room_of("sim/a.cpp"))
        self.assertIsNone(mutate.room_of("hw/params.h"))
        self.assertIsNone(mutate.room_of("hw/ccc/a.cpp"))

    def test_a_seed_gives_one_order(self):
        with tempfile.TemporaryDirectory() as directory:
            tree = pathlib.Path(directory)
            for room in ("hw/cc", "hw/nq"):
                (tree / room).mkdir(parents=True)
                (tree / room / "a.cpp").write_text("int f() {\n  a = b + 1;\n  c = d - 2;\n}\n")
                (tree / room / "notes.txt").write_text("a = b + 1;\n")
            first = list(mutate.sample(tree, ["hw/cc", "hw/nq"], 5))
            self.assertEqual(first, list(mutate.sample(tree, ["hw/cc", "hw/nq"], 5)))
            self.assertEqual(sorted(first), sorted(mutate.sample(tree, ["hw/cc", "hw/nq"], 6)))
            self.assertNotEqual(first, list(mutate.sample(tree, ["hw/cc", "hw/nq"], 6)))
            self.assertEqual(len(first), 12)
            self.assertIn(("hw/nq/a.cpp", 3, "operator", "  c = d - 2;", "  c = d + 2;"), first)


if __name__ == "__main__":
    unittest.main()
