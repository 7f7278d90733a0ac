#!/usr/bin/env python3
"""Brings up one device over vfio-user: client.py SOCKET v2|v3|v4 [--qemu] [--die PLACE]

A program of its own, from the protocol document (protocol.py) and the hardware interface
specification (device.py); it knows nothing of the server. With --die it kills itself at a place:
`message` in the middle of a message, `dma` while a DMA waits for memory that only it can give."""
import argparse
import errno
import mmap
import os
import random
import signal
import struct
import sys
import time

from device import HBM_RESERVED, Device, Generation, Queue
from protocol import (CONFIG, DEVICE_FEATURE, DMA_MAP, MIG_DATA_READ, READABLE, REGION_READ, SET_IRQS, WRITABLE, Client,
                      Memory, Refused)

PATTERN = random.Random(20240607).randbytes(3 * 65536 + 4096 + 12)


def refused(code, call, *arguments):
    try:
        call(*arguments)
    except Refused as refusal:
        assert refusal.code == code, (refusal, code)
        return
    raise AssertionError(f"{call} was not refused")


def negotiate(client):
    version, capabilities = client.version(capabilities={
        "max_msg_fds": 8, "max_data_xfer_size": 1 << 20, "pgsizes": 4096, "max_dma_maps": 1000, "write_multiple": True,
        "twin_socket": {"supported": True}, "of_the_future": 1})
    assert version[0] == 0 and version[1] <= 1
    assert capabilities["max_msg_fds"] >= 1 and capabilities["max_data_xfer_size"] >= 65536
    assert capabilities["write_multiple"] is True and "of_the_future" not in capabilities
    assert not capabilities.get("twin_socket", {}).get("supported", False)


def check_identity(client, gen):
    flags, regions, irqs = client.device_info()
    assert flags == 3 and regions == 9 and irqs == 5  # reset, PCI
    gen.set_bar4(client.region_info(4)[1])
    for index in range(6):
        flags, size, _ = client.region_info(index)
        assert size == gen.bar_sizes.get(index, 0), (index, hex(size))
        assert flags & 3 == (3 if size else 0)
    flags, size, _ = client.region_info(CONFIG)
    assert flags & 3 == 3 and size in (256, 4096)
    assert client.region_info(6)[1] == client.region_info(8)[1] == 0  # ROM, VGA
    refused(errno.EINVAL, client.region_info, 9)
    for index in (0, 1, 2, 4):
        assert client.irq_info(index)[1] == 0  # spec/hw-registers.md 1.4: no interrupts
    refused(errno.EINVAL, client.irq_info, 3)  # errors: QEMU would warn of a count of 0
    client.call(SET_IRQS, struct.pack("<IIIII", 20, 1 | 1 << 5, 0, 0, 0))  # disables INTx
    refused(errno.EINVAL, client.call, SET_IRQS, struct.pack("<IIIII", 20, 4 | 1 << 5, 0, 0, 1))
    refused(errno.ENOTSUP, client.call, DEVICE_FEATURE, struct.pack("<II", 8, 1 << 16 | 1))
    refused(errno.ENOTSUP, client.call, MIG_DATA_READ, struct.pack("<II", 8, 4096))
    vendor, device, command = struct.unpack_from("<HHH", client.read(CONFIG, 0, 64))
    assert vendor == 0x1D0F and device in gen.device_ids
    assert (client.read(CONFIG, 8, 1) == b"\xff") == gen.qemu
    assert command & 6 == 0, "memory decode or bus mastering is on after a reset"


