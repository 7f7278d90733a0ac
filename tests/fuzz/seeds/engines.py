"""Seeds of the fuzz targets of instructions and engines: an input of every instruction, programs
that mix them, and records as they are.
"""
import json
import random
import struct
from pathlib import Path

TABLE = Path(__file__).resolve().parents[3] / 'data' / 'isa' / 'instructions.json'
GENERATIONS = 3
ENGINES = ('PE', 'ACT', 'POOL', 'DVE', 'SP')
AS_IT_IS = 255  # edits of an instruction's Head
STOCHASTIC, TRACE, PRESET, SHORT_RING, GARBAGE_TABLE, TWICE, CHECKED, ENDLESS = (
    1 << i for i in range(8))


def instructions():
    """(name, opcode, engines) in the order of the generated table."""
    rows = json.loads(TABLE.read_text())['instructions']
    for row in sorted(rows, key=lambda r: r['opcode']):
        engines = ENGINES if row['engines'] == 'all' else row['engines']
        yield row['name'], row['opcode'], [ENGINES.index(e) for e in engines]


def record(opcode, operands=b'', extensions=0):
    header = struct.pack('<BBB29x', opcode, 0, extensions)
    return (header + operands).ljust(64, b'\0')


def instruction_seeds():
    for number, (name, _, engines) in enumerate(instructions()):
        head = struct.pack('<5B', number, engines[number % len(engines)], number, number, 2)
        yield name.lower(), head + bytes([40, 0, 1, 33, 0, 8])
    yield 'record', struct.pack('<5B', 2, 4, 0, 0, AS_IT_IS) + record(16, b'\3' + b'\0' * 7 + b'\7')
    yield 'unknown', struct.pack('<5B', 0, 0, 0, 0, AS_IT_IS) + b'\xfb' * 64


def pieces(rng, engine, count):
    """Instructions of an engine; the fuzzer changes their bytes."""
    numbers = [n for n, (_, _, engines) in enumerate(instructions()) if engine in engines]
    for _ in range(count):
        yield struct.pack('<4B', engine, rng.choice(numbers), rng.randrange(256), 0)


def engine_seeds():
    rng = random.Random(13)
    known = list(instructions())
    for generation in range(GENERATIONS):
        for engine, name in enumerate(ENGINES):
            options = (PRESET, PRESET | TWICE, PRESET | CHECKED)[generation]
            head = struct.pack('<4B', generation, options, engine, 1)
            alone = b''.join(pieces(rng, engine, 20))
            yield f'{name.lower()}_{generation + 2}', head + alone
        head = struct.pack('<4B', generation, PRESET | TRACE | CHECKED, 9, 1)
        mixed = [p for engine in range(len(ENGINES)) for p in pieces(rng, engine, 8)]
        rng.shuffle(mixed)
        yield f'all_{generation + 2}', head + b''.join(mixed)
    # Every transfer, with tensors that are none and rings that are short.
    transfers = [n for n, (name, _, _) in enumerate(known) if name.startswith('DMA_')
                 or name in ('TENSOR_LOAD', 'TENSOR_STORE')]
    for i, options in enumerate((0, SHORT_RING, GARBAGE_TABLE, SHORT_RING | CHECKED)):
        head = struct.pack('<4B', 1 + i % 2, PRESET | options, i, 1)
        table = struct.pack('<8Q', 0x1000_0000, 1 << 40, ~0 & (1 << 64) - 1, 64, 0, 0, 8, 8)
        steps = [struct.pack('<4B', rng.choice((1, 2, 4)), rng.choice(transfers),
                             rng.randrange(256), 0) for _ in range(20)]
        yield f'transfers_{i}', head + (table if options & GARBAGE_TABLE else b'') + b''.join(steps)
    yield from raw_seeds()


def raw_seeds():
    move = record(16, struct.pack('<B7xII', 1, 9, 0))
    count = record(17, struct.pack('<BBB5xII', 1, 1, 1, 1, 0))  # r1 -= 1
    again = record(25, struct.pack('<iBB2xII', -1, 3, 1, 0, 0))  # while r1 != 0
    for generation in range(GENERATIONS):
        engine = bytes([4 - generation])
        head = struct.pack('<4B', generation, TWICE, 0, 0)
        yield f'loop_{generation + 2}', head + b''.join(engine + r for r in (move, count, again))
    calls = (record(27, struct.pack('<iIQ', 2, 0, 0)), record(3), record(28))
    yield 'call', bytes([1, 0, 0, 0]) + b''.join(b'\4' + r for r in calls)
    yield 'recursion', bytes([1, ENDLESS, 0, 0]) + b'\4' + record(27, bytes(16))
    yield 'endless', bytes([0, ENDLESS, 0, 0]) + b'\3' + record(24, struct.pack('<i', 0))
    store = record(4, struct.pack('<QQIIBB', 0x1000, 0, 5, 0, 4, 0))
    yield 'store', bytes([2, TRACE, 0, 0]) + b'\0' + store
    yield 'unknown', bytes([1, 0, 0, 0]) + b'\2' + b'\xfb' * 64
