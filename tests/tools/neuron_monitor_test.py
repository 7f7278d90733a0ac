"""neuron-monitor on machines: neuron_monitor_test.py BUILD. What clients read (spec/clients.md 2),
and configurations that make no sense."""
import json
import random
import subprocess
import sys

from bench import EndToEnd, main

INSTANCE = ["instance_name", "instance_id", "instance_type", "instance_availability_zone",
            "instance_availability_zone_id", "instance_region", "ami_id", "subnet_id", "error"]
HARDWARE = ["neuron_device_type", "neuroncore_version", "neuron_device_count",
            "neuron_device_memory_size", "neuroncore_per_device_count",
            "logical_neuroncore_config", "error"]
PLATFORMS = {"trn1.2xlarge": ("trainium", "v2", 1, 2), "inf2.48xlarge": ("inferentia2", "v2", 12, 2),
             "trn2.48xlarge": ("trainium2", "v3d", 16, 4),
             "trn3-gen1-server": ("trainium3", "v4d", 16, 4)}
RUNTIME_METRICS = ["neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage",
                   "execution_stats"]
SYSTEM_METRICS = ["vcpu_usage", "memory_info", "neuron_hw_counters"]
# Reads some lines and goes: the pipe that closes ends the monitor.
LINES = 'neuron-monitor %s | head -n %d'


def config(period="200ms", tag=".*"):
    return {"period": period,
            "neuron_runtimes": [{"tag_filter": tag,
                                 "metrics": [{"type": name} for name in RUNTIME_METRICS]}],
            "system_metrics": [{"type": name} for name in SYSTEM_METRICS]}


