#!/usr/bin/env python3
"""What a program sees on the nodes of every platform: platform_test.py SOMA DATA PLACE_CLIENT

The client uses libndl and libc only. What it prints is compared with the platform file.
"""
import json
import pathlib
import subprocess
import sys
import unittest

TOOL, DATA, CLIENT = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
del sys.argv[1:]

PRODUCTS = {"trn3-gen1-server": "trn3.48xlarge", "trn3-gen2-server": "trn3e.24xlarge"}


def run(platform, *command):
    result = subprocess.run([TOOL, "run", "--platform", platform, "--", *command], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=300)
    return result.returncode, result.stdout, result.stderr


def nodes_to_visit(count):
    return sorted({n for n in (0, 1, 2, 3, 4, 17, 18, count - 1) if n < count})


def pod(platform, node):
    """type, state, size and node id that the driver reports."""
    nodes = len(platform["nodes"])
    if platform["topology"]["kind"] == "switched":
        return 2, 2 if nodes > 1 else 4, nodes, node if node < 4 else -1
    if platform["nodes"][0]["instance_type"].startswith("trn2u"):
        return (1, 2, nodes, node) if nodes > 1 else (1, 4, 0, -1)
    return 0, 4, 0, -1


class Platforms(unittest.TestCase):
    def visit(self, path):
        platform = json.loads(path.read_text())
        nodes = platform["nodes"]
        visited = nodes_to_visit(len(nodes))
        status, output, errors = run(path.stem, "sh", "-c", "".join(
            f"soma exec --node {n} -- {CLIENT};" for n in visited))
        self.assertEqual((status, errors), (0, ""))
        lines = output.splitlines()
        for n in visited:
            chips = [c for c in platform["chips"] if c["node"] == n]
            host, product = lines.pop(0).split()[1:]
            if len(nodes) > 1:
                self.assertEqual(host, f"node-{n}")
            kind = nodes[n]["instance_type"]
            self.assertEqual(product, PRODUCTS.get(kind, kind))
            generation = platform["generation"][1:]
            for chip in sorted(chips, key=lambda c: c["local_id"]):
                self.assertRegex(lines.pop(0), "^device {0} type {1} id {0} chip {2} neighbours".format(
                    chip["local_id"], generation, chip["id"]))
            self.assertEqual(lines.pop(0), "pod type {} state {} size {} node {}".format(
                *pod(platform, n)))
        self.assertEqual(lines, [])

    def test_a_node_names_others(self):
        status, output, errors = run("trn2-ultraserver", "soma", "exec", "--node", "2", "--", CLIENT,
                                     "node-2", "node-3", "node-4", "localhost")
        self.assertEqual(status, 0, errors)
        found = [line for line in output.splitlines() if line.startswith("lookup")]
        self.assertEqual(found, ["lookup node-2 127.0.0.1 4711", "lookup node-3 127.0.0.1 4711",
                                 "lookup node-4 unknown", "lookup localhost 127.0.0.1 4711"])

    def test_sysfs_of_a_pod(self):
        status, output, errors = run(
            "trn2-ultraserver", "mpirun", "-npernode", "1", "--tag-output", "sh", "-c",
            "cd /sys/class/neuron_device; cat node_id_4 server_id_4 ultraserver_mode neuron5/core_count")
        self.assertEqual(status, 0, errors)
        seen = {}
        for line in output.splitlines():
            tag, text = line.split("<stdout>:")
            seen.setdefault(tag, []).append(text)
        self.assertEqual(seen, {f"[1,{n}]": [str(n), seen["[1,0]"][1], "1,3,4", "8"]
                                for n in range(4)})
        self.assertNotEqual(seen["[1,0]"][1], "0" * 16)


def add_tests():
    for path in sorted((DATA / "platforms").glob("*.json")):
        name = "test_" + path.stem.replace(".", "_").replace("-", "_")
        setattr(Platforms, name, lambda self, path=path: self.visit(path))


if __name__ == "__main__":
    add_tests()
    unittest.main()