def set_up_bars(client, gen):
    """Sizes the BARs as firmware does, gives them addresses, enables memory and bus mastering."""
    for index, size in gen.bar_sizes.items():
        at = 0x10 + 4 * index
        client.write(CONFIG, at, b"\xff" * 8)
        mask, = struct.unpack("<Q", client.read(CONFIG, at, 8))
        assert mask & 0b110 == 0b100, "not a 64-bit memory BAR"
        assert (~(mask & ~0xF) + 1) & (1 << 64) - 1 == size, hex(mask)
        client.write(CONFIG, at, struct.pack("<Q", (index + 1) << 40))
    client.write(CONFIG, 4, struct.pack("<H", 6))
    assert struct.unpack("<H", client.read(CONFIG, 4, 2))[0] & 6 == 6
    assert client.read(CONFIG, 1, 2) == client.read(CONFIG, 0, 4)[1:3]  # any offset, any size


def check_accesses(client, device):
    """What a register makes of odd accesses; what the protocol makes of impossible ones."""
    gen = device.gen
    bar, scratch = gen.registers, gen.misc + 0x180  # 7.1: plain memory
    client.write_multi([(bar, scratch, struct.pack("<I", 0x1234_5678)), (bar, scratch + 4, struct.pack("<I", 0x9ABC_DEF0))])
    assert client.read(bar, scratch, 8) == bytes.fromhex("78563412f0debc9a")
    client.read(bar, scratch + 1, 2)  # nothing promised, but an answer
    assert client.read(bar, 0x0FFF_FFFC, 4) == bytes(4)  # rule 12: unknown registers read 0
    end = gen.bar_sizes[4]
    assert client.read(4, end - 4, 4) is not None
    for region, offset, size in ((4, end - 3, 4), (4, end, 1), (1, 0, 4), (9, 0, 4), (bar, 1 << 63, 4), (CONFIG, 4096, 1),
                                 (bar, (1 << 64) - 2, 4)):
        refused(errno.EINVAL, client.read, region, offset, size)
    refused(errno.EINVAL, client.call, REGION_READ, struct.pack("<QII", 0, 4, (1 << 20) + 1))
    client.write_multi([(bar, scratch, bytes(4)), (bar, scratch + 4, bytes(4))])


def check_mappings(client, memories):
    for memory in memories:
        client.map(memory)
    rom, ram = memories[2], memories[0]
    refused(errno.EEXIST, client.map, Memory(ram.address + 4096, 4096))
    refused(errno.EEXIST, client.map, Memory(rom.address, 4096, shared=False))
    refused(errno.EINVAL, client.map, Memory(1 << 40, 100, shared=False))
    too_short = struct.pack("<IIQQQ", 32, 3, 1 << 20, 1 << 41, ram.size)
    refused(errno.EINVAL, client.call, DMA_MAP, too_short, [ram.fd])
    refused(errno.ENOENT, client.unmap, Memory(ram.address, 4096, shared=False))
    other = Memory(1 << 41, 8192)
    client.map(other)
    client.unmap(other)
    client.map(other, READABLE)
    client.unmap(other)


def copies(device, queue, memories):
    """Host to HBM 0, on to another stack, back to the host; and through every kind of memory."""
    gen, host = device.gen, device.host
    ram, plain, rom = memories
    stacks = [base + HBM_RESERVED + 0x1_0004 for base in gen.hbm[:1] + gen.hbm[-1:]]
    size = len(PATTERN)
    source, target = ram.take(size), plain.take(size)
    ram.write(source, PATTERN)
    queue.copy(host(source), stacks[0], size)
    bar = gen.hbm_bar[0] + HBM_RESERVED + 0x1_0004
    assert device.client.read(4, bar, size) == PATTERN, "not in HBM 0"
    queue.copy(stacks[0], stacks[1], size, chunk=4099)
    bar = gen.hbm_bar[-1] + HBM_RESERVED + 0x1_0004
    assert device.client.read(4, bar, size) == PATTERN, "not in the last HBM"
    queue.copy(stacks[1], host(target), size)
    assert plain.read(target, size) == PATTERN, "host to device to host"
    # Memory that only messages reach, in both directions.
    small, back = rom.take(10_000), rom.take(10_000)
    rom.write(small, PATTERN[:10_000])
    before = rom.messages
    queue.copy(host(small), stacks[0], 10_000)
    queue.copy(stacks[0], host(back), 10_000)
    assert rom.read(back, 10_000) == PATTERN[:10_000] and rom.messages > before


