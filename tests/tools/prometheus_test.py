"""Series that neuron-monitor-prometheus.py makes of reports: prometheus_test.py SCRIPT."""
import importlib.util
import sys
import unittest


def load(path):
    spec = importlib.util.spec_from_file_location("prometheus_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(tags, completed=0, busy=50.0):
    runtimes = [{"pid": 1, "address": "", "neuron_runtime_tag": tag, "error": "", "report": {
        "neuroncore_counters": {"period": 1.0, "error": "", "neuroncores_in_use": {
            "3": {"neuroncore_utilization": busy}}},
        "execution_stats": {"period": 1.0, "error": "",
                            "error_summary": {"numerical": 0, "hardware": 1},
                            "execution_summary": {"completed": completed},
                            "latency_stats": {"total_latency": None, "device_latency": None}},
    }} for tag in tags]
    return {"neuron_runtime_data": runtimes, "system_data": {
        "memory_info": {"period": 0.0, "memory_total_bytes": 10, "memory_used_bytes": 4,
                        "swap_total_bytes": 0, "swap_used_bytes": 0, "error": ""}},
        "instance_info": {"instance_name": "", "instance_id": "i-1",
                          "instance_type": "trn1.2xlarge", "instance_availability_zone": "",
                          "instance_region": "r", "subnet_id": "", "error": ""},
        "neuron_hardware_info": {"neuron_device_count": 1, "neuroncore_per_device_count": 2}}


class Series(unittest.TestCase):
    script = None

    def setUp(self):
        self.metrics = self.script.Metrics(clock=lambda: 7)

    def lines(self, name):
        return [line for line in self.metrics.text().split("\n") if line.startswith(name + "{")]

    def test_counters_add_up(self):
        for completed in (5, 0, 7):
            self.metrics.take(report(["a"], completed))
        line, = self.lines("execution_status_total")
        self.assertIn('status_type="completed"', line)
        self.assertIn('runtime_tag="a"', line)
        self.assertTrue(line.endswith("} 12"))
        self.assertTrue(self.lines("execution_status_created")[0].endswith("} 7"))

    def test_gauges_of_a_process_end_with_it(self):
        self.metrics.take(report(["a", "b"]))
        self.assertEqual(len(self.lines("neuroncore_utilization_ratio")), 2)
        self.metrics.take(report(["b"], busy=25.0))
        line, = self.lines("neuroncore_utilization_ratio")
        self.assertIn('runtime_tag="b"', line)
        self.assertTrue(line.endswith("} 0.25"))
        self.metrics.take({**report([]), "neuron_runtime_data": None})
        self.assertEqual(self.lines("neuroncore_utilization_ratio"), [])
        self.assertEqual(len(self.lines("system_memory_used_bytes")), 1)

    def test_labels(self):
        self.metrics.take(report(['q"\\\n']))
        line, = self.lines("neuroncore_utilization_ratio")
        self.assertIn(r'runtime_tag="q\"\\\n"', line)
        for label in ("instance_name", "instance_id", "instance_type", "availability_zone",
                      "region", "subnet_id", "neuroncore"):
            self.assertIn(f'{label}="', line)
        hardware, = self.lines("neuron_hardware_info")
        self.assertIn('neuron_device_count="1"', hardware)


if __name__ == "__main__":
    Series.script = load(sys.argv.pop(1))
    unittest.main()
