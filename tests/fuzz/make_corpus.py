#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets of the machine's interfaces, from the sequences of
hw-registers.md 3, 5, 7, 8 and 10: python3 tests/fuzz/make_corpus.py tests/fuzz/corpus

The formats are those that the targets read: see the head of register_fuzz.cpp and
descriptor_fuzz.cpp. A seed reaches a deep state; the fuzzer bends it.
"""
import struct
import sys
from pathlib import Path

V2, V3, V4 = 0, 1, 2

# ---- registers -------------------------------------------------------------------------------

UDMA, SDMA, ERRTRIG, TRACE_NQ, NC_NQ, TOPSP_NQ = 0, 2, 3, 4, 5, 6
SEMAPHORES, ENGINE, TOPSP, CC, MISC, SPECIAL, BROADCAST, CORE, HBM = 7, 8, 9, 10, 11, 12, 13, 14, 15
SIZES = [4, 4, 4, 4, 4, 0, 8, 1, 2, 3, 5, 7, 12, 16, 64, 320]
S2M = 0x20000
QUEUE = 0x1000
H2T = {V2: 32, V3: 128, V4: 128}


class Registers:
    """One input of fuzz_register."""

    def __init__(self, chip):
        self.chip = chip
        self.data = b''

    def step(self, action, where=0, index=0, shape=0, offset=0, value=0, payload=b''):
        self.data += struct.pack('<BBBBII', action | self.chip << 4, where, index, shape,
                                 offset & 0xFFFFFFFF, value & 0xFFFFFFFF) + payload
        return self

    def write(self, where, index, offset, value):
        return self.step(0, where, index, 0, offset, value)

    def write_bytes(self, where, index, offset, payload):
        shape = SIZES.index(len(payload))
        if shape in (0, 7, 8, 9):
            return self.step(0, where, index, shape | 0x40, offset,
                             int.from_bytes(payload, 'little'))
        return self.step(0, where, index, shape | 0x40, offset, 0, payload)

    def read(self, where, index, offset, shape=0):
        return self.step(5, where, index, shape | 0x40, offset)

    def config_read(self, offset, shape=2):
        return self.step(10, 0, 0, shape, offset)

    def config_write(self, offset, value, shape=2):
        return self.step(10, 1, 0, shape, offset, value)

    def run(self, ns=5000):
        return self.step(15, offset=ns)

    def reset(self, request, reset_map=0):
        return self.step(13, offset=reset_map, value=request)

    def map_bar(self, where, index, offset, length):
        return self.step(11, where, index, 0, offset, length)

    def guest(self, piece, offset, payload):
        """Stores into guest memory, 16 bytes at a time."""
        for k in range(0, len(payload), 16):
            part = payload[k:k + 16].ljust(16, b'\0')
            self.step(12, piece, 0, 13, offset + k, 0, part)
        return self


def host_high(chip):
    return 0x1000 if chip == V2 else 0x4000


def tx(length, high, low, ring=1, flags=0xC, operation=0x01080003):
    return struct.pack('<IIQ', length | ring << 24 | flags << 24, operation, high << 32 | low)


def rx(length, high, low, ring=1, flags=0):
    return struct.pack('<IIQ', length | ring << 24 | flags, 0, high << 32 | low)


def probe(chip):
    s = Registers(chip)
    for offset in range(0, 64, 4):
        s.config_read(offset)
    for bar in (0x10, 0x14, 0x20, 0x24):
        s.config_write(bar, 0xFFFFFFFF).config_read(bar)
    s.config_write(4, 6, 1)
    for word in (0x24, 0x00, 0x38, 0x3C, 0x54, 0x58, 0x1EC, 0x808):
        s.read(MISC, 0, word)
    s.map_bar(SEMAPHORES, 0, 0, 0x2000).map_bar(TOPSP, 1, 0, 0x400000).map_bar(HBM, 0, 0, 0x10000)
    s.map_bar(MISC, 0, 0, 0x1000)
    return s


def resets(chip):
    s = Registers(chip)
    s.write(MISC, 0, 0x190, 0x00FF0003)
    s.reset(1).run(500).read(MISC, 0, 0x808).reset(2, 0x00010101).reset(1).run(5000)
    s.read(MISC, 0, 0x1EC).read(MISC, 0, 0x808).reset(2, 0x3802).run(20000)
    s.write(SPECIAL, 0, 0, 1).run(3000).read(SPECIAL, 0, 0)
    s.write(SPECIAL, 0, 0, 0xFFFFFFFF).run(3000).read(SPECIAL, 0, 0)
    return s


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def request(sequence, command, payload):
    head = struct.pack('<BBH', sequence, command, 8 + len(payload))
    return head + struct.pack('<I', crc32c(head + bytes(4) + payload)) + payload


def mailbox(chip, payload, command=1, response=(None, 0x3000)):
    s = Registers(chip)
    high = host_high(chip)
    s.guest(0, 0x2000, request(2, command, payload))
    s.write(MISC, 0, 0x1F4, 0x2000).write(MISC, 0, 0x1F0, high)
    s.write(MISC, 0, 0x1FC, response[1])
    s.write(MISC, 0, 0x1F8, high if response[0] is None else response[0])
    return s.write(MISC, 0, 0x800, 1).run(2000)


MISC_DEVICE = {V2: (0x0FFF, 0xF0FA0000), V3: (0x0080, 0x06C84000), V4: (0x0080, 0x06C84000)}


def mailboxes(chip):
    high, low = MISC_DEVICE[chip]
    word = lambda offset: struct.pack('<Q', high << 32 | low + offset)
    yield 'read', mailbox(chip, word(0x24) + word(0x38) + word(0x3C))
    yield 'metric', mailbox(chip, bytes(range(40)), 2)
    yield 'unknown', mailbox(chip, b'', 7)
    # Answers that land on the trigger and on the reset request: a word that reads 1.
    yield 'self', mailbox(chip, word(0x1D8) + word(0x1D8), 1, (high, low + 0x800 - 4)).write(
        MISC, 0, 0x1D8, 1).write(MISC, 0, 0x800, 1)
    yield 'reset', mailbox(chip, word(0x1D8) * 2, 1, (high, low + 0x1EC - 4)).write(
        MISC, 0, 0x1D8, 1).write(MISC, 0, 0x800, 1).write(MISC, 0, 0x800, 1).run(9000)


def new_mailbox(chip, command, payload):
    s = Registers(chip)
    s.read(MISC, 0, 0)
    for k in range(0, len(payload), 4):
        s.write(MISC, 0, 0x100 + k, int.from_bytes(payload[k:k + 4], 'little'))
    message = request(2, command, payload)
    s.write(MISC, 0, 0x1F0, int.from_bytes(message[:4], 'little'))
    s.write(MISC, 0, 0x1F4, int.from_bytes(message[4:8], 'little'))
    s.write(MISC, 0, 0x1F8, 0).write(MISC, 0, 0x1FC, 0)
    s.write(MISC, 0, 0xF0, 1).write(MISC, 0, 0x800, 1).run(2000)
    for offset in (0x800, 0x1F0, 0x100, 0x104, 0x108):
        s.read(MISC, 0, offset)
    return s


def engine_init(chip, e):
    """hw-registers.md 3.10 without the repetitions over queues."""
    s = Registers(chip)
    v2 = chip == V2
    if v2:
        s.write(SDMA, e, 0x100, 0xFFFF).write(SDMA, e, 0x104, 0xFFFF)
    for offset, value in ((0x1020, 0x30000), (0x21020, 0x30000),
                          (0x310, 0x1000400 if v2 else 0x10008F8),
                          (0x124, 0x86F if v2 else 0x20808080), (0x3A300, 100000000), (0x408, 0),
                          (0x254, 0x10FFFFF), (0x258, 0x102), (0x3C400, 0xFFFFFFFF),
                          (0x118, 0x10008), (0x2038C, 0), (0x3C404, 0xFFFFFFFF),
                          (0x20124, 0x400008), (0x20128, 0x40804080)):
        s.write(UDMA, e, offset, value)
    s.read(UDMA, e, 0x2012C).write(UDMA, e, 0x2012C, 0x100)
    s.read(UDMA, e, 0x3B460).write(UDMA, e, 0x3B460, 0)
    for offset, value in ((0x3A028, 0x28), (0x380E8, 0x28), (0x3A030, 0xF0000000),
                          (0x3A0B0, 0xFFFFFFC0), (0x3A018, 0xF0000000), (0x3A098, 0xFFFFFFC0),
                          (0x380D8, 0xFFFFFAFF), (0x3A068, 0x28), (0x3A070, 0x10F8),
                          (0x3A058, 0x10F8), (0x20380, 0x1004), (0x304, 0x10041), (0x308, 0x4181),
                          (0x20308, 0x4181), (0x11C, 0x10008), (0x2011C, 0x10008)):
        s.write(UDMA, e, offset, value)
    s.write(SDMA, e, 0x1C, 1).write(SDMA, e, 0x20, 1).write(SDMA, e, 0, 1)
    if v2:
        for offset, value in ((0x3A904, 0xF), (0x3AB00, 7), (0x3AB04, 0x10), (0x3AD28, 0x28),
                              (0x3AD30, 0), (0x3AD18, 0), (0x3B228, 0x28), (0x3A300, 0xFFFFFFFF)):
            s.write(UDMA, e, offset, value)
    else:
        s.write(SDMA, e, 0x800, 0x26)
        for offset, value in ((0x3A010, 0xF0020000), (0x3A030, 0xF0020000), (0x3A050, 0x18F8),
                              (0x3A070, 0x18F8), (0x20C, 0x20000), (0x2020C, 0x800)):
            s.read(UDMA, e, offset).write(UDMA, e, offset, value)
        s.read(ERRTRIG, e, 0x90).write(ERRTRIG, e, 0x90, 0x800)
        s.read(ERRTRIG, e, 0xD0).write(ERRTRIG, e, 0xD0, 4)
    return s


def queue_init(s, e, q, m2s, s2m, length):
    high = host_high(s.chip)
    base = QUEUE + q * 0x1000
    s.write(UDMA, e, base + 0x74, 3)
    for half, ring, control, completion in ((0, m2s, 0xB0, 0xA0), (S2M, s2m, 0x64, 0x54)):
        for offset, value in ((0x20, 0x3000000), (control, 0x100), (0x28, ring), (0x2C, high),
                              (0x30, length), (completion, 0), (0x20, 0x3030000)):
            s.write(UDMA, e, half + base + offset, value)
    return s


def copy(chip, e, q, descriptors, length=64, laps=1):
    """Rings in guest memory; `descriptors` are pairs (tx, rx)."""
    s = Registers(chip)
    queue_init(s, e, q, 0x4000, 0x5000, length)
    s.guest(0, 0x4000, b''.join(pair[0] for pair in descriptors))
    s.guest(0, 0x5000, b''.join(pair[1] for pair in descriptors))
    s.guest(0, 0x6000, bytes(range(16)))
    base = QUEUE + q * 0x1000
    for _ in range(laps):
        s.write(UDMA, e, S2M + base + 0x38, len(descriptors))
        s.write(UDMA, e, base + 0x38, len(descriptors))
        s.run(3000)
    for half in (0, S2M):
        for offset in (0x24, 0x30, 0x2C, 0x28, 0x48, 0x44, 0x34, 0x3C, 0x4C, 0x40):
            s.read(UDMA, e, half + base + offset)
    s.read(UDMA, e, 0x200).read(UDMA, e, 0x20200).read(UDMA, e, 0x20250)
    return s.run(9000)


def copies(chip):
    high = host_high(chip)
    e = H2T[chip]
    data = (tx(0x1000, high, 0x6000, operation=0x05080003), rx(0x1000, 0, 0x1000000))
    marker = (tx(4, high, 0x6000), rx(4, high, 0x6004))
    yield 'h2t', copy(chip, e, 0, [data, marker])
    semaphore = (0x0FFF, 0xC2701804) if chip == V2 else (0x20, 0x2701804)
    yield 'semaphore', copy(chip, 1, 3, [(tx(4, high, 0x6000), rx(4, *semaphore))])
    yield 'wrap', copy(chip, e, 1, [marker] * 3, 4, 3)
    yield 'error', copy(chip, 0, 15, [(tx(4, high, 0x6000, ring=2), rx(4, high, 0x6004))])
    misc = MISC_DEVICE[chip]
    yield 'trigger', copy(chip, 0, 2, [(tx(4, high, 0x7000), rx(4, misc[0], misc[1] + 0x1EC)),
                                       (tx(4, high, 0x7000), rx(4, misc[0], misc[1] + 0x800))]
                          ).guest(0, 0x7000, struct.pack('<I', 1))


def semaphores(chip):
    s = Registers(chip)
    for alias, value in ((0x1400, 7), (0x1800, 0xFFFFFFFF), (0x1C00, 3), (0x1000, 1), (0, 1)):
        s.write(SEMAPHORES, 1, alias + 4 * 9, value).read(SEMAPHORES, 1, 0x1000 + 4 * 9)
        s.write(CC, 0, alias + 4 * 255, value).read(CC, 0, alias + 4 * 255)
    s.write(SEMAPHORES, 0, 0x400, 1).read(SEMAPHORES, 0, 0x400).read(SEMAPHORES, 0, 0x1002, 8)
    s.write_bytes(SEMAPHORES, 0, 0x1400, bytes(range(16))).read(SEMAPHORES, 0, 0x1FF8, 13)
    return s


def record(op, imm=0, address=0, a=0, flags=0, b=0):
    return struct.pack('<BBBBIQ', op, a, flags, b, imm & 0xFFFFFFFF, address)


def cc_program(chip, t, records, entry=0):
    s = Registers(chip)
    high = host_high(chip)
    for set_offset, value in ((0x4, high), (0x0, 0x1000), (0x8, 0x100)):
        s.write(TOPSP_NQ, t, 0x100 + set_offset, value)
    code = b''.join(records)
    for k in range(0, len(code), 64):
        s.write_bytes(TOPSP, t, 0x10000 + k, code[k:k + 64].ljust(64, b'\0'))
    s.write(CC, t, 0x4000, entry).write(CC, t, 0x4004, 5)
    s.write(CC, t, 0x2004, 1).write(CC, t, 0x2000, 0).write(CC, t, 0x2000, 0).run(2000)
    for offset in range(0x2000, 0x2020, 4):
        s.read(CC, t, offset)
    s.read(TOPSP_NQ, t, 0x10C)
    s.write(CC, t, 0x2004, 2).run(500).write(CC, t, 0x2004, 4).run(500)
    return s


def cc_programs(chip):
    own = 0x0FFFD0000000 if chip == V2 else 0x8280000000
    misc = MISC_DEVICE[chip][0] << 32 | MISC_DEVICE[chip][1]
    yield 'calls', cc_program(chip, 0, [
        record(14, a=3), record(6, 4, a=1), record(7, 1, a=1), record(2, 2, own + 0x1800),
        record(1, 1, 0, flags=0x10), record(10, 77), record(9, 3, a=1), record(12, 1, misc + 0x30),
        record(13, 1, own + 0x1804)])
    yield 'loop', cc_program(chip, 0, [record(8, 0)])
    yield 'barrier', cc_program(chip, 0, [record(11, 2, own + 0x3000), record(13)]).write(
        CC, 1, 0x2004, 1).write(CC, 1, 0x2000, 0).run()
    yield 'doorbell', cc_program(chip, 1, [
        record(3, 0x00010001, 0x0FFFF0001000 if chip == V2 else 0x1002001000), record(13)])
    yield 'mailbox', cc_program(chip, 1, [
        record(12, 1, misc + 0x1EC), record(12, 1, misc + 0x800), record(13)])
    yield 'wild', cc_program(chip, 2, [
        record(2, 1, 0xFFFFFFFFFFFFFFFC), record(12, 5, 3), record(15)], 4095)


def instruction(opcode, operands=b'', wait=(0, 0, 0), updates=((0, 0, 0), (0, 0, 0)), flags=0):
    """A record of 64 bytes: header as arch/contract/isa.h unpacks it, operands from byte 32."""
    head = bytes([opcode, flags, 0, wait[0], wait[1], updates[0][0], updates[0][1], updates[1][0],
                  updates[1][1], 0, 0, 0])
    head += struct.pack('<IIIQ', wait[2], updates[0][2], updates[1][2], 0)
    return (head + operands).ljust(64, b'\0')


def engine_program(chip, engine, records):
    s = Registers(chip)
    high = host_high(chip)
    for set_offset, value in ((0x4, high), (0x0, 0x1000), (0x8, 0x40)):
        s.write(NC_NQ, 0, 0x100 + 0x28 * engine + set_offset, value)
    for k, each in enumerate(records):
        s.write_bytes(HBM, 0, 0x400 + 64 * k, each)
    index = engine * 8
    for offset, value in ((0x18, 0x400), (0x1C, 0), (0x20, len(records)), (0x24, 0x3F), (0x0, 1)):
        s.write(ENGINE, index, offset, value)
    s.run(1000).write(SEMAPHORES, index, 0x1800 + 4 * 3, 1).run(3000)
    for offset in (0x4, 0x8, 0xC, 0x10, 0x14, 0x100, 0xFFC):
        s.read(ENGINE, index, offset)
    return s.write(ENGINE, index, 0, 2).run(500).write(ENGINE, index, 0, 4)


def engine_programs(chip):
    semaphore = 0x0FFFC2701800 if chip == V2 else 0x2002701800
    store = struct.pack('<QQIIBB', semaphore + 4 * 9, 0, 1, 0, 4, 0)
    yield 'write', engine_program(chip, 0, [instruction(4, store), instruction(3)])
    yield 'wait', engine_program(chip, 3, [instruction(1, wait=(1, 3, 1), flags=1), instruction(3)])
    yield 'update', engine_program(chip, 4, [
        instruction(5, updates=((3, 9, 5), (5, 9, 7))), instruction(2), instruction(3)])
    yield 'bad', engine_program(chip, 1, [instruction(0xEE), instruction(3)])


def oddities(chip):
    s = Registers(chip)
    for shape in range(16):
        payload = bytes(k & 0xFF for k in range(SIZES[shape])) if SIZES[shape] > 4 else b''
        for action in (0, 5):
            for where, offset in ((UDMA, 0x1038), (HBM, 0xFFF), (MISC, 0x7FF)):
                step = payload if action == 0 else b''
                s.step(action, where, 200, shape | 0x40, offset, 0x01010101, step)
    return s


def scattered(chip):
    s = Registers(chip)
    for bar in range(6):
        for offset in (0, 0x3FFFFFFC, 0xFFFFFFFF):
            s.step(8, bar, 0, 0, offset, 1).step(9, bar, 3, 13, offset)
    for block, offset in ((BROADCAST, 0x1038), (BROADCAST, 0x21038), (TRACE_NQ, 0x108),
                          (CORE, 0x2000000), (CORE, 0x2FFFFF), (SPECIAL, 0)):
        s.write(block, 3, offset, 1).read(block, 3, offset)
    return s


def register_seeds():
    for chip, name in ((V2, 'v2'), (V3, 'v3'), (V4, 'v4')):
        yield f'probe_{name}', probe(chip)
        yield f'resets_{name}', resets(chip)
        yield f'odd_{name}', oddities(chip)
        yield f'scattered_{name}', scattered(chip)
        yield f'semaphores_{name}', semaphores(chip)
        yield f'engine_init_{name}', engine_init(chip, 0 if chip == V2 else 37)
        for kind, seed in mailboxes(chip):
            yield f'mailbox_{kind}_{name}', seed
        for kind, seed in copies(chip):
            yield f'copy_{kind}_{name}', seed
        for kind, seed in cc_programs(chip):
            yield f'cc_{kind}_{name}', seed
        for kind, seed in engine_programs(chip):
            yield f'engine_{kind}_{name}', seed
    for command, payload in ((3, bytes(8)), (4, b'\1'), (4, b'\2\5\0'), (4, b'\x10\1'), (5, b'\1')):
        yield f'new_mailbox_{command}_{len(payload)}_{payload[0]}', new_mailbox(V3, command, payload)


# ---- descriptors -----------------------------------------------------------------------------

GUEST, ACCESSOR, GUEST2, GUEST_END, HOST_END, HOST_ANY = 0, 1, 2, 3, 4, 5
HBM_P, HBM_ANY, HBM_END, SBUF, SBUF_END, PSUM = 6, 7, 8, 9, 10, 11
UNIT, DOORBELL, SEM_P, TOPSP_P, MISC_P, BROADCAST_P, NQ_P, ENGINE_P, SDMA_P, QEMU = range(12, 22)
PEER, HOLE, WRAP, LOW, NEIGHBOUR, RAW = range(22, 28)
NO_FIRST, NO_LAST, META, DMB, BARRIER, BAD_RING, W0, W1 = (1 << k for k in range(8))


class Descriptors:
    """One input of fuzz_descriptor."""

    def __init__(self, chip, engine=0):
        self.data = bytes([chip | engine << 6])

    def step(self, action, queue=0, place=0, flags=0, a=0, b=0):
        self.data += struct.pack('<BBBBIQ', action, queue, place, flags, a & 0xFFFFFFFF,
                                 b & 0xFFFFFFFFFFFFFFFF)
        return self

    def set_up(self, queue, length, place=GUEST, b=0x4000, flags=16):
        return self.step(0, queue, place, flags, length, b)

    def tx(self, queue, place, b, length, flags=0):
        return self.step(1, queue, place, flags, length, b)

    def source(self, queue, place, b, length, flags=NO_FIRST | NO_LAST):
        return self.step(2, queue, place, flags, length, b)

    def rx(self, queue, place, b, length, flags=0, count=1):
        return self.step(3, queue, place, flags, length | (count - 1) << 28, b)

    def header(self, queue, operation, src, dst, sources, constant=None, flags=0):
        packed = src | dst << 4 | (sources - 1) << 8
        if constant is not None:
            packed |= 1 << 12 | constant << 32
        return self.step(4, queue, 0, flags, operation, packed)

    def doorbell(self, queue, count=0, flags=0):
        return self.step(6, queue, 0, flags, count)

    def run(self, ns=8000):
        return self.step(7, a=ns)

    def look(self, queue):
        return self.step(15, queue).step(15, queue, flags=1)


def simple(chip, engine, source, target, length=0x900, ring=(GUEST, 0x4000), ring_length=64):
    q = engine << 4 | 3
    s = Descriptors(chip, engine).step(9, place=source[0], a=length, b=source[1])
    s.set_up(q, ring_length, *ring)
    s.tx(q, *source, length, BARRIER).rx(q, *target, length)
    s.tx(q, GUEST, 0x100, 4, DMB).rx(q, GUEST, 0x104, 4)
    return s.doorbell(q).run().look(q)


def places(chip):
    for name, place in (('accessor', (ACCESSOR, 0x700)), ('guest_end', (GUEST_END, 0x20)),
                        ('host_end', (HOST_END, 0x200)), ('hbm', (HBM_P, 0x10003)),
                        ('hbm_end', (HBM_END, 0x80)), ('sbuf', (SBUF, 0x3FF00)),
                        ('sbuf_end', (SBUF_END, 0x2000)), ('psum', (PSUM, 0x3000)),
                        ('peer', (PEER, 4 << 56 | 0x1000)), ('hole', (HOLE, 0)),
                        ('itself', (PEER, 1 << 56 | 0x1000)),
                        ('neighbour', (NEIGHBOUR, 0x1000)),
                        ('no_cable', (NEIGHBOUR, 1 << 60 | 0x1000)),
                        ('wrap', (WRAP, 5)), ('misc', (MISC_P, 0x100)),
                        ('topsp', (TOPSP_P, 0x10000)), ('own', (UNIT, 0x1020))):
        yield f'from_{name}', simple(chip, 0, place, (HBM_P, 0x5000))
        yield f'to_{name}', simple(chip, 1, (HBM_P, 0x777), place)
        yield f'ring_{name}', simple(chip, 2, (HBM_P, 0), (HBM_P, 0x4000), 64, place, 7)


def shapes(chip):
    q = 0x25
    gather = Descriptors(chip, 2).set_up(q, 33)
    for k, length in enumerate((1, 3, 4095, 70, 0)):
        flags = (0 if k == 0 else NO_FIRST) | (0 if k == 4 else NO_LAST)
        gather.tx(q, HBM_P, k * 0x3001, length, flags)
    gather.rx(q, GUEST2, 1, 0x37).rx(q, SBUF, 0x100, 0x200, count=4)
    gather.rx(q, HBM_P, 0x90000, 0, count=2).doorbell(q).run().look(q)
    yield 'gather', gather
    lengths = Descriptors(chip, 2).set_up(q, 40)
    lengths.step(12, q, flags=4, b=0x1000)  # short packets, length 0 is 0
    lengths.tx(q, HBM_P, 0, 0).tx(q, HBM_P, 0, 0x1000).tx(q, HBM_P, 0, 0x1001)
    lengths.rx(q, HBM_P, 0x10000, 0x800, count=6).doorbell(q).run().look(q)
    yield 'lengths', lengths
    laps = Descriptors(chip, 0).set_up(4, 3)
    for _ in range(5):
        laps.tx(4, HBM_P, 0, 16).tx(4, HBM_P, 32, 16).rx(4, HBM_P, 64, 16, count=2)
        laps.doorbell(4).run(3000)
    yield 'laps', laps.look(4)
    many = Descriptors(chip, 1)
    for q in range(0x10, 0x20):
        many.set_up(q, 8, GUEST, 0x400 * q).tx(q, HBM_P, q << 16, 0x4000)
        many.rx(q, HBM_P, q << 18, 0x4000).doorbell(q, flags=q & 1)
    yield 'queues', many.run(50000)
    bits = Descriptors(chip, 0).set_up(0, 32)
    bits.step(12, 0, flags=3, a=0xFFFFFFFF)
    for flags in (NO_FIRST, NO_LAST, META, BAD_RING, W0, W1, DMB | BARRIER):
        bits.tx(0, HBM_P, 0, 0xF0F00040, flags).rx(0, HBM_P, 0x1000, 0x40, flags)
    yield 'masked', bits.doorbell(0).run().look(0)


def reductions(chip):
    bf16, fp16, int32, fp32, int8, uint64 = 6, 7, 8, 10, 2, 1
    for name, operation, src, dst, n, sources, constant in (
            ('add', 0, fp32, fp32, 64, 2, None), ('cast', 0, fp32, bf16, 96, 1, None),
            ('fma', 1, bf16, fp32, 32, 3, 0x40000000), ('max', 2, int32, int32, 36, 2, 5),
            ('min', 3, int8, fp16, 33, 4, None), ('wide', 0, uint64, uint64, 64, 16, None)):
        size = {bf16: 2, fp16: 2, int32: 4, fp32: 4, int8: 1, uint64: 8}
        q = 0x07
        s = Descriptors(chip, 0).set_up(q, 32, HBM_P, 0x20000)
        s.step(9, place=HBM_P, a=4096).step(12, q, flags=16, a=3)
        s.header(q, operation, src, dst, sources, constant)
        for k in range(sources):
            place = (HBM_P, SBUF, GUEST, ACCESSOR, PSUM)[k % 5]
            flags = NO_FIRST | (0 if k == sources - 1 else NO_LAST)
            s.source(q, place, k * 0x100, n, flags)
        s.rx(q, HBM_P if sources % 2 == 0 else ACCESSOR, 0x100, n // size[src] * size[dst])
        yield f'reduce_{name}', s.doorbell(q).run().look(q)
    q = 3
    bad = Descriptors(chip, 0).set_up(q, 32).header(q, 7, 0, 15, 2).source(q, HBM_P, 0, 4)
    yield 'reduce_bad', bad.source(q, HBM_P, 0, 8, NO_FIRST).rx(q, HBM_P, 0, 64).doorbell(q).run()


def signals(chip):
    yield 'semaphore', simple(chip, 0, (GUEST, 0x20), (SEM_P, 0x1804), 4)
    yield 'doorbell', simple(chip, 0, (GUEST, 0x20), (DOORBELL, 0x13), 4)
    yield 'engine_start', simple(chip, 0, (GUEST, 0x20), (ENGINE_P, 0), 4)
    yield 'qemu_reset', simple(chip, 0, (GUEST, 0x20), (QEMU, 0), 4)
    yield 'broadcast', simple(chip, 0, (GUEST, 0x20), (BROADCAST_P, 0x1038), 4)
    # A ring that rings itself for ever: one descriptor writes the other half's doorbell.
    q = 0x02
    s = Descriptors(chip, 0).set_up(q, 2)
    s.step(12, q, flags=3, a=0xFFFFFFFF).step(9, place=GUEST, a=1, flags=2, b=0x2000)
    s.tx(q, GUEST, 0x2000, 4).tx(q, GUEST, 0x2000, 4)
    s.rx(q, DOORBELL, 0x12, 4).rx(q, DOORBELL, 0x02, 4)
    yield 'endless', s.doorbell(q).run(50000).run(50000).look(q)
    # Reset by DMA of the engine that does it.
    s = Descriptors(chip, 0).set_up(q, 16).step(9, place=GUEST, a=1, flags=1, b=0x2000)
    for target in (0x1EC, 0x800):
        s.tx(q, GUEST, 0x2000, 4).rx(q, MISC_P, target, 4)
    s.tx(q, HBM_P, 0, 0).rx(q, HBM_P, 0x20000, 0)
    yield 'reset_itself', s.doorbell(q).run(20000).look(q)
    s = Descriptors(chip, 0).set_up(q, 16).step(9, place=GUEST, a=1, flags=0, b=0x2000)
    s.tx(q, GUEST, 0x2000, 4).rx(q, UNIT, 0x1030, 4).tx(q, HBM_P, 0, 0).rx(q, HBM_P, 0x20000, 0)
    yield 'no_ring', s.doorbell(q).run(20000).look(q)


def ring_changes(chip):
    q = 1
    base = QUEUE + q * 0x1000
    for name, offset, value in (('length_0', 0x30, 0), ('length_1', 0x30, 1),
                                ('length_max', 0x30, 0xFFFFFF), ('base', 0x28, 0x40),
                                ('high', 0x2C, 0xFFFFFFFF), ('disable', 0x20, 0x3000000),
                                ('reset', 0xB0, 0x100), ('stop', 0x204 - base, 2),
                                ('abort', 0x204 - base, 4)):
        s = Descriptors(chip, 0).set_up(q, 16)
        for k in range(6):
            s.tx(q, HBM_P, 0, 0x4000).rx(q, HBM_P, 0x20000 * k, 0x4000)
        s.doorbell(q).run(900).step(8, q, a=base + offset, b=value).run(1200)
        s.step(8, q, a=S2M + base + offset, b=value).look(q)
        s.step(8, q, a=base + 0x38, b=1).step(8, q, a=S2M + base + 0x38, b=1)
        s.step(14, q, a=0, b=0x3030000).step(8, q, a=0x204, b=1)
        yield f'change_{name}', s.run(50000).look(q)


def floods(chip):
    q = 1
    s = Descriptors(chip, 0).set_up(q, 0xFFFFFF, LOW, 0x100, 0)
    yield 'zeros', s.doorbell(q, 0xFFFFFE).run(50000).look(q)
    s = Descriptors(chip, 0).set_up(q, 0xFFFFFF, LOW, 0x100, 0).step(12, q, flags=3, a=0xFFFFFFFF)
    yield 'zeros_masked', s.doorbell(q, 0xFFFFFE).run(50000).look(q)
    s = Descriptors(chip, 0).set_up(q, 0xFFFFFF, HOLE, 0, 0).step(12, q, flags=3, a=0xFFFFFFFF)
    yield 'hole_masked', s.doorbell(q, 0xFFFFFE).run(50000).look(q)
    s = Descriptors(chip, 0).set_up(q, 0x11100, HBM_P, 0, 16)
    s = Descriptors(chip, 0).step(0, q, HBM_P, 2, 64, 0x40).step(0, q, HBM_P, 1, 0x11100, 0x10000)
    for k in range(16):
        flags = (0 if k == 0 else NO_FIRST) | (0 if k == 15 else NO_LAST)
        s.tx(q, HBM_P, 0x180000, 0xFFFF, flags)
    s.rx(q, HBM_P, 0x150000, 1).step(10, q, flags=1, a=0x11000)
    yield 'bytes', s.doorbell(q).run(50000).look(q)
    s = Descriptors(chip, 0).set_up(q, 0x8000, HBM_P, 0, 0).tx(q, HBM_P, 0, 0x40)
    s.step(10, q, a=0x8000).rx(q, GUEST, 0, 0x40).step(10, q, flags=1, a=0x8000)
    yield 'full', s.step(12, q, flags=3, a=0xFFFFFFFF).doorbell(q).run(50000).run(50000).look(q)


def descriptor_seeds():
    for chip, name in ((V2, 'v2'), (V3, 'v3'), (V4, 'v4')):
        for group in (places, shapes, reductions, signals, ring_changes, floods):
            if chip == V4 and group in (places, reductions) or chip != V3 and group == floods:
                continue  # as v3
            for kind, seed in group(chip):
                yield f'{kind}_{name}', seed


# ---- front ends ------------------------------------------------------------------------------

# Kinds of descriptors, as in socket_peer.cpp: 0 is a sealed memory file of 64 KiB.
MEMORY = 0x10000


def front_step(action, size=0, fds=0, payload=b''):
    return struct.pack('<BBH', action, fds, size) + payload


def some(count, first=0):
    return count << 4 | first


def table(*regions):
    """SYNC_SYSMEM: addresses, sizes, offsets."""
    regions = list(regions) + [(0, 0, 0)] * (8 - len(regions))
    return b''.join(struct.pack('<8Q', *(r[k] for r in regions)) for k in range(3))


def config(offset, value=0, length=4):
    return struct.pack('<IIi', offset, value, length)


def bar(address, value=0, size=4, memory=1):
    return struct.pack('<QQIBxxx', address, value, size, memory)


def dma_step(action, address, length, operation):
    return front_step(action, length, 0, struct.pack('<QB', address, operation))


def remote_pci_seeds():
    serve = front_step(11, 2)
    enable = (front_step(1, payload=config(0x10, 0xE0000000)) +
              front_step(1, payload=config(0x20, 0xD0000000)) +
              front_step(1, payload=config(4, 6, 2)))
    yield 'probe', b''.join(front_step(2, payload=config(k)) for k in range(0, 64, 4)) + serve
    yield 'bars', (enable + front_step(3, payload=bar(0xE0000010, 0x1122334455667788, 8)) +
                   front_step(4, payload=bar(0xE0000012, 0, 2)) + serve +
                   front_step(4, payload=bar(0xD000FFFE, 0, 4)) +
                   front_step(4, payload=bar(0x12345678, 0, 1)) +
                   front_step(4, payload=bar(0xE0000000, 0, 4, 0)) + serve)
    for kind in range(16):
        yield f'memory_{kind}', (
            front_step(0, fds=some(1, kind), payload=table((0x1000, MEMORY, 0))) + serve +
            b''.join(dma_step(8, address, 200, op) for op in range(4)
                     for address in (0x1000, 0x1000 + MEMORY - 600, 0x1000 + MEMORY - 599, 0xFFF)))
    yield 'regions', (
        front_step(0, fds=some(2), payload=table((0, 0x8000, 0), (0x8000, 0x1000, 0x7000))) +
        serve + dma_step(8, 0x7F00, 200, 3) +
        front_step(0, fds=some(1, 1), payload=table((0x5000, 0x1000, 0xF000))) + serve +
        front_step(9, 0x8001) + dma_step(8, 0x5000, 100, 3) + dma_step(8, 0x5000, 100, 2))
    yield 'wrong_tables', b''.join(
        front_step(0, fds=some(2), payload=table(*regions)) + serve for regions in
        (((0, 0x1000, 0), (0x800, 0x1000, 0)),))
    yield 'wrap', front_step(0, fds=some(1), payload=table((2**64 - 0x1000, 0x2000, 0))) + serve
    yield 'offset', front_step(0, fds=some(1), payload=table((0, 0x1000, 2**63 - 1))) + serve
    yield 'negative', front_step(0, fds=some(1), payload=table((0, 0x1000, 2**64 - 1))) + serve
    yield 'no_fd', front_step(0, fds=0, payload=table((0, 0x1000, 0))) + serve
    yield 'many_fds', front_step(0, fds=some(15), payload=table((0, 0x1000, 0))) + serve
    yield 'irq', front_step(5, fds=some(2, 10)) + serve + front_step(6) + serve
    yield 'reset', enable + front_step(6) + front_step(4, payload=bar(0xE0000010)) + serve
    yield 'config_sizes', b''.join(
        front_step(2, payload=config(offset, 0, length)) + serve
        for offset, length in ((3, 2), (0xFF, 4), (0xFFFFFFFF, 4), (0x100, 1), (0, 3)))
    yield 'in_parts', (front_step(7, 10, 0, bytes([2] + [0] * 7 + [12, 0])) + serve +
                       front_step(7, 18, 0, bytes(6) + config(0)) + serve)
    yield 'half_closed', front_step(7, 5, 0, bytes(5)) + front_step(9, 16) + serve
    yield 'reply', front_step(7, 24, 0, struct.pack('<iIQQ', 1, 0, 8, 0)) + serve


def dma_map(address, size, flags=3, offset=0, fds=0x10):
    return front_step(1, 0, fds, struct.pack('<IIQQQ', 32, flags, offset, address, size))


def dma_unmap(address, size, flags=0):
    return front_step(3, 0, 0, struct.pack('<IIQQ', 24, flags, address, size))


def vfio_answer(address, count, write=0, error=0, bad_id=0):
    return front_step(10 if not write else 11, count << 4 | bad_id << 3 | error << 2 | write, 0,
                      struct.pack('<Q', address))


def vfio_user_seeds():
    serve = front_step(15, 2)
    yes = b'\0'
    commands = {4: 16, 7: 16, 6: 16, 8: 20, 13: 0, 16: 16, 17: 8}
    yield 'commands', yes + b''.join(
        front_step(5, command | size << 8, 0, struct.pack('<5I', size, 0, 1, 0, 0)[:size])
        for command, size in commands.items()) + serve
    yield 'regions', yes + b''.join(
        front_step(4, 0, 0, struct.pack('<IIIIQQ', 64, 0, k, 0, 0, 0)) for k in range(10)) + serve
    yield 'access', yes + b''.join(
        front_step(7, n, 0, struct.pack('<QII', offset, region, n) + bytes(range(n))) +
        front_step(6, 0, 0, struct.pack('<QII', offset, region, n))
        for region in (0, 4, 7, 8, 2) for offset, n in ((0, 4), (2, 8), (0x3FFC, 8), (1, 3))) + serve
    yield 'large', yes + front_step(6, 0, 0, struct.pack('<QII', 0, 4, 0x10000)) + serve + serve
    yield 'multi', yes + front_step(8, 2, 0, struct.pack('<Q', 2) + b''.join(
        struct.pack('<QIIQ', offset, 0, 4, 7) for offset in (0x20, 0x24))) + serve
    yield 'early', b'\1' + front_step(5, 4 | 16 << 8, 0, bytes(16)) + serve
    version = b'\0\0\1\0{"capabilities":{"max_data_xfer_size":64,"pgsizes":4096}}\0'
    yield 'version', b'\1' + front_step(
        0, 16 + len(version), 0, struct.pack('<HHIII', 1, 1, 16 + len(version), 0, 0) + version
    ) + serve + dma_map(0, 0x1000, 3, 0, 0) + serve + vfio_answer(0, 64) + dma_step(12, 0, 64 << 4, 0)
    for kind in range(16):
        yield f'file_{kind}', yes + dma_map(0x1000, MEMORY, 3, 0, some(1, kind)) + serve + b''.join(
            dma_step(12, address, 512 << 4 | op, 0) for op in range(4)
            for address in (0x1000, 0x1000 + MEMORY - 512, 0x1000 + MEMORY - 511, 0xFFF)) + serve
    yield 'rights', yes + dma_map(0, 0x1000, 1) + dma_map(0x1000, 0x1000, 2) + serve + b''.join(
        dma_step(12, address, 64 << 4 | op, 0) for op in range(4) for address in (0, 0xFF0, 0x1000))
    yield 'maps', yes + (dma_map(0, 0x2000) + dma_map(0x1000, 0x1000) + dma_map(0x2001, 0x1000) +
                         dma_map(2**64 - 0x1000, 0x2000) + dma_unmap(0, 0x1000) + serve +
                         dma_unmap(0, 0x2000) + dma_unmap(0, 0, 2) + dma_map(0, 0x1000, 7) + serve)
    yield 'messages', yes + dma_map(0, 0x4000, 3, 0, 0) + serve + (
        vfio_answer(16, 100) + dma_step(12, 16, 100 << 4, 0) +
        vfio_answer(32, 100, 1) + dma_step(12, 32, 100 << 4 | 1, 0) +
        vfio_answer(64, 100, 0, 1) + dma_step(12, 64, 100 << 4, 0) +
        vfio_answer(128, 99) + dma_step(12, 128, 100 << 4, 0)) + serve
    yield 'silent', yes + dma_map(0, 0x4000, 3, 0, 0) + serve + dma_step(12, 0, 100 << 4, 0) + serve
    yield 'late', yes + dma_map(0, 0x4000, 3, 0, 0) + serve + (
        front_step(9) + vfio_answer(0, 16) + dma_step(12, 0, 16 << 4, 0)) + serve + serve
    yield 'taken_back', yes + dma_map(0, MEMORY, 3, 0, some(1, 1)) + serve + front_step(
        13, 0x1001) + dma_step(12, 0x8000, 64 << 4 | 3, 0) + serve
    yield 'shapes', yes + front_step(0, 16, 0, struct.pack('<HHIII', 1, 4, 15, 0, 0)) + serve
    yield 'huge', yes + front_step(0, 16, 0, struct.pack('<HHIII', 1, 9, 2**32 - 1, 0, 0)) + serve
    yield 'reply', yes + front_step(0, 16, 0, struct.pack('<HHIII', 1, 9, 16, 1, 0)) + serve
    yield 'irqs', yes + front_step(5, 8 | 20 << 8, some(1, 10),
                                   struct.pack('<5I', 20, 0x21, 2, 0, 0)) + serve


# ---- device nodes ----------------------------------------------------------------------------

(CONNECT, _, HELLO, OPEN, IOCTL, MMAP, MUNMAP, MMIO, FLUSH, REFRESH, ATTRIBUTE, IDENTIFY, ANY, LARGE,
 BENT, DATA, ANSWERS, CLOSE, MORE, SERVE) = range(20)
CHILD, LATER = 2, 0x80


def node_step(action, slot=0, variant=0, n=0, payload=b''):
    return bytes([action, slot, variant, n]) + payload


def node_opened(own=0):
    """Channel in slot 0, file in slot 1."""
    return (node_step(CONNECT, 0, own) + node_step(HELLO) + node_step(CONNECT, 1, own) +
            node_step(OPEN, 1, 2))


def node_ioctl(slot, size, bits=0, offset=0, later=0, token=0):
    return node_step(IOCTL, slot, later, token, struct.pack('<II', size << 16 | bits, offset))


def node_seeds():
    end = node_step(FLUSH) + node_step(CLOSE, 1) + node_step(SERVE)
    mmap = lambda offset, length, prot, flags, address=0: node_step(
        MMAP, 0, 0, 0, struct.pack('<QQQii', address, offset, length, prot, flags))
    for own, name in ((0, 'own'), (CHILD, 'child')):
        yield f'open_{name}', node_opened(own) + node_step(IDENTIFY, 1) + end
        yield f'ioctl_{name}', node_opened(own) + b''.join(
            node_ioctl(0, size, bits, offset) for size, bits, offset in
            ((16, 0, 0), (0x3FFF, 1, 64), (8, 2, 0x1FFF8), (8, 0, 0x1FFFC), (8, 3, 0x20000))) + end
        yield f'death_{name}', (node_opened(own) + node_ioctl(0, 8) +
                                node_step(MORE, 0, 0, 0xFF) + node_step(SERVE))
        yield f'wait_{name}', node_opened(own) + (
            node_step(CONNECT, 2, own) + node_step(HELLO, 2) + node_ioctl(0, 8, 2, 0, LATER) +
            node_ioctl(2, 8, 2, 0, LATER) + node_step(CLOSE, 1) + node_step(SERVE) + end)
    for mode in range(8):
        yield f'answers_{mode}', (node_step(ANSWERS, 0, mode) + node_opened(CHILD) +
                                  node_ioctl(0, 0x3000, 1) + node_ioctl(0, 8) + end)
    yield 'refused', node_opened() + node_step(MORE, 0, 1, 0) + node_ioctl(0, 8) + end
    yield 'mmap', node_opened() + (
        mmap(0, 0x1000, 3, 1) + mmap(0x1000, 0x1000, 1, 1, 0x1000) + mmap(0x8000, 0x2000, 3, 1) +
        mmap(0xFFFF, 1, 3, 2) + mmap(0x10000, 0x1000, 1, 1) + mmap(0, 0, 1, 1) +
        mmap(0, 2**64 - 1, 1, 2) + node_step(MUNMAP, 0, 0, 0, struct.pack('<QQ', 0, 0x1000)) + end)
    yield 'store', node_opened() + b''.join(
        node_step(MMIO, 0, 0, 0, struct.pack('<QII', offset, value, 0))
        for offset, value in ((0, 1), (4, 2), (2, 3), (2**64 - 4, 1))) + end
    yield 'sysfs', node_step(CONNECT) + node_step(HELLO) + b''.join(
        node_step(REFRESH, 0, 0, k) for k in range(8)) + node_step(
            REFRESH, 0, 0, 8, b'/sys/class/neuron_device/neuron0/core_count'.ljust(512, b'\0'))
    for k in (0, 1, 3):
        yield f'attribute_{k}', (
            node_step(CONNECT, 0, 1) + node_step(ATTRIBUTE, 0, 0, k << 1 | 1) +
            node_step(ANY, 0, 0, 3, b'12345\n') + node_step(ANY, 0, 0, 3, b'abcdef') +
            node_step(LARGE) + node_step(SERVE))
    yield 'busy', node_opened() + node_ioctl(0, 8, 0, 0, LATER) + node_ioctl(0, 8, 0, 0, LATER) + end
    yield 'unasked', node_step(CONNECT) + node_step(HELLO) + node_step(
        DATA, 0, 0, 4, struct.pack('<QII', 0, 4, 1) + bytes(4)) + node_step(SERVE)
    yield 'flags', b''.join(
        node_step(CONNECT, k) + node_step(OPEN, k, flags, minor) for k, (flags, minor) in
        enumerate(((0, 0), (1, 3), (2, 1), (0x40, 4), (LATER | 2, 3)))) + node_step(SERVE)
    for field in range(10):
        yield f'bent_{field}', (node_step(CONNECT) + node_step(HELLO) +
                                node_step(BENT, 0, field, 8, struct.pack('<I', 2)) +
                                node_step(CONNECT, 1) +
                                node_step(BENT, 1, field, 1, struct.pack('<I', 2**32 - 1)) +
                                node_step(SERVE))
    yield 'sizes', b''.join(node_step(CONNECT, k) + node_step(LARGE, k, 0, n) for k, n in
                            enumerate((0, 127, 128, 129, 255))) + node_step(SERVE)
    yield 'half', node_opened() + node_step(CLOSE, 0, 1) + node_step(CLOSE, 1, 1) + node_step(SERVE)


class Bytes:
    def __init__(self, data):
        self.data = data


def raw(seeds):
    for name, data in seeds():
        yield name, Bytes(data)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for target, seeds in (('register', register_seeds()), ('descriptor', descriptor_seeds()),
                          ('remote_pci', raw(remote_pci_seeds)),
                          ('vfio_user', raw(vfio_user_seeds)), ('node', raw(node_seeds))):
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds:
            (folder / name).write_bytes(seed.data)


if __name__ == '__main__':
    main()
