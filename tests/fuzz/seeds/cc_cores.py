"""Seeds of fuzz_cc; see the head of cc_fuzz.cpp."""
import struct

MEMORY = 0x1000_0000_0000
WORDS = MEMORY + 768  # behind three Blocks
ONE = WORDS + 60
QUEUES = 0x40_0000
SEMAPHORES = 0x30_0000
FENCE, ACCUMULATE = 1, 2
HALTS, NO_BARRIER = 0x200, 0x400
INT8, INT32, FP32, UINT64 = 2, 8, 10, 1

(NOP, SEM_WAIT, SEM_ADD, DMA_ADVANCE, DMA_WAIT, HOST_POST, MOV, ADD, BRANCH, LOOP, NOTIFY, BARRIER,
 WRITE, DONE, ARGUMENT, DMA_RANGE, FORK, END, BLOCK, BRANCH_LESS) = range(20)
EQUAL, SUBTRACT, FROM_REG = 1, 0x10, 0x20


def record(op, imm=0, address=0, a=0, flags=0, b=0):
    return struct.pack('<BBBBIQ', op, a, flags, b, imm & 0xFFFFFFFF, address)


def block(words=0, elements=1000, engines=2, pieces=2, piece=128, least=64, dtype=INT32, op=0,
          sources=(0x10_0000,), flags=0, first=0, shift=0, queue=QUEUES, completion=SEMAPHORES + 4):
    """A Block whose count and places are words `words`, + 1, + 2."""
    at = WORDS + 4 * words
    head = struct.pack('<9Q', at, at + 4, at + 8, elements, elements, 0x20_0000, completion, ONE,
                       queue)
    head += struct.pack('<II8B', piece, least, engines, shift, first, pieces, dtype, op,
                        len(sources) & 0xFF, flags)
    return (head + bytes(40) + b''.join(struct.pack('<Q', s) for s in sources)).ljust(256, b'\0')


def tiles(number=0, weight=32):
    """The loop of a program over the tiles of a Block: BLOCK, wait, next."""
    return [record(MOV, 0, a=0), record(MOV, 0, a=1),
            record(BLOCK, weight, MEMORY + 256 * number, a=0, b=1),
            record(DMA_WAIT, weight, 1, flags=SUBTRACT), record(ADD, 1, a=0),
            record(BRANCH_LESS, 2, a=0, b=1)]


