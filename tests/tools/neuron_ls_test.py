"""neuron-ls on machines: neuron_ls_test.py BUILD. What clients read of it (spec/clients.md 2)."""
import json
import re
import subprocess
import sys

from bench import EndToEnd, main

REQUIRED = ["instance_type", "instance_id", "neuron_device", "bdf", "cpu_affinity", "numa_node",
            "connected_to", "nc_count", "memory_size", "neuroncore_ids", "neuron_processes"]
GIB = 1 << 30
# platform: devices, logical cores of each, physical ones of a logical one, GiB of each device
PLATFORMS = {"trn1.2xlarge": (1, 2, None, 32), "trn1.32xlarge": (16, 2, None, 32),
             "inf2.48xlarge": (12, 2, None, 32), "trn2.3xlarge": (1, 4, 2, 96),
             "trn2.48xlarge": (16, 4, 2, 96), "trn3-gen1-server": (16, 4, 2, 144)}


class List(EndToEnd):
    def list(self, platform, *options, **environment):
        run = self.run_on(["--platform", platform], ["neuron-ls", *options], **environment)
        self.assert_ok(run)
        return run.output

    def test_json_of_platforms(self):
        for platform, (count, cores, config, memory) in PLATFORMS.items():
            with self.subTest(platform=platform):
                text = self.list(platform, "--json-output")
                self.assertTrue(text.startswith("[\n    {\n        \"instance_type\": "))
                self.assertFalse(text.endswith("\n"))
                devices = json.loads(text)
                self.assertEqual([d["neuron_device"] for d in devices], list(range(count)))
                for device in devices:
                    keys = [key for key in device if key != "logical_neuroncore_config"]
                    self.assertEqual(keys, REQUIRED)
                    self.assertEqual(device.get("logical_neuroncore_config"), config)
                    self.assertEqual(device["nc_count"], cores)
                    self.assertEqual(device["memory_size"], memory * GIB)
                    first = device["neuron_device"] * cores
                    self.assertEqual(device["neuroncore_ids"], list(range(first, first + cores)))
                    self.assertRegex(device["bdf"], r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
                    self.assertRegex(device["instance_id"], r"^i-[0-9a-f]{17}$")
                    self.assertIsInstance(device["numa_node"], str)
                    self.assertEqual(device["neuron_processes"], [])
                self.assertEqual(len({device["bdf"] for device in devices}), count)

    def test_neighbours_are_those_of_sysfs(self):
        script = ("neuron-ls -j; echo; for i in 0 7 15; do "
                  "cat /sys/class/neuron_device/neuron$i/connected_devices; done")
        run = self.run_on(["--platform", "trn2.48xlarge"], ["sh", "-c", script])
        self.assert_ok(run)
        listed, _, rest = run.output.partition("\n]\n")
        devices = json.loads(listed + "]")
        for index, line in zip((0, 7, 15), rest.split("\n")):
            self.assertEqual(devices[index]["connected_to"], [int(n) for n in line.split(",")])

    def test_a_single_device_has_no_neighbours(self):
        device, = json.loads(self.list("trn2.3xlarge", "-j"))
        self.assertIsNone(device["connected_to"])
        self.assertNotIn("CONNECTED", self.list("trn2.3xlarge"))

    def test_logical_cores_are_what_the_variable_says(self):
        for size, cores in (("1", 8), ("2", 4)):
            device, = json.loads(self.list("trn2.3xlarge", "-j", NEURON_LOGICAL_NC_CONFIG=size))
            self.assertEqual(device["logical_neuroncore_config"], int(size))
            self.assertEqual(device["neuroncore_ids"], list(range(cores)))
        run = self.run_on(["--platform", "trn2.3xlarge"], ["neuron-ls"],
                          NEURON_LOGICAL_NC_CONFIG="3")
        self.assertEqual(run.status, 1)
        self.assertIn("NEURON_LOGICAL_NC_CONFIG", run.errors)

    def test_what_scripts_cut_out_of_the_text(self):
        text = self.list("trn2.48xlarge")
        self.assertIn("NEURON", text)  # C06.1
        awk = subprocess.run(["awk", r"/^\| [0-9]+/ {total += $4} END {print total}"], input=text,
                             capture_output=True, text=True, check=True)  # C24.4
        self.assertEqual(awk.stdout, "64\n")
        self.assertEqual(re.search(r"logical-neuroncore-config:\s*(\d+)", text)[1], "2")
        self.assertRegex(text, r"\Ainstance-type: trn2\.48xlarge\ninstance-id: i-")
        self.assertNotIn("No neuron devices found", text)  # C21.1

    def test_topology(self):
        text = self.list("trn1.32xlarge", "--topology")
        rows = [line for line in text.split("\n") if line.startswith("*\u2013")]
        self.assertEqual([re.findall(r"\d+", row) for row in rows],
                         [[str(4 * r + c) for c in range(4)] for r in range(4)])
        self.assertNotIn("AFFINITY", text)
        self.assertIn("[ 0 ]", self.list("trn1.2xlarge", "-t"))

    def test_processes(self):
        script = ('"$0" "$1" & p=$!; for i in $(seq 200); do '
                  'neuron-ls -j | grep -q "\\"pid\\": $p" && break; sleep 0.01; done; '
                  'neuron-ls -j; echo; neuron-ls; neuron-ls -a; wait $p')
        holder = self.directory / "holder.py"
        holder.write_text(HOLDER)
        run = self.run_on([], ["sh", "-c", script, sys.executable, str(holder)],
                          NEURON_PROCESS_TAG="training")
        self.assert_ok(run)
        listed, _, tables = run.output.partition("\n]\n")
        process, = json.loads(listed + "]")[0]["neuron_processes"]
        command = f"{sys.executable} {holder}"
        self.assertEqual(process["command"],
                         command if len(command) <= 40 else command[:37] + "...")
        self.assertRegex(process["neuron_runtime_version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(tables, rf"\| {process['pid']} +\|")
        self.assertRegex(tables, r"\| neuron-ls -a +\| NA +\|")

    def test_command_line(self):
        run = self.run_on([], ["neuron-ls", "--bogus"])
        self.assertEqual(run.status, 1)
        self.assertEqual(run.output, 'unknown flag "--bogus"\n')
        self.assertEqual(self.run_on([], ["neuron-ls", "word"]).status, 1)
        self.assertIn("--json-output", self.list("trn1.2xlarge", "--help"))

    def test_without_a_device(self):
        done = subprocess.run([self.program("neuron-ls"), "-j"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r'^time="[^"]+" level=fatal '
                         r'msg="Failed to load MLA system information" '
                         r'error="failed to discover Neuron devices"\n$')

    def test_several_at_once(self):
        script = "for i in 1 2 3 4 5 6 7 8; do neuron-ls -j >$i & done; wait; " \
                 "for i in 1 2 3 4 5 6 7 8; do cmp 1 $i || exit 1; done"
        self.assert_ok(self.run_on(["--platform", "trn1.32xlarge"], ["sh", "-c", script]))


# Holds the device's runtime for a while.
HOLDER = """
import ctypes, time
nrt = ctypes.CDLL("libnrt.so.1")
assert nrt.nrt_init(1, b"", b"") == 0
time.sleep(2)
nrt.nrt_close()
"""

if __name__ == "__main__":
    main(sys.argv)
