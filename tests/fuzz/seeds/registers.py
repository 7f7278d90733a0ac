"""Seeds of fuzz_register; see the head of register_fuzz.cpp."""
import struct

from mailbox_message import message

from seeds.chips import V2, V3, V4


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


def mailbox(chip, payload, command=1, response=(None, 0x3000)):
    s = Registers(chip)
    high = host_high(chip)
    s.guest(0, 0x2000, message(2, command, payload))
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
    head = message(2, command, payload)[:8]
    s.write(MISC, 0, 0x1F0, int.from_bytes(head[:4], 'little'))
    s.write(MISC, 0, 0x1F4, int.from_bytes(head[4:], 'little'))
    s.write(MISC, 0, 0x1F8, 0).write(MISC, 0, 0x1FC, 0)
    s.write(MISC, 0, 0xF0, 1).write(MISC, 0, 0x800, 1).run(2000)
    for offset in (0x800, 0x1F0, 0x100, 0x104, 0x108):
        s.read(MISC, 0, offset)
    return s


def engine_init(chip, e):
    """spec/hw-registers.md 3.10 without the repetitions over queues."""
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


def cc_program(chip, t, records, entry=0, before=None, ns=2000):
    s = before or Registers(chip)
    high = host_high(chip)
    for set_offset, value in ((0x4, high), (0x0, 0x1000), (0x8, 0x100)):
        s.write(TOPSP_NQ, t, 0x100 + set_offset, value)
    code = b''.join(records)
    for k in range(0, len(code), 64):
        s.write_bytes(TOPSP, t, 0x10000 + k, code[k:k + 64].ljust(64, b'\0'))
    s.write(CC, t, 0x4000, entry).write(CC, t, 0x4004, 5)
    s.write(CC, t, 0x2004, 1).write(CC, t, 0x2000, 0).write(CC, t, 0x2000, 0).run(ns)
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


def cc_blocks(chip):
    """Tiles of a Block in guest memory, by a queue whose rings are there: one that is as long as it
    says, one that leaves its tensors, one whose Block is wrong."""
    own = 0x0FFFD0000000 if chip == V2 else 0x8280000000
    queue = (0x0FFFF0001000 if chip == V2 else 0x1002001000) + 2 * 0x1000
    host = host_high(chip) << 32
    loop = [record(18, 32, host | 0x8000, a=0, b=1), record(4, 32, 1, flags=0x10),
            record(7, 1, a=0), record(19, 0, a=0, b=1), record(13, 1, own + 0x1808)]
    for name, count, engines in (('block', 40, 1), ('block_bounds', 65, 1), ('block_bad', 40, 17)):
        s = Registers(chip)
        queue_init(s, 0, 2, 0x4000, 0x5000, 64)
        words = host | 0x8100
        s.guest(0, 0x8000, struct.pack('<9QII8BQ', words, 0, 0, 64, 64, host | 0x7000, own + 0x1804,
                                       words + 4, queue, 64, 64, engines, 0, 0, 1, 8, 0, 1, 0, 0))
        s.guest(0, 0x8080, struct.pack('<Q', host | 0x6000))
        s.guest(0, 0x8100, struct.pack('<II', count, 1)).guest(0, 0x6000, bytes(range(16)))
        yield name, cc_program(chip, 1, loop, before=s, ns=50000)


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
        for group in (cc_programs, cc_blocks):
            for kind, seed in group(chip):
                yield f'cc_{kind}_{name}', seed
        for kind, seed in engine_programs(chip):
            yield f'engine_{kind}_{name}', seed
    for command, payload in ((3, bytes(8)), (4, b'\1'), (4, b'\2\5\0'), (4, b'\x10\1'), (5, b'\1')):
        name = f'new_mailbox_{command}_{len(payload)}_{payload[0]}'
        yield name, new_mailbox(V3, command, payload)
