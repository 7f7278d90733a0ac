"""Seeds of fuzz_remote_pci and fuzz_vfio_user; see the heads of their sources."""
import struct


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
        for region in (0, 4, 7, 8, 2)
        for offset, n in ((0, 4), (2, 8), (0x3FFC, 8), (1, 3))) + serve
    yield 'large', yes + front_step(6, 0, 0, struct.pack('<QII', 0, 4, 0x10000)) + serve + serve
    yield 'multi', yes + front_step(8, 2, 0, struct.pack('<Q', 2) + b''.join(
        struct.pack('<QIIQ', offset, 0, 4, 7) for offset in (0x20, 0x24))) + serve
    yield 'early', b'\1' + front_step(5, 4 | 16 << 8, 0, bytes(16)) + serve
    version = b'\0\0\1\0{"capabilities":{"max_data_xfer_size":64,"pgsizes":4096}}\0'
    yield 'version', b'\1' + front_step(
        0, 16 + len(version), 0, struct.pack('<HHIII', 1, 1, 16 + len(version), 0, 0) + version
    ) + serve + dma_map(0, 0x1000, 3, 0, 0) + serve + (
        vfio_answer(0, 64) + dma_step(12, 0, 64 << 4, 0))
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
