#!/usr/bin/env python3
"""The examples of examples/blocks against an installed tree, as its user has them: configured,
compiled, packed and run with nothing of the build directory. installed_test.py BUILD"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from platforms import Platforms, main

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "blocks"
MIB = 1 << 20
COPY_GBPS = 70  # between the two cores of a trn1 chip: fabric.core_to_core_gbps


def run(*command, **more):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more).stdout


def rows_first(source, target):
    """Directed links between two chips of a 4 x 4 torus, by name: along the row, then the column,
    half way round up."""
    here, there = list(divmod(source, 4)), divmod(target, 4)
    for d in (1, 0):
        step = 1 if (there[d] - here[d]) % 4 <= 2 else -1
        while here[d] != there[d]:
            before = 4 * here[0] + here[1]
            here[d] = (here[d] + step) % 4
            yield f"link.d{before}-d{4 * here[0] + here[1]}"


class Installed(Platforms):
    @classmethod
    def setUpClass(cls):
        cls.tree = pathlib.Path(tempfile.mkdtemp(prefix="soma_installed"))
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        cls.prefix, cls.blocks = cls.tree / "prefix", cls.tree / "blocks"
        try:
            run("cmake", "--install", cls.build, "--prefix", cls.prefix)
            # What ccache keeps is found again although the tree lies somewhere else each time.
            shutil.copytree(SOURCE, cls.tree / "source")
            environment = {**os.environ, "CCACHE_BASEDIR": str(cls.tree), "CCACHE_NOHASHDIR": "1"}
            ccache = shutil.which("ccache")
            launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []
            # It is not speed that is tested.
            run("cmake", "-G", "Ninja", "-S", cls.tree / "source", "-B", cls.blocks,
                "-DCMAKE_CXX_FLAGS=-O0", f"-DCMAKE_PREFIX_PATH={cls.prefix}", *launcher)
            run("cmake", "--build", cls.blocks, env=environment)
        except subprocess.CalledProcessError as error:
            raise AssertionError(f"{error}\n{error.stdout}") from None

    def program(self, name):
        return str(self.prefix / "bin" / name)

    def library(self, name):
        return str(self.blocks / f"lib{name}.so")

    def example(self, name, **keys):
        """The platform file of an example, in which something of its block is another."""
        platform = json.loads((self.blocks / f"{name}.json").read_text())
        for block in platform["blocks"]:
            block["library"] = str(self.blocks / block["library"])
            block["parameters"].update(keys)
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(platform), encoding="ascii")
        return path

    def twice(self, *arguments, **more):
        """Runs it, and runs it again: the same output and report, byte by byte."""
        runs = [self.run_on(*arguments, **more) for _ in range(2)]
        for each in runs:
            self.assert_ok(each)
        self.assertEqual(runs[0].output, runs[1].output)
        self.assertEqual(runs[0].report_text, runs[1].report_text)
        return runs[0]

    def test_nothing_of_the_build_tree_is_needed(self):
        self.assertEqual(run(self.program("soma"), "--version"),
                         run(self.build / "bin" / "soma", "--version"))
        for file in (self.prefix / "lib" / "cmake").rglob("*.cmake"):
            self.assertNotIn(str(self.build), file.read_text(), file)
        libraries = run("ldd", self.blocks / "embedded") + run("ldd", self.blocks / "use_checksum")
        self.assertIn(str(self.prefix / "lib"), libraries)
        self.assertNotIn(str(self.build), libraries)

    def test_kernels(self):
        """They need no more than the installed headers and library; their lines are in the file."""
        build = self.tree / "kernels"
        run("cmake", "-G", "Ninja", "-S", SOURCE.parent / "kernels", "-B", build,
            "-DCMAKE_CXX_FLAGS=-O0", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build, "--target", "softmax")
        neff = self.directory / "softmax.neff"
        run(build / "softmax", 200, 64, neff)
        self.assertIn("softmax", run(self.program("neff"), "info", neff))
        self.assertRegex(run(self.program("neff"), "dis", neff),
                         r"ACTIVATE .* # .*softmax\.cpp:\d+ \(activation\)")

    def packed_checksum(self, files=SOURCE / "checksum" / "neff"):
        neff = self.directory / "checksum.neff"
        run(self.program("neff"), "pack", files, "-o", neff)
        return neff

    def check_sums(self, machine):
        sums = re.findall(r"^device (\w{8}), host (\w{8}): equal$", machine.output, re.MULTILINE)
        self.assertEqual(len(sums), 3, machine.output)
        self.assertEqual(len(set(sums)), 3)
        for device, host in sums:
            self.assertEqual(device, host)

    def test_checksum(self):
        command = [str(self.blocks / "use_checksum"), str(self.packed_checksum()), "3"]
        machine = self.twice(["--platform", str(self.blocks / "checksum.json")], command)
        self.check_sums(machine)
        read = {row["name"]: row["bytes"] for row in machine.report["resources"]}
        # What it reads and the 4 bytes of its result, three times.
        self.assertEqual(read["d0.sum.memory"], 3 * (65536 + 4))
        direct = self.twice(["--platform", str(self.example("checksum", dmi=True))], command)
        self.check_sums(direct)
        through = {row["name"]: row["bytes"] for row in direct.report["resources"]}
        self.assertEqual(through["d0.sum.memory"], 3 * 4)

    def test_checksum_of_another_generation(self):
        """The same library; other addresses of the region and of SBUF. Logical core 0 of a trn2
        chip is the physical core 4."""
        files = self.directory / "neff"
        shutil.copytree(SOURCE / "checksum" / "neff", files)
        for name in ("info.json", "sg00/def.json", "sg00/sp.s"):
            text = (files / name).read_text()
            for old, new in (("trn1", "trn2"), ("0x0fffe0", "0x008010"),
                             ("0x00000fffc0", "0x0000802000")):
                text = text.replace(old, new)
            (files / name).write_text(text)
        platform = json.loads(self.example("checksum").read_text())
        platform["base"] = "trn2.3xlarge"
        block, = platform["blocks"]
        for end in block["initiators"] + block["semaphores"]:
            end["core"] = 4
        path = self.directory / "v3.json"
        path.write_text(json.dumps(platform), encoding="ascii")
        machine = self.twice(["--platform", str(path)],
                             [str(self.blocks / "use_checksum"), str(self.packed_checksum(files)),
                              "3"], NEURON_LOGICAL_NC_CONFIG="1")
        self.check_sums(machine)

    def bus_bandwidth(self, platform):
        # A reset of the cores takes 100 ms, which is what simulating the tenants would be spent on.
        machine = self.twice(
            ["--platform", str(platform), "--timing-only"],
            [self.program("nccom-test"), "-r", "2", "-b", "16mb", "-e", "16mb", "-d", "bf16",
             "-n", "2", "-w", "1", "allg"], NEURON_RT_RESET_CORES="0")
        row = re.search(rf"^ +{16 * MIB} +\d+ +\w+ +[0-9.]+ +[0-9.]+ +([0-9.]+)", machine.output,
                        re.MULTILINE)
        self.assertIsNotNone(row, machine.output + machine.errors)
        return float(row.group(1))

    def test_tenants(self):
        alone = self.bus_bandwidth("trn1.2xlarge")
        self.assertLess(alone, COPY_GBPS)
        self.assertGreater(alone, 0.98 * COPY_GBPS)
        # The faster, the more of its reads wait behind packets of the collective.
        for platform, rate in ((self.blocks / "tenant.json", 12),
                               (self.example("tenant", gbps=20, depth=256), 20)):
            with self.subTest(rate=rate):
                left = self.bus_bandwidth(platform)
                self.assertAlmostEqual(left, COPY_GBPS - rate, delta=0.01 * (COPY_GBPS - rate))

    def all_to_all(self, platform):
        """Payload of each direction of a link, in chunks of 8 KiB."""
        chunk, ranks = 8192, 64
        machine = self.run_on(
            ["--platform", str(platform)],
            [self.program("nccom-test"), "-r", str(ranks), "-b", str(chunk * ranks), "-e",
             str(chunk * ranks), "-n", "1", "-w", "0", "-d", "bf16", "--check", "alltoall"])
        self.assert_ok(machine)
        return {row["name"]: (row["bytes"] - 4 * row.get("signals", 0)) / chunk
                for row in machine.report["resources"] if row["name"].startswith("link.")}

    def test_router(self):
        usual = self.all_to_all("trn2.48xlarge")
        routed = self.all_to_all(self.blocks / "router.json")
        loads = dict.fromkeys(usual, 0)
        self.assertEqual(len(loads), 64)
        for source in range(16):
            for target in range(16):
                for link in rows_first(source, target):
                    loads[link] += 4 * 4  # four ranks here for four ranks there
        self.assertEqual(routed, loads)
        self.assertNotEqual(routed, usual)

    def test_embedded(self):
        output = run(self.blocks / "embedded", cwd=self.directory)
        self.assertRegex(output, r"(?m)^vendor and device: [0-9a-f]{4}1d0f$")
        self.assertRegex(output, r"(?m)^32768 bytes there and back: equal, \d+\.\d{3} us$")
        self.assertEqual(run(self.blocks / "embedded", cwd=self.directory), output)


if __name__ == "__main__":
    main(sys.argv)
