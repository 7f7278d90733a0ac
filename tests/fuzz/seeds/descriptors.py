"""Seeds of fuzz_descriptor; see the head of descriptor_fuzz.cpp."""
import struct

from seeds.chips import V2, V3, V4


S2M = 0x20000
QUEUE = 0x1000

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
