#!/usr/bin/env python3
"""Plants one breach of each rule in a small tree and expects the checkers to find exactly it."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(sys.argv.pop(1))
MD = ".md"  # apart, so that what is planted here is no citation of this file
SPECIFICATION = """# One

## 1. First

1. a rule
2. another, see section 1.2

| # | step |
|---|---|
| 3 | the last |

### 1.2 Second

| C-13 | a row with an id |
* **R-1** a list item with an id

## Appendix A. Rest

1. an item
"""


def run(script, *arguments):
    result = subprocess.run([sys.executable, SCRIPTS / script, *map(str, arguments)],
                            stdout=subprocess.PIPE, text=True, check=False)
    return result.returncode, result.stdout


class Checkers(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("base/error.h", "#pragma once\n#include <string>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def includes(self):
        return run("check_includes.py", self.root, "--rules", SCRIPTS / "layers.txt")

    def assert_breach(self, name, text, where):
        self.write(name, text)
        status, output = self.includes()
        self.assertEqual(status, 1, output)
        self.assertIn(f"{name}:{where}: ", output)
        self.assertIn(" 1 breaches", output)

    def test_a_clean_tree_passes(self):
        self.write("hw/dma/ring.cpp", '#include "base/error.h"\n#include <systemc>\n')
        self.write("runtime/nrt/a.cpp", '#include "driver/ndl/ndl.h"\n#include <nrt/nrt.h>\n')
        self.assertEqual(self.includes()[0], 0)

    def test_an_empty_tree_fails(self):
        shutil.rmtree(self.root / "base")
        self.assertEqual(self.includes()[0], 1)

    def test_base_is_at_the_bottom(self):
        self.assert_breach("base/log.cpp", '\n#include "hw/machine/machine.h"\n', 2)

    def test_runtime_sees_of_the_driver_only_ndl(self):
        self.assert_breach("runtime/nrt/a.cpp", '#include "driver/kernel/driver.h"\n', 1)

    def test_ndl_sees_nothing_of_the_driver(self):
        self.assert_breach("driver/ndl/a.cpp", '#include "driver/kernel/driver.h"\n', 1)

    def test_driver_does_not_see_the_machine(self):
        self.assert_breach("driver/kernel/a.cpp", '#include "hw/dma/ring.h"\n', 1)

    def test_runtime_does_not_see_configuration(self):
        self.assert_breach("runtime/nrt/a.cpp", '#include "arch/config/timing.h"\n', 1)

    def test_only_the_machine_sees_systemc(self):
        self.assert_breach("driver/kernel/a.cpp", "#include <systemc>\n", 1)
        self.write("driver/kernel/a.cpp", "")
        self.assert_breach("tools/soma/a.cpp", "#include <tlm_utils/simple_target_socket.h>\n", 1)

    def test_firmware_is_freestanding(self):
        self.assert_breach("firmware/cc/a.cpp", "#include <cstdint>\n#include <vector>\n", 2)

    def test_generated_headers_belong_to_their_room(self):
        self.write("driver/kernel/a.cpp", '#include "contract/regs/udma.h"\n')
        self.assertEqual(self.includes()[0], 0)
        self.assert_breach("base/a.cpp", '#include "contract/regs/udma.h"\n', 1)

    def test_unknown_room(self):
        self.assert_breach("attic/a.cpp", "\n", 1)

    def test_paths_start_at_the_root_or_beside_the_file(self):
        self.write("base/error.cpp", '#include "error.h"\n')
        self.assertEqual(self.includes()[0], 0)
        self.assert_breach("hw/dma/a.cpp", '#include "error.h"\n', 1)

    def test_text_rules(self):
        for name, text, message in (
                ("base/a.cpp", "//" + "x" * 99 + "\n", "101 columns"),
                ("base/a.cpp", "// caf\u00e9\n", "ASCII"),
                (f"docs/a{MD}", "a\tb\n", "ASCII"),
                (f"docs/a{MD}", "a \n", "trailing"),
                (f"docs/a{MD}", "a", "newline"),
                ("base/a.cpp", "// TO" + "DO later\n", "note to self")):
            self.write(name, text)
            status, output = run("check_text.py", self.root)
            self.assertEqual(status, 1, output)
            self.assertIn(message, output)
            (self.root / name).unlink()
        self.write("base/a.cpp", "//" + "x" * 98 + "\n")
        self.assertEqual(run("check_text.py", self.root)[0], 0)

    def test_timing_parameters(self):
        self.write("data/timing/a.json", '{"parameters": {"dma.rate_gbps": {}, "link.x_ns": {}}}')
        good = "int a;  // dma.rate_gbps, D (assumed)\nint b;  // link.<class>_ns, see hw/b.h\n"
        self.write("hw/params.h", good)
        self.assertEqual(run("check_params.py", self.root)[0], 0)
        for name in ("dma.rate", "link.<class>_us", "dma.rate_gbps_max"):
            self.write("hw/params.h", f"{good}int c;  // {name} times two\n")
            status, output = run("check_params.py", self.root)
            self.assertEqual(status, 1, output)
            self.assertIn(f"hw/params.h:3: no timing file has {name}\n", output)
        self.write("hw/params.h", "int a;\n")
        self.assertEqual(run("check_params.py", self.root)[0], 1)

    def citations(self, files):
        """Findings {name: [lines]} for files in a tree with two specifications and a page."""
        self.write(f"docs/spec/one{MD}", SPECIFICATION)
        self.write(f"docs/spec/two{MD}", "# Two\n\n## 7. Last\n")
        self.write(f"docs/page{MD}", "# Page\n\n## 1. Top\n\n### How: a `b`\n\n### How: a `b`\n")
        for name, text in files.items():
            self.write(name, text + "\n")
        status, output = run("check_citations.py", self.root)
        *lines, last = output.splitlines()
        self.assertIn(f" {len(lines)} citations", last)
        self.assertEqual(status, 1 if lines else 0, output)
        found = {name: [] for name in files}
        for line in lines:
            found[line.split(":")[0]].append(line)
        return found

    def assert_each_found(self, cases):
        """cases: (name of a file, its text, how its only finding goes on behind the name)."""
        self.assertEqual(len({name for name, *_ in cases}), len(cases))
        found = self.citations({name: text for name, text, _ in cases})
        for name, text, message in cases:
            self.assertEqual(len(found[name]), 1, f"{text}: {found[name]}")
            self.assertTrue(found[name][0].startswith(f"{name}:{message}"), found[name][0])

    def test_citations_that_lead_somewhere(self):
        one, two, page = f"spec/one{MD}", f"spec/two{MD}", f"docs/page{MD}"
        texts = [f"// ({one} {parts}" for parts in (
            "1)", "1.2", "section 1.2", "1, 1.2", "1 to 1.2", "1 - 1.2", "1 (a word), 1.2",
            "1 rule 2", "1, rules 1 and 2", "1 steps 1 to 3", "1 step 3 and 1.2", "C-13", "1.2 C-13, R-1",
            "Appendix A", "Appendix A item 1", f"1, {two} 7", f"1; {page} 1", "1). Alone (1.2)",
            "appendix A", "and words 9", "1, 9.5x", "1, 9-byte words")]
        texts += [f"// {one}\n// 1.2", f"// {one} 1,\n// 1.2", f"/* {one}\n * 1 */",
                  f"// {page}#how-a-b-1", f"// {one} 1, {two} 7 (9.9)"]
        files = {f"base/{number}.cpp": text for number, text in enumerate(texts)}
        files[f"docs/b{MD}"] = (f"[a](page{MD}#1-top) [b](spec/one{MD}#12-second) [c](#here) "
                                f"[d](https://a.example/b{MD})\n\n# Here")
        for name, lines in self.citations(files).items():
            self.assertEqual(lines, [], files[name])

    def test_citations_that_lead_nowhere(self):
        one, page = f"spec/one{MD}", f"docs/page{MD}"
        cases = (
            (f"// spec/none{MD} 1", f"1: spec/none{MD}: no such document"),
            (f"// one{MD} 1", f"1: one{MD}: ambiguous; say spec/one{MD}"),
            (f"// none{MD} 1", f"1: none{MD}: no such document"),
            (f"\n// {one} 9", f"2: {one} 9: no 9 there"),
            (f"// {one} section 9", f"1: {one} 9: "),
            (f"// `{one}` 9", f"1: {one} 9: "),
            (f"// {one}\n// 9.5.1", f"1: {one} 9.5.1: "),
            (f"// {one} 1,\n// 9", f"1: {one} 9: "),
            (f"// {one} 1 (a word), 9", f"1: {one} 9: "),
            (f"// {one} 1 and 9", f"1: {one} 9: "),
            (f"// {one} 1 and section 9", f"1: {one} 9: "),
            (f"// {one} 1 to 9", f"1: {one} 9: "),
            (f"// {one} 1 - 9", f"1: {one} 9: "),
            (f"// {one} 1, spec/two{MD} 8", f"1: spec/two{MD} 8: "),
            (f"// {one} 1 rule 4", f"1: {one} 1: no 1 rule 4 there"),
            (f"// {one} 1 steps 1 to 5", f"1: {one} 1: no 1 step 5 there"),
            (f"// {one} 1 step 3 and 9.1", f"1: {one} 9.1: "),
            (f"// {one} C-14", f"1: {one} C-14: "),
            (f"// {one} 1.2 C-14", f"1: {one} C-14: "),
            (f"// {one} appendix B", f"1: {one} appendix B: "),
            (f"// {one} Appendix A item 2", f"1: {one} Appendix A: no Appendix A item 2 there"),
            (f"// {page} 2", f"1: {page} 2: "),
            (f"// {page}#none", f"1: {page}#none: no such heading"),
            (f"// {one} 1\nint a;  // (9.9)", f"2: (9.9): {one} has no 9.9"))
        self.assert_each_found([(f"base/{number}.cpp", *case) for number, case in enumerate(cases)])

    def test_citations_in_other_files(self):
        one = f"spec/one{MD}"
        self.assert_each_found([
            ("base/a.py", f'"""{one}\n9"""', f"1: {one} 9: "),
            ("base/CMakeLists.txt", f"# {one} 9", f"1: {one} 9: "),
            ("data/a.json", f'{{"source": "{one} 9"}}', f"1: {one} 9: "),
            ("tests/a.trace", f"# {one} 9", f"1: {one} 9: "),
            (f"docs/b{MD}", f"one{MD} 1", f"1: one{MD}: no such document"),
            (f"docs/c{MD}", f"[a](none{MD})", f"1: none{MD}: no such file"),
            (f"docs/d{MD}", f"[a](page{MD}#none)", f"1: page{MD}#none: no such heading"),
            (f"docs/e{MD}", "[a](#none)", "1: #none: no such heading"),
            (f"docs/spec/f{MD}", "## 1. F\n\nsee section 1.1", "3: section 1.1: no 1.1 in this"),
            (f"docs/spec/g{MD}", "# G\n\nsee Appendix A", "3: Appendix A: no Appendix A in this")])

    def test_names(self):
        clean, dirty = self.root / "clean", self.root / "dirty"
        clean.write_bytes(b"\0nrt_init and nothing else\0som\0a")
        dirty.write_bytes(b"\0\1open SOMA_SOCKET now\0")
        self.assertEqual(run("check_names.py", clean)[0], 0)
        self.assertEqual(run("check_names.py", clean, dirty)[0], 1)
        self.assertEqual(run("check_names.py")[0], 1)


if __name__ == "__main__":
    unittest.main()
