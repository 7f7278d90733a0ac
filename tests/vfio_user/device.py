"""A driver of one Neuron device, written from the hardware interface specification alone. Section
numbers are those of that document."""
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from mailbox_message import message  # noqa: E402

HBM_RESERVED = 16 << 20  # 2.6: the first 16 MiB of a stack are the firmware's


class Generation:
    """2.3 to 2.5: what differs."""

    def __init__(self, name, qemu=False):
        self.name, self.qemu = name, qemu
        self.v2 = name == "v2"
        self.window = 1 << 44 if self.v2 else 1 << 46
        self.registers = 2 if self.v2 and qemu else 0  # 1.2: the register BAR
        self.bar_sizes = {self.registers: 1 << 30, 4: 32 << 30} if self.v2 else {0: 4 << 30, 4: 256 << 30}
        if qemu and not self.v2:
            self.bar_sizes[2] = 4 << 30  # 1.2: some releases look here, some there
        self.device_ids = {"v2": (0x7164, 0x7264), "v3": (0x7364,), "v4": (0x7564, 0x7565)}[name]
        self.misc = 0x30FA_0000 if self.v2 else 0x06C8_4000
        self.misc_device = 0x0FFF_F0FA_0000 if self.v2 else 0x0080_06C8_4000
        self.hbm = [0, 0x10_0000_0000] if self.v2 else [0, 0x40_0000_0000, 0x8000_0000_0000, 0x8040_0000_0000]
        self.hbm_bar = [0, 0x4_0000_0000] if self.v2 else [n << 36 for n in range(4)]
        self.h2t = 32 if self.v2 else 128
        # 2.3, 2.4: NC 1 on v2, NC 2 on v3 and v4
        self.semaphores = 0x0670_0000 if self.v2 else 0xDA70_0000
        self.semaphores_device = 0x0FFF_C670_0000 if self.v2 else 0x0060_0270_0000
        self.notifications = 0x3053_5000 if self.v2 else 0x0600_1000
        self.qemu_reset = 0x3064_7010 if self.v2 else 0x0630_0010  # 8.5
        self.init_values = self.v2_values() if self.v2 else self.v3_values()

    def set_bar4(self, size):
        """1.2: with the QEMU revision a stack of v3 and v4 is a quarter of BAR4."""
        if self.qemu and not self.v2:
            assert size & size - 1 == 0
            self.bar_sizes[4] = size
            self.hbm_bar = [n * size // 4 for n in range(4)]

    @staticmethod
    def v2_values():
        return {0x310: 0x0100_0400, 0x124: 0x86F, 0x20124: 0x0040_0008}

    @staticmethod
    def v3_values():
        return {0x310: 0x0100_08F8, 0x124: 0x2080_8080, 0x20124: 0x0040_0080}

    def unit(self, engine):
        """BAR0 offsets of UDMA, SDMA and error-trigger block of an engine."""
        if self.v2:
            apb = 0x3000_0000
            if engine < 16:
                return apb + engine * 0x4_0000, apb + 0x40_0000 + engine * 0x7000, None
            if engine < 32:
                return apb + 0x70_0000 + (engine - 16) * 0x4_0000, apb + 0xB0_0000 + (engine - 16) * 0x7000, None
            base = apb + (0x60_0000, 0xD0_0000)[engine - 32]
            return base, base + 0x4_0000, None
        if engine >= 128:
            base = (0x0680_0000, 0x0690_0000, 0x4680_0000, 0x4690_0000)[engine - 128]
            return base, base + 0x4_0000, None
        seng, w = divmod(engine, 32)
        window = 0x8000_0000 + seng * 0x1000_0000
        base = window + (0x0200_0000, 0x0400_0000)[seng % 2] + w * 0x10_0000
        return base, base + 0x4_0000, window + (0x0C00_0000, 0x0C40_0000)[seng % 2] + w * 0x2_0000


class Device:
    """Registers, reset, engines and mailbox over a vfio-user client."""

    def __init__(self, client, generation):
        self.client, self.gen = client, generation

    def read(self, offset):
        return struct.unpack("<I", self.client.read(self.gen.registers, offset, 4))[0]

    def write(self, offset, value):
        self.client.write_quietly(self.gen.registers, offset, struct.pack("<I", value & 0xFFFF_FFFF))

    def wait(self, condition, what, seconds=10):
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"no {what} within {seconds} s"
            self.client.idle()
            time.sleep(0.0005)

    def host(self, physical):
        return physical | self.gen.window  # 2.2

    def read_ready(self, offset):
        """7.3: the non-operational read."""
        value = [0xDEAD_BEEF]

        def ready():
            value[0] = self.read(offset)
            return value[0] != 0xDEAD_BEEF
        self.wait(ready, f"answer from {offset:#x}")
        return value[0]

    def device_reset(self):
        """8.1, 8.2; 8.5 with the QEMU revision"""
        misc = self.gen.misc
        if self.gen.qemu:
            self.write(self.gen.qemu_reset, 1 if self.gen.v2 else 0xFFFF_FFFF)
            if not self.gen.v2:
                self.wait(lambda: self.read(self.gen.qemu_reset) == 0, "end of the reset")
                return
        self.write(misc + 0x1EC, 1)
        self.write(misc + 0x800, 1)
        self.wait(lambda: self.read_ready(misc + 0x1EC) == 0, "reset acknowledge")
        if self.gen.qemu:
            self.wait(lambda: self.read(self.gen.qemu_reset) == 0, "end of the reset")
            return
        assert self.read_ready(misc + 0x808) & 8 == 0, "busy after the reset"

    def init_engine(self, engine, first=True):
        """3.10"""
        u, s, f = self.gen.unit(engine)
        v2, values, w = self.gen.v2, self.gen.init_values, self.write
        if v2 and engine < 32:
            e = engine % 16
            w(s + 0x100, 0xFFFF >> e)
            w(s + 0x104, 0xFFFF if e in (0, 3, 6, 9, 15) else 0)
        for q in range(16):
            w(u + 0x1020 + q * 0x1000, 0x0003_0000 if first else 0x0303_0000)
            w(u + 0x21020 + q * 0x1000, 0x0003_0000 if first else 0x0303_0000)
        for offset, value in ((0x310, values[0x310]), (0x124, values[0x124]), (0x3A300, 100_000_000), (0x408, 0),
                              (0x254, 0x010F_FFFF), (0x258, 0x102)):
            w(u + offset, value)
        for q in range(16):
            w(u + 0x3C400 + q * 0x40, 0xFFFF_FFFF)
        w(u + 0x118, 0x0001_0008)
        w(u + 0x2038C, 0)
        for q in range(16):
            for offset in (0x3C404, 0x3C408, 0x3C40C):
                w(u + offset + q * 0x40, 0xFFFF_FFFF)
        w(u + 0x20124, values[0x20124])
        w(u + 0x20128, 0x4080_4080)
        if self.gen.name == "v4":
            w(u + 0x2012C, self.read(u + 0x2012C) & ~0x3FF | 0x100)
        w(u + 0x3B460, self.read(u + 0x3B460) & ~1)
        for offset, value in ((0x3A028, 0x28), (0x380E8, 0x28), (0x3A030, 0xF000_0000), (0x3A0B0, 0xFFFF_FFC0),
                              (0x3A018, 0xF000_0000), (0x3A098, 0xFFFF_FFC0), (0x380D8, 0xFFFF_FAFF),
                              (0x3A068, 0x28), (0x380E8, 0x28), (0x3A070, 0x10F8), (0x3A0B0, 0xFFFF_F03F),
                              (0x3A058, 0x10F8), (0x3A098, 0xFFFF_F03F), (0x380D8, 0xFFFF_F9FF),
                              (0x20380, 0x1004), (0x304, 0x0001_0041), (0x308, 0x4181), (0x20308, 0x4181),
                              (0x11C, 0x0001_0008), (0x2011C, 0x0001_0008)):
            w(u + offset, value)
        for offset in (0x1C, 0x20, 0x00):
            w(s + offset, 1)
        if v2:
            self.init_v2_errors(u)
        else:
            w(s + 0x800, 0x26)
        if f is not None:
            for place, also, bit in ((u + 0x3A010, u + 0x3A030, 0x2_0000), (u + 0x3A050, u + 0x3A070, 0x800),
                                     (f + 0x90, None, 0x800), (f + 0xD0, None, 4), (u + 0x20C, None, 0x2_0000),
                                     (u + 0x2020C, None, 0x800)):
                value = self.read(place) | bit
                w(place, value)
                if also is not None:
                    w(also, value)

    def init_v2_errors(self, u):
        """3.10 step 27"""
        for t in range(6):
            for word in (1, 2, 3, 9, 10, 11):
                self.write(u + 0x3A900 + t * 0x40 + word * 4, 0xF)
        for t in range(6):
            for q in range(16):
                self.write(u + 0x3AB00 + t * 8, q << 3 | 7)
                self.write(u + 0x3AB04 + t * 8, 0x10)
        for group in (0x3AD00, 0x3AE00, 0x3AF00, 0x3B000, 0x3B100, 0x3B200):
            for offset, value in ((0x28, 0x28), (0x30, 0), (0x18, 0)):
                self.write(u + group + offset, value)
        self.write(u + 0x3A300, 0xFFFF_FFFF)

    def mailbox(self, command, payload, request, response, memory, sequence):
        """7.5; the payload of the response."""
        misc, req, resp = self.gen.misc, self.host(request), self.host(response)
        self.write(misc + 0x1F4, req)
        self.write(misc + 0x1F0, req >> 32)
        self.write(misc + 0x1FC, resp)
        self.write(misc + 0x1F8, resp >> 32)
        memory.write(request, message(sequence, command, payload))
        memory.write(response, bytes(1))
        self.write(misc + 0x800, 1)
        self.wait(lambda: memory.read(response, 1)[0] == sequence, "mailbox response")
        _, error, size = struct.unpack("<BBH", memory.read(response, 4))
        assert error == 0, f"mailbox error {error}"
        return memory.read(response + 4, size - 4)


class Queue:
    """One DMA queue with rings and a completion word in host memory (spec/hw-registers.md 3.5, 3.6,
    3.11, 3.12)."""

    MARK = 0xABCD_EF01

    def __init__(self, device, engine, number, length, memory):
        self.device, self.memory, self.length = device, memory, length
        self.unit = device.gen.unit(engine)[0] + number * 0x1000
        self.tx, self.rx = memory.take(16 * length), memory.take(16 * length)
        self.mark = memory.take(8, 64)
        memory.write(self.mark, struct.pack("<II", self.MARK, 0))
        self.tail, self.ring_id, self.posted, self.laps = 0, 1, 0, 0
        self.init()

    def init(self):
        m2s, s2m, w = self.unit + 0x1000, self.unit + 0x21000, self.device.write
        w(m2s + 0x74, 3)
        for half, ring, reset, completion in ((m2s, self.tx, 0xB0, 0xA0), (s2m, self.rx, 0x64, 0x54)):
            base = self.device.host(ring)
            w(half + 0x20, 0x0300_0000)
            w(half + reset, 0x100)
            w(half + 0x28, base)
            w(half + 0x2C, base >> 32)
            w(half + 0x30, self.length)
            w(half + completion, 0)
            w(half + 0x20, 0x0303_0000)
        self.tail, self.ring_id, self.posted = 0, 1, 0

    def post(self, source, target, size, barrier=False, dmb=False):
        word0 = size & 0xFFFF | self.ring_id << 24  # 65536 is written as 0
        first_last = 3 << 26
        operation = 0x0508_0003 if barrier else 0x0108_0003
        at = 16 * self.tail
        self.memory.write(self.tx + at, struct.pack("<IIQ", word0 | first_last | (dmb << 30), operation, source))
        self.memory.write(self.rx + at, struct.pack("<IIQ", word0, 0, target))
        self.posted += 1
        self.tail += 1
        if self.tail == self.length:
            self.tail, self.ring_id, self.laps = 0, (self.ring_id + 1) % 4, self.laps + 1

    def ring(self):
        """Doorbells, S2M first."""
        self.device.write(self.unit + 0x21038, self.posted)
        self.device.write(self.unit + 0x1038, self.posted)
        self.posted = 0

    def finish(self):
        """Posts the completion marker after what has been posted, and waits for it."""
        self.memory.write(self.mark + 4, bytes(4))
        self.post(self.device.host(self.mark), self.device.host(self.mark + 4), 4)
        self.ring()
        self.device.wait(lambda: self.memory.word(self.mark + 4) == self.MARK, "completion marker")

    def copy(self, source, target, size, chunk=65536):
        """Descriptors of `chunk` bytes, the last of a batch with a write barrier."""
        done = 0
        while done < size:
            batch = min(-(-(size - done) // chunk), self.length - 2)
            for i in range(batch):
                n = min(chunk, size - done)
                self.post(source + done, target + done, n, barrier=i == batch - 1)
                done += n
            self.finish()

    def pointers(self):
        """Head and tail of both halves: (index, ring id)."""
        result = []
        for half in (0x1000, 0x21000):
            for register in (0x34, 0x3C):
                value = self.device.read(self.unit + half + register)
                result.append((value & 0xFF_FFFF, value >> 30))
        return result