class Monitor(EndToEnd):
    def write(self, content):
        path = self.directory / "monitor.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def reports(self, run):
        self.assert_ok(run)
        return [json.loads(line) for line in run.output.splitlines()]

    def test_the_first_line_comes_at_once(self):
        for platform, (kind, version, count, cores) in PLATFORMS.items():
            with self.subTest(platform=platform):
                # As C19.2 has it: killed after its first line.
                script = ("rm -f line; neuron-monitor >line & "
                          "while ! test -s line; do sleep 0.01; done; kill -KILL $!; wait; cat line")
                first, = self.reports(self.run_on(["--platform", platform], ["sh", "-c", script],
                                                  limit=60))
                self.assertEqual(first["neuron_runtime_data"], [])
                self.assertEqual(list(first["system_data"]), ["memory_info"])
                self.assertEqual(list(first["instance_info"]), INSTANCE)
                self.assertEqual(first["instance_info"]["error"], "")
                hardware = first["neuron_hardware_info"]
                self.assertEqual(list(hardware), HARDWARE)
                self.assertEqual((hardware["neuron_device_type"], hardware["neuroncore_version"],
                                  hardware["neuron_device_count"],
                                  hardware["neuroncore_per_device_count"]),
                                 (kind, version, count, cores))

    def test_groups(self):
        path = self.write(config())
        run = self.run_on([], ["sh", "-c", LINES % (f"-c {path}", 3)])
        system = self.reports(run)[2]["system_data"]
        self.assertEqual(sorted(system), sorted(SYSTEM_METRICS))
        for group in system.values():
            self.assertIsInstance(group["period"], float)
            self.assertEqual(group["error"], "")
        usage = system["vcpu_usage"]
        self.assertEqual(list(usage["average_usage"]),
                         ["user", "nice", "system", "idle", "io_wait", "irq", "soft_irq"])
        self.assertIn("idle", usage["usage_data"]["0"])
        for device in system["neuron_hw_counters"]["neuron_devices"]:
            for key, value in device.items():
                self.assertIsInstance(value, int, key)
        for line in run.output.splitlines():
            self.assertLess(len(line), 64 * 1024)  # C15.3

    def test_an_application_comes_and_goes(self):
        path = self.write(config(tag="^train"))
        script = (f'neuron-monitor -c {path} >reports & m=$!; '
                  'NEURON_PROCESS_TAG=training "$0" "$1" >a & a=$!; '
                  'NEURON_PROCESS_TAG=serving "$0" "$1" >b & b=$!; '
                  'wait $a; wait $b; sleep 1; kill $m; wait $m; cat reports')
        holder = self.directory / "holder.py"
        holder.write_text(HOLDER)
        run = self.run_on(["--platform", "trn1.32xlarge"],
                          ["sh", "-c", script, sys.executable, str(holder)])
        reports = self.reports(run)
        tags = [[entry["neuron_runtime_tag"] for entry in report["neuron_runtime_data"]]
                for report in reports]
        self.assertIn(["training"], tags)
        self.assertEqual(tags[-1], [])
        self.assertLessEqual({tag for each in tags for tag in each}, {"training"})
        for report in reports:
            for entry in report["neuron_runtime_data"]:
                self.check_runtime(entry["report"])

    def check_runtime(self, groups):
        for name, group in groups.items():
            self.assertIn(name, RUNTIME_METRICS)
            self.assertEqual(group["error"], "")
        for core in groups.get("neuroncore_counters", {}).get("neuroncores_in_use", {}).values():
            self.assertLessEqual(core["neuroncore_utilization"], 100.0)  # C21.3
        if "memory_used" in groups:
            used = groups["memory_used"]["neuron_runtime_used_bytes"]
            for location in ("host", "neuron_device"):
                self.assertIsInstance(used[location], int)  # C15.5
            for core in used["usage_breakdown"]["neuroncore_memory_usage"].values():
                self.assertEqual(sorted(core), ["constants", "model_code",
                                                "model_shared_scratchpad", "runtime_memory",
                                                "tensors"])
        for value in groups.get("execution_stats", {}).get("execution_summary", {}).values():
            self.assertGreaterEqual(value, 0)  # C18.2

    def test_bad_configurations(self):
        for text in ("", "{", "[]", '{"period": 5}', '{"system_metrics": [{"type": "x"}]}',
                     '{"neuron_runtimes": [{"metrics": [{"type": "inference_stats"}]}]}',
                     '{"neuron_runtimes": [{"tag_filter": "["}]}'):
            run = self.run_on([], ["neuron-monitor", "-c", str(self.write(text))], limit=60)
            self.assertEqual((run.status, run.output), (1, ""), text)
            self.assertRegex(run.errors, "level=fatal .* error=", text)
        run = self.run_on([], ["neuron-monitor", "-c", "/no/such/file"], limit=60)
        self.assertEqual(run.status, 1)
        self.assertIn("/no/such/file", run.errors)

    def test_random_configurations(self):
        """Each is refused with a line, or taken, in which case a report comes."""
        seed = 20
        source = random.Random(seed)
        good = json.dumps(config())
        for number in range(60):
            text = bytearray(good.encode())
            for _ in range(source.randrange(1, 6)):
                text[source.randrange(len(text))] = source.randrange(256)
            (self.directory / f"config{number}").write_bytes(text)
        script = ('for c in config*; do timeout 5 neuron-monitor -c $c 2>errors | head -n 1 >line; '
                  'test -s line || grep -q level=fatal errors || { echo $c; exit 1; }; '
                  'grep -q "terminate called\\|Assertion" errors && { echo $c; exit 1; }; done; :')
        self.assert_ok(self.run_on([], ["sh", "-c", script]))

    def test_applications_that_are_killed_or_stopped(self):
        path = self.write(config("20ms"))
        holder = self.directory / "holder.py"
        holder.write_text(HOLDER)
        script = (f'neuron-monitor -c {path} >reports & m=$!; for s in KILL STOP KILL STOP; do '
                  '"$0" "$1" >out & p=$!; while ! grep -q holds out; do sleep 0.01; done; '
                  'sleep 0.05; kill -$s $p; sleep 0.1; neuron-ls >/dev/null || exit 1; '
                  'kill -KILL $p; wait $p; done; kill $m && cat reports')
        run = self.run_on(["--platform", "trn1.2xlarge"],
                          ["sh", "-c", script, sys.executable, str(holder)])
        seen = [{entry["pid"] for entry in report["neuron_runtime_data"]}
                for report in self.reports(run)]
        self.assertEqual(len(set.union(*seen)), 4)
        self.assertEqual(max(map(len, seen)), 1)

    def test_nobody_is_left_when_the_machine_stops(self):
        path = self.write(config("100ms"))
        script = f"neuron-monitor -c {path} & echo $! >pid; sleep 1"
        self.run_on([], ["sh", "-c", script], limit=60)
        pid = (self.directory / "pid").read_text().strip()
        self.assertNotEqual(subprocess.run(["kill", "-0", pid], capture_output=True).returncode, 0)

    def test_without_a_device(self):
        done = subprocess.run([self.program("neuron-monitor")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("failed to discover Neuron devices", done.stderr)


# Holds one core for a while.
HOLDER = """
import ctypes, os, time
os.environ["NEURON_RT_NUM_CORES"] = "1"
nrt = ctypes.CDLL("libnrt.so.1")
assert nrt.nrt_init(1, b"", b"") == 0
print("holds", flush=True)
time.sleep(2)
nrt.nrt_close()
"""

if __name__ == "__main__":
    main(sys.argv)