def program(records, blocks=(), words=(), trigger=0, triggers=1, entry=0, ring=64, tail=0, flags=0):
    shape = triggers | flags | (ring // 2 - 1) << 11
    head = struct.pack('<IIIHH', trigger, 7, tail, entry, shape)
    numbers = list(words) + [0] * (15 - len(words)) + [1]
    data = b''.join(blocks).ljust(768, b'\0') + struct.pack('<16I', *numbers)
    return head + data.ljust(1024, b'\0') + b''.join(records)


def blocks():
    loop = tiles() + [record(DONE, 1, SEMAPHORES)]
    yield 'copy', program(loop, [block()], [300, 7, 9], tail=63 | 2 << 30)
    yield 'again', program(loop, [block()], [300, 7, 9], triggers=3)
    yield 'nothing', program(loop, [block()], [0, 0xFFFFFFFF, 0xFFFFFFFF])
    for name, words in (('long', [1001, 0, 0]), ('from', [1, 1000, 0]), ('to', [1, 0, 1000]),
                        ('negative', [0xFFFFFFFF, 0, 0]), ('wrap_from', [1, 0xFFFFFFFF, 0]),
                        ('wrap_to', [2, 0, 0xFFFFFFFF]), ('half', [0x80000000, 0x80000000, 0])):
        yield f'bounds_{name}', program(loop, [block()], words, triggers=2)
    yield 'huge', program(loop, [block(elements=1 << 40, engines=16, pieces=255, piece=0x10000,
                                       dtype=UINT64)], [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF])
    yield 'fold', program(loop, [block(sources=[s << 20 for s in range(1, 17)], op=2, dtype=FP32,
                                       flags=FENCE | ACCUMULATE, piece=0x1000, engines=16)],
                          [900, 10, 20])
    yield 'bytes', program(loop, [block(dtype=INT8, first=1, least=128)], [999, 0, 1], ring=4)
    yield 'two', program(tiles(0) + tiles(1)[2:4] + [record(DONE)],
                         [block(), block(3, completion=SEMAPHORES + 4)], [50, 0, 0, 2000, 0, 0])
    yield 'bounds_twice', program(tiles() + tiles()[2:4] + [record(DONE)], [block()], [1001, 0, 0],
                                  triggers=2)
    good = block()
    for name, offset, value in (('engines', 80, 0), ('many', 80, 17), ('shift', 81, 31),
                                ('first', 82, 2), ('pieces', 83, 0), ('type', 84, 0),
                                ('op', 85, 4), ('sources', 86, 17), ('no_source', 86, 0),
                                ('cut', 72, 100), ('least', 77, 1), ('count', 5, 0x20),
                                ('odd', 0, 1), ('queue', 70, 1), ('semaphore', 53, 0x10)):
        bent = good[:offset] + bytes([value]) + good[offset + 1:]
        yield f'bad_{name}', program(loop, [bent], [100, 0, 0])
    yield 'weight', program(tiles(weight=1) + [record(DONE)], [good], [100, 0, 0])
    yield 'wild', program([record(BLOCK, 2, 0xFFFF_FFFF_FFFF_FF80)], [good])
    yield 'flags', program([record(BLOCK, 2, MEMORY, flags=1)], [good])
    # Its own Block and words are what it writes: the next tile is another one.
    yield 'itself', program([record(MOV, 9, a=2)] + tiles()[:3] + [
        record(WRITE, 0x01010101, MEMORY + 80), record(WRITE, 0xFFFF, WORDS),
        record(BRANCH, 3), record(DONE)], [good], [100, 0, 0])


def control():
    yield 'less', program([record(MOV, 9, a=3), record(ADD, 1, a=2),
                           record(BRANCH_LESS, 1, a=2, b=3), record(DONE, 1, SEMAPHORES)])
    yield 'for_ever', program([record(MOV, 1, a=3), record(BRANCH_LESS, 1, a=2, b=3)])
    yield 'away', program([record(MOV, 1, a=3), record(BRANCH_LESS, 0xFFFFFFFF, a=2, b=3)])
    yield 'last', program([record(BRANCH, 4095)])
    for name, op in (('less', BRANCH_LESS), ('block', BLOCK)):
        yield f'register_a_{name}', program([record(op, 32, MEMORY, a=255)], [block()])
        yield f'register_b_{name}', program([record(op, 32, MEMORY, b=255)], [block()])
    yield 'threads', program(
        [record(FORK, 3), record(SEM_WAIT, 1, 9, flags=SUBTRACT), record(DONE, 1, SEMAPHORES)] +
        tiles() + [record(SEM_ADD, 1, SEMAPHORES + 36), record(END)], [block()], [300, 0, 0])
    yield 'forks', program([record(FORK, 0), record(BRANCH, 0)])
    yield 'end', program([record(END)])
    yield 'done', program([record(FORK, 2), record(DONE), record(SEM_WAIT, 1, 3), record(END)])
    yield 'halts', program(tiles() + [record(DONE)], [block()], [900, 0, 0], flags=HALTS)
    yield 'barrier', program([record(BARRIER, 2, 5), record(ARGUMENT, a=3), record(
        NOTIFY, 5, flags=FROM_REG, b=3), record(DONE)], triggers=2)
    yield 'no_barrier', program([record(BARRIER, 2, 5)], flags=NO_BARRIER)
    yield 'calls', program([record(DMA_ADVANCE, 0x10001, QUEUES), record(
        DMA_RANGE, 0x20002, QUEUES, a=15), record(LOOP, 0, a=4), record(DONE)], trigger=0x10000)
    yield 'no_operation', program([record(DONE)], trigger=1024)
    yield 'flood', program([record(NOP), record(DONE)], triggers=300, trigger=0xFFFFFF80)
    yield 'blank', program([])
    yield 'unknown', program([record(20)])
    yield 'host', program([record(HOST_POST)])


def cc_seeds():
    for group in (blocks, control):
        yield from group()
