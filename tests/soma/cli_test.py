#!/usr/bin/env python3
"""The command line of the tool, from outside: exit codes, messages, describe. cli_test.py SOMA DATA"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

DATA = pathlib.Path(sys.argv.pop(2))
TOOL = sys.argv.pop(1)


def run(*arguments):
    result = subprocess.run([TOOL, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    return result.returncode, result.stdout, result.stderr


class CommandLine(unittest.TestCase):
    def assert_usage(self, arguments, *words):
        status, output, errors = run(*arguments)
        self.assertEqual(status, 2, errors)
        self.assertEqual(output, "")
        for word in words:
            self.assertIn(word, errors)

    def test_usage_errors_list_what_is_valid(self):
        self.assert_usage([], "run, up, exec, down, fault, qemu, vfio-user, sweep or describe")
        self.assert_usage(["rnu"], "'rnu'", "run")
        self.assert_usage(["run", "--platfrom", "x"], "--platfrom", "--platform")
        self.assert_usage(["run", "--platform"], "--platform")
        self.assert_usage(["run"], "no command")
        self.assert_usage(["run", "--policy", "never", "--", "true"], "epoch", "overlap")
        self.assert_usage(["run", "--clock", "sand", "--", "true"], "virtual", "host")
        self.assert_usage(["run", "--platform", "trn9", "--", "true"], "'trn9'", "trn1.2xlarge")
        self.assert_usage(["run", "--set", "dma.engin_gbps=1", "--", "true"], "dma.engine_gbps")
        self.assert_usage(["run", "--set", "dma.engine_gbps", "--", "true"], "name=value")
        self.assert_usage(["run", "--set", "dma.engine_gbps=0", "--", "true"], "greater than zero")
        self.assert_usage(["run", "--timing-file", "trn2", "--", "true"], "generation")
        self.assert_usage(["run", "--log", "loud", "--", "true"], "debug")
        self.assert_usage(["describe", "--", "true"], "no command is expected")
        self.assert_usage(["exec", "--name", "no-such-machine", "--", "true"], "soma up")
        self.assert_usage(["down", "--name", "no-such-machine"], "soma up")
        self.assert_usage(["up", "--name", "../x"], "letters")

    def test_help_and_version(self):
        self.assertEqual(run("--help")[0], 0)
        self.assertIn("--platform", run("run", "--help")[1])
        self.assertRegex(run("--version")[1], r"^\d+\.\d+\.\d+\n$")

    def test_describe_prints_the_platform_that_was_loaded(self):
        files = sorted((DATA / "platforms").glob("*.json"))
        self.assertEqual(run("describe")[1].split(), [path.stem for path in files])
        for path in files:
            status, output, errors = run("describe", "--platform", path.stem, "--json")
            self.assertEqual(status, 0, errors)
            self.assertEqual(json.loads(output), json.loads(path.read_text()))
            self.assertEqual(run("describe", "--platform", path)[0], 0)

    def test_describe_timing_shows_values_sources_and_overrides(self):
        rows = json.loads(run("describe", "--timing", "--json", "--set", "dma.engine_gbps=8.5")[1])
        names = [row["name"] for row in rows]
        self.assertEqual(names, list(json.loads(
            (DATA / "timing" / "trn1.json").read_text())["parameters"]))
        engine = rows[names.index("dma.engine_gbps")]
        self.assertEqual((engine["value"], engine["default"]), ("8.5", "17"))
        text = run("describe", "--timing", "--set", "dma.engine_gbps=8.5")[1]
        self.assertIn("(default 17)", text)
        self.assertIn("clk.dve_ghz", run("describe", "--timing", "--platform", "trn2.48xlarge")[1])

    def test_describe_registers(self):
        def blocks(*arguments):
            status, output, errors = run("describe", "--registers", "--json", *arguments)
            self.assertEqual(status, 0, errors)
            table = json.loads(output)
            return table, {b["block"]: {r["name"]: r for r in b["registers"]}
                           for b in table["blocks"]}

        table, v2 = blocks()
        self.assertEqual(table["generation"], 2)
        base = v2["udma"]["m2s_q_ring_base_lo"]
        self.assertEqual((base["offset"], base["count"], base["stride"], base["writable"]),
                         ("0x01028", 16, "0x1000", "0xffffffc0"))
        self.assertEqual(v2["udma"]["m2s_q_cfg"]["reset"], "0x03000000")
        self.assertEqual(v2["udma"]["m2s_data_rd_cfg"]["kind"], "unsupported")
        self.assertEqual(v2["udma"]["secondary_irq_mask"]["reset"], "0xffffffff")
        self.assertIn("broadcast_group", v2["sdma"])
        self.assertNotIn("errtrig", v2)
        udma = [b for b in table["blocks"] if b["block"] == "udma"][0]["places"][0]["windows"]
        self.assertEqual(len(udma), 34)
        self.assertEqual(udma[33], {"device": "0x0ffff0d00000", "bar0": "0x30d00000"})
        self.assertEqual(table["unsupported_windows"], [])
        # Every register of the data files of its generation, and no other.
        for path in sorted((DATA / "regs").glob("*.json")):
            file = json.loads(path.read_text())
            names = set()
            for item in file["registers"]:
                for register in item.get("registers", [item]):
                    gens = register.get("gens", item.get("gens", file.get("gens", [2, 3, 4])))
                    prefix = item["group"] + "_" if "group" in item else ""
                    if 2 in gens:
                        names.add(prefix + register["name"])
            block = "pe" if file["block"] == "pe_v2" else file["block"]
            if names:
                self.assertEqual(set(v2[block]), names, path.stem)

        table, v4 = blocks("--platform", "trn2.48xlarge", "--unsupported")
        self.assertIn("overhead_beats", v4["sdma"])
        self.assertNotIn("broadcast_last", v4["sdma"])
        self.assertEqual(v4["errtrig"]["irq_mask"]["reset"], "0x00000000")
        kinds = {r["kind"] for registers in v4.values() for r in registers.values()}
        self.assertEqual(kinds, {"unsupported"})
        self.assertEqual(table["unsupported_windows"][0]["windows"][3],
                         {"device": "0x805200000000", "bar0": ""})

        status, text, _ = run("describe", "--registers", "--platform", "inf2.xlarge")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"0x01034 16 x 0x1000 +m2s_q_head +ro +0x40000000 function")
        self.assertIn("34 x DMA engine: first at device 0x0ffff0000000, BAR0 0x30000000", text)
        self.assert_usage(["describe", "--unsupported"], "--registers")

    def test_describe_schedule(self):
        status, text, errors = run("describe", "--schedule", "allr", "--platform", "trn1.32xlarge",
                                   "--ranks", 8, "--size", "64k", "--steps")
        self.assertEqual(status, 0, errors)
        self.assertIn("all_reduce, 8 ranks, 65536 bytes in, 65536 bytes out", text)
        self.assertIn("directed links carry bytes", text)
        self.assertIn("\nrank 7\n", text)
        self.assertIn("verified", text)
        for operation in ("all_gather", "redsct", "alltoall", "permute", "sendrecv", "broadcast",
                          "reduce", "barrier"):
            status, text, errors = run("describe", "--schedule", operation, "--platform",
                                       "trn2.3xlarge")
            self.assertEqual(status, 0, errors)
            self.assertIn("verified", text)
        self.assert_usage(["describe", "--schedule", "sum"], "'sum'", "all_reduce")
        self.assert_usage(["describe", "--schedule", "allr", "--ranks", "3"], "--ranks 3", "has 2")
        self.assert_usage(["describe", "--schedule", "allr", "--lnc", "2"], "--lnc 2")
        self.assert_usage(["describe", "--schedule", "allr", "--algo", "bruck"], "available: ring")
        self.assert_usage(["describe", "--schedule", "allr", "--algo", "hier"], "several nodes")
        self.assert_usage(["describe", "--schedule", "alltoall", "--in-place"], "in place")
        self.assert_usage(["describe", "--svg", "x"], "--schedule")
        for size in ("-1", "9" * 20, "k"):
            self.assert_usage(["describe", "--schedule", "allr", "--size", size], "--size", size)
        self.assert_usage(["describe", "--schedule", "allr", "--size", "1zb"], "--size", "zb unit")
        self.assert_usage(["describe", "--schedule", "allr", "--ranks", "0"], "--ranks", "0")
        self.assert_usage(["run", "--trace-limit", "-1", "--", "true"], "--trace-limit", "-1")

    def test_pictures_of_schedules(self):
        """Every operation, and platforms of every kind: well-formed, small, nothing off the page."""
        operations = ("allr", "allg", "redsct", "alltoall", "permute", "sendrecv", "permute_reduce",
                      "broadcast", "reduce", "barrier", "all_gatherv")
        platforms = ("inf2.24xlarge", "inf2.48xlarge", "trn1.32xlarge", "trn2.3xlarge",
                     "trn2.48xlarge", "trn3-gen1-server", "trn3-gen2-server")
        cases = [(operation, "trn1.32xlarge") for operation in operations]
        cases += [("allr", platform) for platform in platforms]
        cases += [("alltoall", platform) for platform in platforms]
        cases += [("redsct", "trn2-ultraserver")]
        with tempfile.TemporaryDirectory() as place:
            svg = pathlib.Path(place) / "s.svg"
            for operation, platform in cases:
                with self.subTest(operation=operation, platform=platform):
                    status, text, errors = run("describe", "--schedule", operation, "--platform",
                                               platform, "--svg", svg)
                    self.assertEqual(status, 0, errors)
                    self.check_picture(svg, text)

    def test_policies_that_there_are_not(self):
        """The machine says so when it is made: to describe it, or to run on it."""
        platform = json.loads((DATA / "platforms/trn2.48xlarge.json").read_text())
        with tempfile.TemporaryDirectory() as place:
            file = pathlib.Path(place) / "p.json"
            torus = {"type": "torus", "parameters": {"a": 1}}
            for policies, word in (({"links": "none"}, "'none'"), ({"routing": torus}, "'torus'")):
                file.write_text(json.dumps(dict(platform, policies=policies)))
                for command in (["describe", "--hierarchy"], ["run", "--", "true"]):
                    with self.subTest(policies=policies, command=command):
                        self.assert_usage([command[0], "--platform", file, *command[1:]], word)

    def check_picture(self, svg, text):
        root = ElementTree.parse(svg).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        elements = list(root.iter())
        self.assertLess(len(elements), 600)
        words = [(e, e.text) for e in elements if e.tag.endswith("}text")]
        for number in range(1, 5):
            self.assertTrue(any(what.startswith(f"{number}. ") for _, what in words))
        for element, what in words:  # tables are set in letters of 6.6 pixels
            if "monospace" in element.get("font-family", ""):
                self.assertLess(float(element.get("x")) + 6.63 * len(what), 1180, what)
        busiest = re.search(r"links.* carry bytes: at most (\d+) \((.*?)\)", text)
        if busiest:
            said = f"busiest: {busiest[2]}, {busiest[1]} bytes"
            self.assertTrue(any(what.startswith(said) for _, what in words), said)

    def test_a_full_disk(self):
        for arguments in (["describe"], ["describe", "--timing"], ["--help"]):
            with open("/dev/full", "w") as full:
                ended = subprocess.run([TOOL, *arguments], stdout=full, stderr=subprocess.PIPE,
                                       text=True, check=False, timeout=300)
            self.assertEqual(ended.returncode, 125, arguments)
            self.assertIn("No space left on device", ended.stderr)
        with tempfile.TemporaryDirectory() as place:
            link = pathlib.Path(place) / "s.svg"
            link.symlink_to("/dev/full")
            status, _, errors = run("describe", "--schedule", "allg", "--svg", link)
            self.assertEqual(status, 125, errors)
            self.assertIn("No space left on device", errors)
            self.assertTrue(link.is_symlink())

    def test_describe_support(self):
        table = json.loads((DATA / "support.json").read_text())["features"]
        self.assertEqual(json.loads(run("describe", "--support", "--json")[1]), table)
        self.assertEqual(len(run("describe", "--support")[1].splitlines()), len(table))


if __name__ == "__main__":
    unittest.main()
