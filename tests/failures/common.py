"""What the failure tests share: machines that cannot outlive a test, and damaged or hanging NEFFs.

Everything goes through public seams: the commands, NEFF files, the environment of the runtime.
"""
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
PARTITION_PITCH = 0x40000  # bytes of the state buffer's address space per partition
HEADER_BYTES = 1024        # spec/neff.md 1.2
PATIENCE = 300             # seconds after which a run is killed and the test fails


def tool(name):
    return str(BIN / name)


class Ended:
    """Exit code and output of a command that has ended."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def entries(directory):
    """What is in a directory of /proc now; nothing when its process has ended meanwhile."""
    try:
        return [f"{directory}/{name}" for name in os.listdir(directory)]
    except OSError:
        return []


def descendants(pid):
    found = []
    for task in entries(f"/proc/{pid}/task"):
        try:
            children = pathlib.Path(f"{task}/children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += [int(child)] + descendants(int(child))
    return found


def kill_family(process):
    """Kills a process and everything that it started; the list must be made while it lives."""
    family = descendants(process.pid)
    process.kill()
    for pid in family:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class FailureTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="ft"))
        self.runtime = self.directory / "run"
        self.runtime.mkdir()
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=str(self.runtime))
        for name in [n for n in self.environment if n.startswith("NEURON_")]:
            del self.environment[name]

    def start(self, *command, **variables):
        """A process whose whole family dies with the test."""
        process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                   errors="replace", start_new_session=True,
                                   env=dict(self.environment, **variables))
        self.addCleanup(self.reap, process)
        return process

    @staticmethod
    def reap(process):
        if process.poll() is None:
            kill_family(process)
            process.communicate()
        for pipe in (process.stdout, process.stderr):
            pipe.close()

    def finish(self, process, patience=PATIENCE):
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            kill_family(process)
            out, err = process.communicate()
            self.fail(f"{process.args} did not end within {patience} s\n{out}\n{err}")
        return Ended(process.returncode, out, err)

    def command(self, *command, patience=PATIENCE, **variables):
        return self.finish(self.start(*command, **variables), patience)

    def run_in_machine(self, *command, patience=PATIENCE, options=(), **variables):
        return self.command(tool("soma"), "run", *options, "--", *command, patience=patience,
                            **variables)

    def up(self, name="f", *options):
        result = self.command(tool("soma"), "up", "--name", name, *options)
        self.assertEqual(result.code, 0, result)
        self.addCleanup(self.take_down, name)
        return self.machine_pid(name)

    def machine_pid(self, name="f"):
        """The machine is the process that holds its directory's lock open."""
        lock = str(self.runtime / f"soma-{os.getuid()}-up-{name}" / "lock")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for link in entries(f"/proc/{pid}/fd"):
                try:
                    if os.readlink(link) == lock:
                        return int(pid)
                except OSError:
                    continue
        self.fail("no process holds the machine's lock")

    def wait_for_work(self, machine, seconds=0.4):
        """Until the machine has simulated for so long, which loading alone does not take."""
        def used():
            fields = pathlib.Path(f"/proc/{machine}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        begin = used()
        self.wait_until(lambda: used() >= begin + seconds, "the machine works")

    def exec(self, *command, name="f", patience=PATIENCE, **variables):
        return self.command(tool("soma"), "exec", "--name", name, "--", *command,
                            patience=patience, **variables)

    def take_down(self, name="f"):
        try:
            pid = self.machine_pid(name)
        except AssertionError:
            return
        self.command(tool("soma"), "down", "--name", name)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def assert_nothing_left(self):
        self.assertEqual(os.listdir(self.runtime), [])

    def assert_lines(self, text, *words):
        """One line of `text` has all the words."""
        for line in text.splitlines():
            if all(word in line for word in words):
                return
        self.fail(f"no line with {words} in:\n{text}")

    def wait_until(self, condition, what, patience=PATIENCE):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.01)
        self.fail(f"within {patience} s: {what}")

    def pack(self, name, programs, transfers=(), **changes):
        """A NEFF from engine programs {engine: text}; `transfers` are the sp engine's dma."""
        return pack(self.directory, name, programs, transfers, **changes)


