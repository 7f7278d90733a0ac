"""Seeds of fuzz_node; see the head of node_fuzz.cpp."""
import struct


(CONNECT, _, HELLO, OPEN, IOCTL, MMAP, MUNMAP, MMIO, FLUSH, REFRESH, ATTRIBUTE, IDENTIFY, ANY,
 LARGE, BENT, DATA, ANSWERS, CLOSE, MORE, SERVE) = range(20)
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
    yield 'busy', node_opened() + (
        node_ioctl(0, 8, 0, 0, LATER) + node_ioctl(0, 8, 0, 0, LATER) + end)
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
