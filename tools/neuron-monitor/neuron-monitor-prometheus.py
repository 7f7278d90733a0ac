#!/usr/bin/env python3
"""Serves the reports of neuron-monitor to Prometheus: neuron-monitor | neuron-monitor-prometheus.py

Reads one report per line from standard input and answers GET /metrics on --port with the newest
values (spec/tools.md 5.6). Ends when the reports end.
"""
import argparse
import http.server
import json
import sys
import threading
import time

MEMORY_KINDS = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
ECC_EVENTS = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected",
              "sram_ecc_uncorrected")
INSTANCE_LABELS = {"instance_name": "instance_name", "instance_id": "instance_id",
                   "instance_type": "instance_type",
                   "availability_zone": "instance_availability_zone",
                   "region": "instance_region", "subnet_id": "subnet_id"}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def escaped(text):
    return str(text).replace("\\", r"\\").replace("\n", r"\n").replace('"', r'\"')


def series(name, labels):
    return name + "{" + ",".join(f'{key}="{escaped(labels[key])}"' for key in labels) + "}"


class Metrics:
    """All series by name. Gauges of processes are those of the newest report with such a group."""

    def __init__(self, clock=time.time):
        self.clock = clock
        self.lock = threading.Lock()
        self.instance = None  # labels, from the first report
        self.gauges = {}  # name: {labels: value}
        self.counters = {}  # name: {labels: [value, time of creation]}
        self.infos = {}  # name: labels

    def gauge(self, name, value, **labels):
        self.gauges.setdefault(name, {})[tuple(labels.items())] = value

    def count(self, name, value, **labels):
        key = tuple(labels.items())
        entry = self.counters.setdefault(name, {}).setdefault(key, [0, self.clock()])
        entry[0] += value

    def take(self, report):
        with self.lock:
            info = report["instance_info"]
            if self.instance is None:
                self.instance = {label: info[key] for label, key in INSTANCE_LABELS.items()}
            self.infos["instance_info"] = info
            self.infos["neuron_hardware_info"] = report["neuron_hardware_info"]
            runtimes = report["neuron_runtime_data"] or []
            self.forget({runtime["neuron_runtime_tag"] for runtime in runtimes})
            for runtime in runtimes:
                self.take_runtime(runtime["neuron_runtime_tag"], runtime["report"])
            self.take_system(report["system_data"])

    def forget(self, tags):
        """Drops the gauges of processes that are no longer reported."""
        for values in self.gauges.values():
            for key in [key for key in values if dict(key).get("runtime_tag", None) not in
                        tags | {None}]:
                del values[key]

    def take_runtime(self, tag, groups):
        cores = groups.get("neuroncore_counters", {"neuroncores_in_use": {}})
        for core, values in cores["neuroncores_in_use"].items():
            self.gauge("neuroncore_utilization_ratio", values["neuroncore_utilization"] / 100,
                       neuroncore=core, runtime_tag=tag)
        if "memory_used" in groups:
            self.take_memory(tag, groups["memory_used"]["neuron_runtime_used_bytes"])
        if "neuron_runtime_vcpu_usage" in groups:
            for usage in ("user", "system"):
                value = groups["neuron_runtime_vcpu_usage"]["vcpu_usage"][usage]
                self.gauge("neuron_runtime_vcpu_usage_ratio", value / 100, usage_type=usage,
                           runtime_tag=tag)
        if "execution_stats" in groups:
            self.take_executions(tag, groups["execution_stats"])

    def take_memory(self, tag, used):
        for location in ("host", "neuron_device"):
            self.gauge("neuron_runtime_memory_used_bytes", used[location],
                       memory_location=location, runtime_tag=tag)
        for core, kinds in used["usage_breakdown"]["neuroncore_memory_usage"].items():
            for kind in MEMORY_KINDS:
                self.gauge(f"neuroncore_memory_usage_{kind}", kinds[kind], neuroncore=core,
                           memory_location="neuron_device", runtime_tag=tag)

    def take_executions(self, tag, stats):
        for kind, value in stats["error_summary"].items():
            self.count("execution_errors", value, error_type=kind, runtime_tag=tag)
        for kind, value in stats["execution_summary"].items():
            self.count("execution_status", value, status_type=kind, runtime_tag=tag)
        for percentile, value in (stats["latency_stats"]["total_latency"] or {}).items():
            self.gauge("execution_latency_seconds", value, percentile=percentile, runtime_tag=tag)

    def take_system(self, groups):
        for device in groups.get("neuron_hw_counters", {"neuron_devices": []})["neuron_devices"]:
            for event in ECC_EVENTS:
                self.count("hardware_ecc_events", device[event], event_type=event,
                           neuron_device_index=device["neuron_device_index"])
        if "memory_info" in groups:
            for kind in ("memory_total", "memory_used", "swap_total", "swap_used"):
                self.gauge(f"system_{kind}_bytes", groups["memory_info"][f"{kind}_bytes"])
        if "vcpu_usage" in groups:
            usage = groups["vcpu_usage"]["average_usage"]
            user = usage["user"] + usage["nice"]
            system = usage["system"] + usage["io_wait"] + usage["irq"] + usage["soft_irq"]
            self.gauge("system_vcpu_usage_ratio", user / 100, usage_type="user")
            self.gauge("system_vcpu_usage_ratio", system / 100, usage_type="system")
            self.gauge("system_vcpu_count", len(groups["vcpu_usage"]["usage_data"]))

    def text(self):
        with self.lock:
            common = self.instance or {}
            lines = []
            for name, values in sorted(self.gauges.items()):
                lines.append(f"# TYPE {name} gauge")
                lines += [f"{series(name, {**common, **dict(key)})} {value}"
                          for key, value in values.items()]
            for name, values in sorted(self.counters.items()):
                for suffix, kind, index in (("_total", "counter", 0), ("_created", "gauge", 1)):
                    lines.append(f"# TYPE {name}{suffix} {kind}")
                    lines += [f"{series(name + suffix, {**common, **dict(key)})} {entry[index]}"
                              for key, entry in values.items()]
            for name, labels in sorted(self.infos.items()):
                lines.append(f"# TYPE {name} gauge")
                lines.append(f"{series(name, {**common, **labels})} 1")
            return "\n".join(lines) + "\n"


def serve(metrics, port):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # the name that the server looks for
            if self.path.split("?")[0] not in ("/", "/metrics"):
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Scrapes are no news."""

    server = http.server.ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-p", "--port", type=int, default=8000)
    options = parser.parse_args()
    metrics = Metrics()
    serve(metrics, options.port)
    for line in sys.stdin:
        try:
            metrics.take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"neuron-monitor-prometheus: no report: {error!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
