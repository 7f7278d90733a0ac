#!/usr/bin/env python3
"""Plants one breach of each rule in a small tree and expects the checkers to find exactly it."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(sys.argv.pop(1))


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
                ("docs/a.md", "a\tb\n", "ASCII"),
                ("docs/a.md", "a \n", "trailing"),
                ("docs/a.md", "a", "newline"),
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
        good = "int a;  // dma.rate_gbps, D (timing.md 5)\nint b;  // link.<class>_ns, see hw/b.h\n"
        self.write("hw/params.h", good)
        self.assertEqual(run("check_params.py", self.root)[0], 0)
        for name in ("dma.rate", "link.<class>_us", "dma.rate_gbps_max"):
            self.write("hw/params.h", f"{good}int c;  // {name} times two\n")
            status, output = run("check_params.py", self.root)
            self.assertEqual(status, 1, output)
            self.assertIn(f"hw/params.h:3: no timing file has {name}\n", output)
        self.write("hw/params.h", "int a;\n")
        self.assertEqual(run("check_params.py", self.root)[0], 1)

    def test_names(self):
        clean, dirty = self.root / "clean", self.root / "dirty"
        clean.write_bytes(b"\0nrt_init and nothing else\0som\0a")
        dirty.write_bytes(b"\0\1open SOMA_SOCKET now\0")
        self.assertEqual(run("check_names.py", clean)[0], 0)
        self.assertEqual(run("check_names.py", clean, dirty)[0], 1)
        self.assertEqual(run("check_names.py")[0], 1)


if __name__ == "__main__":
    unittest.main()