def wrap(device, queue, memories, laps):
    """Small copies until the ring has wrapped that often; ids and pointers as 3.6 says."""
    ram = memories[0]
    source, target = ram.take(64), ram.take(64)
    hbm = device.gen.hbm[0] + HBM_RESERVED
    count, until = 0, queue.laps + laps
    while queue.laps < until:
        ram.write(source, struct.pack("<I", count))
        queue.post(device.host(source), hbm, 60, barrier=True)
        queue.post(hbm, device.host(target), 60, dmb=True)
        queue.finish()
        assert ram.word(target) == count
        count += 1
    assert queue.pointers() == [(queue.tail, queue.ring_id)] * 4


def semaphore(device, queue, memories):
    """spec/hw-registers.md 4, and 3.6: a DMA write of 4 bytes as a signal."""
    gen, ram = device.gen, memories[0]
    amount = ram.take(4)
    ram.write(amount, struct.pack("<I", 5))
    index = 77
    assert device.read(gen.semaphores + 0x1000 + 4 * index) == 0
    for _ in range(3):
        queue.post(device.host(amount), gen.semaphores_device + 0x1800 + 4 * index, 4, barrier=True)
    queue.finish()
    assert device.read(gen.semaphores + 0x1000 + 4 * index) == 15
    device.write(gen.semaphores + 0x1C00 + 4 * index, 4)
    assert device.read(gen.semaphores + 0x1000 + 4 * index) == 11
    device.write(gen.semaphores + 0x1400 + 4 * index, 0)


def notification_ring(device, memories):
    """5.2, 5.3: set 3 of NC 0 in host memory; nothing is produced yet, so head is 0."""
    block, ring = device.gen.notifications + 0x100 + 3 * 0x28, device.host(memories[0].take(4096, 4096))
    for offset, value in ((4, ring >> 32), (0, ring & 0xFFFF_FFFF), (8, 4096)):
        device.write(block + offset, value)
    assert device.read(block + 0xC) == 0
    for offset in (4, 0, 8):
        device.write(block + offset, 0)


def mailbox(device, memories, routing_id):
    gen, ram = device.gen, memories[0]
    request, response = ram.take(4096), ram.take(4096)
    addresses = [gen.misc_device + 0x24, gen.misc_device + 0x38, gen.misc_device + 0x3C]
    answer = device.mailbox(1, struct.pack("<3Q", *addresses), request, response, ram, 2)
    values = struct.unpack("<3I", answer)
    assert values == (routing_id, device.read(gen.misc + 0x38), device.read(gen.misc + 0x3C)), values


def lost_address(device, queue, memories):
    """A DMA to where the guest has no memory aborts its engine; a reset of the device helps."""
    nowhere = device.host(1 << 43)
    unit = device.gen.unit(1)[0]
    queue.post(nowhere, device.gen.hbm[0] + HBM_RESERVED, 64)
    queue.ring()
    device.wait(lambda: device.read(unit + 0x200) & 0x3333 & 0x2222 != 0, "abort")
    device.device_reset()
    assert device.read(unit + 0x200) & 0x2222 == 0