def copy(source, destination, nbytes=256, partitions=128, source_off=0, destination_off=0):
    def side(name, offset):
        step = PARTITION_PITCH if name == "SB" else nbytes
        return offset, [nbytes, partitions], [1, step]
    result = {"op": "copy"}
    for key, name, offset in (("from", source, source_off), ("to", destination, destination_off)):
        result[key] = name
        result[f"{key}_off"], result[f"{key}_sizes"], result[f"{key}_steps"] = side(name, offset)
    return result


IN = "qSyncIn0"
OUT = "qSyncOut0"
VECTOR_ADD_TRANSFERS = (
    {"id": 1, "queue": IN, "semaphore": 10, "desc": [copy("a", "SB")]},
    {"id": 2, "queue": IN, "semaphore": 10, "desc": [copy("b", "SB", destination_off=256)]},
    {"id": 3, "queue": OUT, "semaphore": 11, "desc": [copy("SB", "c", source_off=512)]})
VECTOR_ADD = {
    "sp": f"""PSEUDO_DMA_TRIGGER {IN} block_id=1
PSEUDO_DMA_TRIGGER {IN} block_id=2
PSEUDO_DMA_TRIGGER $S[20]>=1 {OUT} block_id=3
EVENT_SEMAPHORE $S[11]>=16
HALT""",
    "dve": """TENSOR_TENSOR $S[10]>=32 $S[20]++@complete op=ADD
    dst=fp32@512[1][64] src0=fp32@0[1][64] src1=fp32@256[1][64] partitions=0..127
HALT"""}


def pack(directory, name, programs, transfers=(), **changes):
    root = directory / f"{name}.members"
    graph = root / "sg00"
    graph.mkdir(parents=True)
    tensors = {n: {"type": kind, "var_id": i, "size": 32768, "x_dtype": "float32",
                   "x_shape": [128, 64]}
               for i, (n, kind) in enumerate((("a", "input"), ("b", "input"), ("c", "output")), 1)}
    queues = {IN: {"type": "in", "num_queues": 16, "owner": "sp", "semaphore": 10},
              OUT: {"type": "out", "num_queues": 16, "owner": "sp", "semaphore": 11}}
    definition = {"name": "definition", "x_arch": "trn1", "dma_queue": queues,
                  "var": {"SB": {"type": "state-buffer", "var_id": 0,
                                 "size": 128 * PARTITION_PITCH}, **tensors}}
    for engine, text in programs.items():
        definition[engine] = f"{engine}.json"
        definition[f"{engine}_instr"] = f"{engine}.bin"
        dma = list(transfers) if engine == "sp" else []
        (graph / f"{engine}.json").write_text(json.dumps({"instr": [], "dma": dma}))
        (graph / f"{engine}.s").write_text(f".engine {engine}\n.arch trn1\n{text}\n")
    definition.update(changes)
    (graph / "def.json").write_text(json.dumps(definition))
    (root / "kelf-0.json").write_text(json.dumps({"graphs": [{"definition": "sg00/def.json"}]}))
    (root / "neff.json").write_text(json.dumps({"x_format": "emu-neff-graph"}))
    (root / "info.json").write_text("{}")
    path = directory / f"{name}.neff"
    subprocess.run([tool("neff"), "pack", root, "-o", path], check=True, timeout=PATIENCE,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def with_payload(good, payload):
    """The header of `good` before another payload, size and hash right."""
    header = bytearray(good[:HEADER_BYTES])
    struct.pack_into("<Q", header, 0x10, len(payload))
    header[0xAC:0xAC + 32] = hashlib.md5(payload).digest() + bytes(16)
    return bytes(header) + payload


def archive(members):
    """A tar of (name, bytes or TarInfo changes)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            data = b""
            if isinstance(content, dict):
                for key, value in content.items():
                    setattr(info, key, value)
            else:
                data = content
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def main():
    # A shell without job control lets its background commands ignore it, and so would ours.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(verbosity=2)
