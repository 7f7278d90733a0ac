"""Ranks of one program, as threads, over the public runtime API. Job: a JSON file with

  {"library": "libnrt.so", "neffs": [path per rank], "executions": 1, "rings": false,
   "inputs": {name: bytes}, "outputs": {name: bytes}}

Input NAME of rank R is the file NAME.R, output NAME becomes NAME.R. Standard output: JSON, by rank
the collectives as the device timed them (picoseconds); if asked, which takes a while, the bytes of
DMA rings on device 0.

usage: ranks.py JOB"""
import ctypes
import json
import pathlib
import sys
import threading

NO_FRAMEWORK = 1
RINGS = "stats/memory_usage/device_mem/dma_rings/present"


class Runtime:
    def __init__(self, library):
        self.nrt = ctypes.CDLL(library)
        self.nrt.nrt_get_status_as_str.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        status = getattr(self.nrt, name)(*arguments)
        if status != 0:
            text = self.nrt.nrt_get_status_as_str(status).decode()
            raise RuntimeError(f"{name}: {text} ({status})")

    def start_trace(self):
        config = ctypes.c_void_p()
        self.call("nrt_sys_trace_config_allocate", ctypes.byref(config))
        self.nrt.nrt_sys_trace_config_set_defaults(config)
        self.call("nrt_sys_trace_start", config)
        self.nrt.nrt_sys_trace_config_free(config)

    def events(self):
        buffer = ctypes.c_char_p()
        size = ctypes.c_size_t()
        self.call("nrt_sys_trace_fetch_events", ctypes.byref(buffer), ctypes.byref(size), None)
        return json.loads(ctypes.string_at(buffer, size.value))["events"]


class Rank:
    def __init__(self, runtime, job, rank):
        self.runtime, self.job, self.rank = runtime, job, rank
        self.model = ctypes.c_void_p()
        self.sets = {}
        self.tensors = {}
        self.error = None

    def load(self):
        neff = pathlib.Path(self.job["neffs"][self.rank]).read_bytes()
        self.runtime.call("nrt_load_collectives", neff, ctypes.c_size_t(len(neff)), self.rank, -1,
                          self.rank, len(self.job["neffs"]), ctypes.byref(self.model))
        for kind in ("inputs", "outputs"):
            made = ctypes.c_void_p()
            self.runtime.call("nrt_allocate_tensor_set", ctypes.byref(made))
            self.sets[kind] = made
            for name, size in self.job[kind].items():
                self.tensors[name] = self.tensor(made, name, size)
        for name, size in self.job["inputs"].items():
            data = pathlib.Path(f"{name}.{self.rank}").read_bytes()
            self.runtime.call("nrt_tensor_write", self.tensors[name], data, ctypes.c_size_t(0),
                              ctypes.c_size_t(size))

    def tensor(self, into, name, size):
        tensor = ctypes.c_void_p()
        self.runtime.call("nrt_tensor_allocate", 0, self.rank, ctypes.c_size_t(size),
                          name.encode(), ctypes.byref(tensor))
        self.runtime.call("nrt_add_tensor_to_tensor_set", into, name.encode(), tensor)
        return tensor

    def run(self):
        try:
            for _ in range(self.job["executions"]):
                self.runtime.call("nrt_execute", self.model, self.sets["inputs"],
                                  self.sets["outputs"])
            for name, size in self.job["outputs"].items():
                data = ctypes.create_string_buffer(size)
                self.runtime.call("nrt_tensor_read", self.tensors[name], data, ctypes.c_size_t(0),
                                  ctypes.c_size_t(size))
                pathlib.Path(f"{name}.{self.rank}").write_bytes(data.raw)
        except RuntimeError as error:
            self.error = error


def spans(events, ranks):
    """By rank: {stream, operation, algorithm, start, stop} in the order of the starts."""
    found = {}
    for event in events:
        if event["event_type"] != "cc_running":
            continue
        data = event["data"]
        key = (event["nc_idx"], data["exec_id"], data["stream"], data["op_index"])
        span = found.setdefault(key, {"stream": data["stream"], "operation": data["operation"],
                                      "algorithm": data["algorithm"]})
        span[event["phase"]] = data["nc_timestamp_ps"]
    lists = [[] for _ in range(ranks)]
    for key, span in found.items():
        lists[key[0]].append(span)
    return [sorted(each, key=lambda span: span["start"]) for each in lists]


def rings():
    device = pathlib.Path("/sys/devices/virtual/neuron_device/neuron0")
    return sum(int((core / RINGS).read_text()) for core in device.glob("neuron_core*"))


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    runtime = Runtime(job["library"])
    runtime.call("nrt_init", NO_FRAMEWORK, b"", b"")
    runtime.start_trace()
    ranks = [Rank(runtime, job, r) for r in range(len(job["neffs"]))]
    for rank in ranks:
        rank.load()
    threads = [threading.Thread(target=rank.run) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in ranks:
        if rank.error is not None:
            raise rank.error
    print(json.dumps({"spans": spans(runtime.events(), len(ranks)),
                      "rings": rings() if job["rings"] else None}))
    runtime.nrt.nrt_close()


if __name__ == "__main__":
    main()