def map_hbm(device, queue, memories):
    """All stacks through the file behind BAR4: the same memory as for DMA and for messages."""
    client, ram, gen = device.client, memories[0], device.gen
    flags, size, (fd, offset, areas) = client.region_info(4)
    needed = client.region_info(4, room=32)[2]
    assert needed == 32 + 16 + 16 * len(areas), needed
    for area, length in areas:
        assert area % 4096 == 0 and length % 4096 == 0 and area + length <= size
    pages, host = 3 * 4096, ram.take(6 * 4096, 4096)
    for number, (stack, bar) in enumerate(zip(gen.hbm, gen.hbm_bar)):
        at = bar + HBM_RESERVED
        assert any(area <= at and at + (1 << 20) <= area + length for area, length in areas), number
        window = mmap.mmap(fd, 1 << 20, offset=offset + at)
        window[40:44] = b"abcd"
        assert client.read(4, at + 40, 4) == b"abcd"
        client.write(4, at + 40, b"efgh")
        assert window[40:44] == b"efgh"
        # Pages that nothing has touched but the mapping, and the other way round.
        pattern = PATTERN[number:]
        window[1 << 19:(1 << 19) + pages] = pattern[:pages]
        queue.copy(stack + HBM_RESERVED + (1 << 19), device.host(host), pages)
        assert ram.read(host, pages) == pattern[:pages]
        ram.write(host + pages, pattern[100:100 + pages])
        queue.copy(device.host(host + pages), stack + HBM_RESERVED + (3 << 18), pages)
        assert window[3 << 18:(3 << 18) + pages] == pattern[100:100 + pages]
        window.close()
    os.close(fd)


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def bring_up(client, gen, die):
    negotiate(client)
    check_identity(client, gen)
    set_up_bars(client, gen)
    device = Device(client, gen)
    memories = [Memory(0, 8 << 20), Memory(4 << 30, 4 << 20, sealed=False), Memory(0xFFFC_0000, 1 << 18, shared=False)]
    check_mappings(client, memories)
    if die == "message":
        client.send_raw(struct.pack("<HHIII", 1, 10, 16 + 16 + 4096, 0, 0) + bytes(100))
        kill_self()
    routing_id = device.read_ready(gen.misc + 0x24)
    assert routing_id < 64
    device.device_reset()
    for first in (True, False):
        for engine in (0, 1, gen.h2t):
            device.init_engine(engine, first)
    assert client.read(gen.registers, gen.unit(0)[0] + 0x310, 4) == struct.pack("<I", gen.init_values[0x310])
    check_accesses(client, device)
    host_queue = Queue(device, gen.h2t, 0, 8192, memories[0])
    if die == "dma":
        client.serve = lambda *_: kill_self()
        host_queue.copy(device.host(memories[2].address), gen.hbm[0] + HBM_RESERVED, 4096)
        raise AssertionError("no DMA asked for memory")
    copies(device, host_queue, memories)
    for length, number in ((32, 3), (48, 15)):
        queue = Queue(device, 0, number, length, memories[0])
        copies(device, queue, memories)
        wrap(device, queue, memories, 5)
    queue.init()  # 3.13: a queue is set up again onto its ring
    wrap(device, queue, memories, 1)
    semaphore(device, host_queue, memories)
    notification_ring(device, memories)
    mailbox(device, memories, routing_id)
    map_hbm(device, host_queue, memories)
    lost_address(device, Queue(device, 1, 0, 64, memories[0]), memories)
    for engine in (0, 1, gen.h2t):
        device.init_engine(engine, False)
    copies(device, Queue(device, 0, 1, 256, memories[0]), memories)
    client.reset()
    assert struct.unpack("<H", client.read(CONFIG, 4, 2))[0] & 6 == 0
    client.write(CONFIG, 4, struct.pack("<H", 6))
    assert device.read_ready(gen.misc + 0x24) == routing_id
    assert client.read(4, gen.hbm_bar[0] + HBM_RESERVED + 0x1_0004, 64) == PATTERN[:64], "HBM lost in a reset"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("socket")
    parser.add_argument("generation", choices=("v2", "v3", "v4"))
    parser.add_argument("--qemu", action="store_true", help="the PCI revision is that of QEMU")
    parser.add_argument("--die", choices=("message", "dma"))
    arguments = parser.parse_args()
    begin = time.monotonic()
    client = Client(arguments.socket)
    bring_up(client, Generation(arguments.generation, arguments.qemu), arguments.die)
    client.close()  # without unmapping anything
    print(f"{arguments.generation} is up: {time.monotonic() - begin:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
