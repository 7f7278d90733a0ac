"""A guest whose processor stands still (-S): QEMU's test protocol makes its accesses. It
plays firmware and driver by spec/hw-registers.md alone."""
import json
import os
import socket
import struct
import subprocess
import time

DEVFN = 2 << 3  # the first free slot of machine type pc
BAR0, BAR2, BAR4 = 0x80000000, 0x80000000, 0xC0000000
MISC = 0x30FA0000
HOST = 1 << 44
HBM1 = 0x1000000000
ENGINE = 0x30600000  # v2, host copies of NC 0
RING = 64
TX, RX, MARKER, DATA = 0x100000, 0x104000, 0x108000, 0x200000
FIRST_LAST = 3 << 26
COPY, BARRIER = 0x01080003, 1 << 26


class Guest:
    def __init__(self, tool, directory, *options, qemu=(), environment=None):
        qmp = os.path.join(directory, "qmp")
        self.process = subprocess.Popen(
            [tool, "qemu", *options, "--", "-S", "-qtest", "stdio", "-qtest-log",
             "none", "-nodefaults", "-display", "none", "-qmp", f"unix:{qmp},server,nowait",
             *qemu],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment)
        self.bar0 = BAR0
        self.index = 0
        self.qmp = qmp

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer or answer[0] != "OK":
            raise AssertionError(f"{line}: {answer}")
        return int(answer[1], 16) if len(answer) > 1 else None

    def end(self, timeout=120):
        """Exit status and what was said on stderr."""
        output, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, output + errors

    def monitor(self, command):
        with socket.socket(socket.AF_UNIX) as qmp:
            for _ in range(500):
                try:
                    qmp.connect(self.qmp)
                    break
                except OSError:
                    time.sleep(0.01)
            stream = qmp.makefile("rw")
            stream.readline()
            for each in ("qmp_capabilities", command):
                stream.write(json.dumps({"execute": each}) + "\n")
                stream.flush()
                while "return" not in (answer := json.loads(stream.readline())):
                    if "error" in answer:
                        raise AssertionError(answer)

    # Configuration space through the host bridge of machine type pc.
    def config(self, offset, value=None, size=4):
        self.ask(f"outl 0xcf8 {0x80000000 | DEVFN << 8 | offset & ~3:#x}")
        letter = {1: "b", 2: "w", 4: "l"}[size]
        port = 0xCFC + offset % 4
        if value is None:
            return self.ask(f"in{letter} {port:#x}")
        return self.ask(f"out{letter} {port:#x} {value:#x}")

    def bar_size(self, bar):
        self.config(0x10 + 4 * bar, 0xFFFFFFFF)
        return -(self.config(0x10 + 4 * bar) & ~0xF) & 0xFFFFFFFF

    def boot(self, register_bar=0):
        self.config(0x10 + 4 * register_bar, BAR0)
        self.config(0x20, BAR4)
        self.config(0x04, 6, 2)

    def get(self, offset):
        return self.ask(f"readl {self.bar0 + offset:#x}")

    def put(self, offset, value):
        self.ask(f"writel {self.bar0 + offset:#x} {value:#x}")

    def write(self, address, data):
        self.ask(f"write {address:#x} {len(data):#x} 0x{data.hex()}")

    def read(self, address, size):
        self.process.stdin.write(f"read {address:#x} {size:#x}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer[0] == "OK", answer
        return bytes.fromhex(answer[1][2:])

    def wait(self, done, seconds=20):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                return False
        return True

    # spec/hw-registers.md 8
    def reset_device(self):
        self.put(MISC + 0x1EC, 1)
        self.put(MISC + 0x800, 1)
        return self.wait(lambda: self.get(MISC + 0x1EC) == 0) and not self.get(MISC + 0x808) & 8

    # spec/hw-registers.md 3.10, 3.11
    def set_up_queue(self):
        self.index = 0
        self.put(ENGINE + 0x254, 0x010FFFFF)  # a length of 0 means 64 KiB
        for half, ring, control in ((0x1000, TX, 0xB0), (0x21000, RX, 0x64)):
            q = ENGINE + half
            self.put(q + 0x20, 0x03000000)
            self.put(q + control, 0x100)
            self.put(q + 0x28, ring)
            self.put(q + 0x2C, HOST >> 32)
            self.put(q + 0x30, RING)
            self.put(q + 0x20, 0x03030000)

    def push(self, to, source, size, barrier=0):
        ring_id = (1 + self.index // RING) & 3
        at = 16 * (self.index % RING)
        word = size & 0xFFFF | ring_id << 24
        self.write(TX + at, struct.pack("<IIQ", word | FIRST_LAST, COPY | barrier, source))
        self.write(RX + at, struct.pack("<IIQ", word, 0, to))
        self.index += 1

    # spec/hw-registers.md 3.12
    def copy(self, to, source, size):
        self.write(MARKER, struct.pack("<II", 0xABCDEF01, 0))
        n = 1
        while size > 65536:
            self.push(to, source, 65536)
            to, source, size, n = to + 65536, source + 65536, size - 65536, n + 1
        self.push(to, source, size, BARRIER)
        self.push(HOST | MARKER + 4, HOST | MARKER, 4)
        self.put(ENGINE + 0x21038, n + 1)
        self.put(ENGINE + 0x1038, n + 1)
        return self.wait(lambda: self.ask(f"readl {MARKER + 4:#x}") == 0xABCDEF01)
