#!/usr/bin/env python3
"""Writes the golden scripts: a driver's bring-up, copy, reset, exit and removal on each generation.

Every line is taken from the acceptance traces of spec/hw-registers.md section 10 and the tables
they expand (2.3, 2.4, 3.10, 3.11, 7.5, 8), never from a recording of a driver. README.md explains the format.
`make_traces.py --check` writes nothing and fails when a file differs from what it would write.
"""
import os
import sys

import election
import engine
import mailbox
from writer import (BUFFER, DUMMY, FILES, GENERATIONS, MARK, QUEUES, REQUEST, RESPONSE, RINGS, Script, at,
                    init_engine)

HERE = os.path.dirname(os.path.abspath(__file__))


# --- 10.1, 10.2: probe and device reset -------------------------------------------------------

def ring_places(n):
    tx = RINGS + n * 0x100000
    return tx, tx + 0x40000, tx + 0x80000  # M2S ring, S2M ring, completion words


def h2t_queue(t, g, n, how="use"):
    """H: rings; QUE of the host copies of NC n."""
    e, q = g.h2t(n)
    tx, rx, _ = ring_places(n)
    t.memory("TX", tx)
    t.memory("RX", rx)
    u = g.udma(e)
    t.insert(how, "queue.trace", T=u + 0x1000 + q * 0x1000, X=u + 0x21000 + q * 0x1000, L=8192,
             TX=f"TX+{g.window:X}", RX=f"RX+{g.window:X}")


def init_ncs(t, g, ncs, first, covered=None, again=False, host_reset=False):
    """Steps 6 to 14 of 10.2. An engine that two NCs share is due when all of them are covered. `again`: no reset
    has preceded; `host_reset`: the reset has covered host-copy engines."""
    covered = ncs if covered is None else covered
    for n in ncs:
        t.note(f"NC {n}")
        for e in range(n * 16, n * 16 + 16):
            init_engine(t, g, e, first, again)
        e, q = g.h2t(n)
        if g.v2 or (q == 0 and n + 1 in covered):
            init_engine(t, g, e, first, again or (first != 0x30000 and not g.v2 and not host_reset))
        h2t_queue(t, g, n)


def acknowledge(t, g):
    t.line("wait", "100ms")
    t.line("P", "M+1EC", 0, "100ms", g.give_up)
    t.line("P", "M+808", "0/8", "100ms", "1s")


def probe(g):
    t = Script(g.file("probe"), f"spec/hw-registers.md 10.1, {g.name}: probe")
    t.note("steps 1 to 3: memory decode, bus master, identity")
    t.line("config", "read", 0, 2, 0x1D0F)
    t.line("config", "write", 4, 2, 2)
    t.line("config", "write", 4, 2, 6)
    t.line("config", "read", 4, 2, "6/6")
    t.line("config", "read", 8, 1, "REVISION")
    t.note("step 5: routing id")
    t.line("RNO", f"{g.misc + 0x24:X}", "*")
    t.note("7.1, 7.2: a serial number")
    t.line("expect", f"{g.misc + 0x24:X}", "0/FFFFFFC0")
    t.line("ready", f"{g.misc + 0x38:X}", "*")
    t.line("expect", f"{g.misc + 0x808:X}", "0/8")
    t.line("expect", f"{g.misc + 0x1EC:X}", 0)


def device_reset(g):
    t = Script(g.file("device_reset"), f"spec/hw-registers.md 10.2, {g.name}: device reset")
    t.base("M", g.misc)
    t.w("M+1EC", 1)
    t.w("M+800", 1)
    acknowledge(t, g)
    t.line("count")
    init_ncs(t, g, range(g.ncs), 0x30000)
    writes, reads = {2: (12912, 34), 3: (18436, 900), 4: (18568, 1032)}[g.number]
    t.line("totals", str(writes), str(reads))

    t = Script(g.file("bring_up"), f"spec/hw-registers.md 10.1 and 10.2, {g.name}: probe and first device reset")
    t.use(g.file("probe"))
    t.use(g.file("device_reset"))
    t.note("8.4: the queue registers are as programmed, nothing has moved")
    u = g.udma(g.h2t(0)[0])
    for half, queue in ((u + 0x1000, "TX"), (u + 0x21000, "RX")):
        t.line("expect", f"{half + 0x30:X}", 8192)
        t.line("expect", f"{half + 0x34:X}", 1 << 30)
        t.line("expect", f"{half + 0x3C:X}", 1 << 30)


def qemu_reset(t, g, value, mailbox):
    """8.5: the reset register, on v2 with the mailbox request as well."""
    t.w(f"{g.qemu:X}", value)
    if g.v2:
        for word, what in mailbox:
            t.w(at("M", word), what)
        t.line("wait", "100ms")
        t.line("P", "M+1EC", 0, "100ms", g.give_up)
    t.line("P", f"{g.qemu:X}", 0, "2s", "10s" if g.v2 else "10000s")
    t.line("wait", "2s")


def special_bring_up(g):
    """8.5 and the last paragraph of 10.2; 1.2 for the emulator."""
    for suffix, value in (("qemu", 1),) if g.v2 else (("qemu", 0), ("qemu_new", 0xFFFFFFFF)):
        t = Script(g.file(suffix), f"spec/hw-registers.md 8.5 and 10.2, {g.name}, revision FF: reset register, value {value:X}")
        t.use(g.file("probe"), REVISION=0xFF)
        t.base("M", g.misc)
        qemu_reset(t, g, value, ((0x1EC, 1), (0x800, 1)))
        init_ncs(t, g, range(g.ncs), 0x30000)
        if not g.v2:
            t.note("no mailbox word takes part")
            t.line("expect", "M+1EC", 0)
        copy(t, g, "play", 0, 0, 1, BUFFER, 0x10000)
    for again in (False, True) if g.number == 4 else (False,):
        t = Script(g.file("emulator_again" if again else "emulator"),
                   f"spec/hw-registers.md 1.2, {g.name}, revision F0: NC 0 alone"
                   + (", no reset" if g.number == 4 else "") + (", driver loaded again" if again else ""))
        if again:
            t.play(g.file("emulator"))
        t.use(g.file("probe"), REVISION=0xF0)
        if g.number != 4:
            t.base("M", g.misc)
            t.w("M+1EC", 1)
            t.w("M+800", 1)
            acknowledge(t, g)
        init_ncs(t, g, [0], 0x30000, range(g.ncs), again)
        copy(t, g, "play", 0, 0, 1, BUFFER, 0x10000, seed=again + 1)


# --- 10.5: copies -----------------------------------------------------------------------------

def doorbells(g, n):
    e, q = g.h2t(n)
    return g.udma(e) + 0x21038 + q * 0x1000, g.udma(e) + 0x1038 + q * 0x1000


def copy_file(g):
    t = Script(g.file("copy"), f"spec/hw-registers.md 10.5, {g.name}: one descriptor and its marker in slots I and I+1 of the "
               "rings TX and RX, ring id R")
    t.note("FROM, TO: device addresses; N: length word; K: completion words; S, T: tails of S2M and M2S")
    t.line("host", "write", "K", MARK, 0)
    t.line("desc", "TX+I*10", "C000000+R*1000000+N", 0x5080003, "FROM")
    t.line("desc", "RX+I*10", "R*1000000+N", 0, "TO")
    t.line("desc", "TX+I*10+10", "C000004+R*1000000", 0x1080003, f"{g.window:X}+K")
    t.line("desc", "RX+I*10+10", "4+R*1000000", 0, f"{g.window:X}+K+4")
    t.w("S", 2)
    t.w("T", 2)
    t.line("host", "poll", "K+4", MARK, "1us", g.copy_limit)

    t = Script(g.file("batch"), f"spec/hw-registers.md 3.12, {g.name}: 511 descriptors of 64 bytes and a marker from slot I on, "
               "one doorbell")
    t.line("host", "write", "K", MARK, 0)
    t.line("repeat", "511", "J")
    t.line("desc", "TX+I*10+J*10", "C000040+R*1000000", 0x1080003, "FROM+J*40")
    t.line("desc", "RX+I*10+J*10", "40+R*1000000", 0, "TO+J*40")
    t.line("end")
    t.note("the last data descriptor carries the write barrier")
    t.line("desc", "TX+I*10+1FE0", "C000040+R*1000000", 0x5080003, "FROM+7F80")
    t.line("desc", "TX+I*10+1FF0", "C000004+R*1000000", 0x1080003, f"{g.window:X}+K")
    t.line("desc", "RX+I*10+1FF0", "4+R*1000000", 0, f"{g.window:X}+K+4")
    t.w("S", 0x200)
    t.w("T", 0x200)
    t.line("host", "poll", "K+4", MARK, "1us", "400ms")


def copy_names(g, n, slot, ring_id, host, size, back=False):
    tx, rx, k = ring_places(n)
    s, m = doorbells(g, n)
    device, _ = g.hbm(n)
    outside = g.window | host
    return {"TX": tx, "RX": rx, "K": k, "I": slot, "R": ring_id, "N": size & 0xFFFF, "S": s, "T": m,
            "FROM": device if back else outside, "TO": outside if back else device}


def copy(t, g, how, n, slot, ring_id, host, size, back=False, seed=None):
    """64 KiB or less of NC n's memory, checked at its destination."""
    seed = slot + n if seed is None else seed
    _, bar4 = g.hbm(n)
    if not back:
        t.line("host", "fill", host, size, seed)
    t.insert(how, g.file("copy"), **copy_names(g, n, slot, ring_id, host, size, back))
    t.line("host" if back else "hbm", "check", host if back else bar4, size, seed)


def first_copy(g):
    t = Script(g.file("first_copy"), f"spec/hw-registers.md 10.5, {g.name}: 64 KiB from the host to HBM 0 for NC 0")
    t.play(g.file("bring_up"))
    for name, place in zip(("TX", "RX", "K"), ring_places(0)):
        t.memory(name, place)
    names = copy_names(g, 0, 0, 1, BUFFER, 0x10000)
    names.update(TX="TX", RX="RX", K="K")
    t.line("host", "fill", BUFFER, 0x10000, 3)
    t.use(g.file("copy"), **names)
    t.line("hbm", "check", g.hbm(0)[1], 0x10000, 3)
    t.note("the engine has consumed two slots of each ring")
    u = g.udma(g.h2t(0)[0])
    for half in (u + 0x1000, u + 0x21000):
        t.line("expect", f"{half + 0x34:X}", 1 << 30 | 2)
        t.line("expect", f"{half + 0x3C:X}", 1 << 30 | 2)


def no_ring_id_error(t, u):
    t.line("expect", f"{u + 0x3A000:X}", "0/20000")
    t.line("expect", f"{u + 0x3A040:X}", "0/800")


def copies(g):
    t = Script(g.file("copies"), f"spec/hw-registers.md 10.5, {g.name}: both directions, the last NC, and five laps of a ring")
    t.play(g.file("first_copy"))
    t.note("back, into another buffer")
    copy(t, g, "use", 0, 2, 1, BUFFER + 0x20000, 0x10000, back=True, seed=3)
    t.note("small and odd sizes, and the last NC's queue")
    copy(t, g, "use", 0, 4, 1, BUFFER, 1)
    copy(t, g, "use", 0, 6, 1, BUFFER, 0x1235)
    last = g.ncs - 1
    copy(t, g, "use", last, 0, 1, BUFFER, 0x10000)
    copy(t, g, "use", last, 2, 1, BUFFER + 0x20000, 0x10000, back=True, seed=last)
    chain(t, g)
    t.note("the rest of the first lap in 64 KiB copies")
    names = copy_names(g, 0, 0, 1, BUFFER, 0x10000)
    t.line("repeat", str((8192 - 18) // 2), "C")
    names["I"] = "12+C*2"
    t.use(g.file("copy"), **names)
    t.line("end")
    u = g.udma(g.h2t(0)[0])
    t.note("slot 0 again, with ring id 2; then 3, 0 and 1")
    for lap, ring_id in ((2, 2), (3, 3), (4, 0)):
        for half in (u + 0x1000, u + 0x21000):
            t.line("expect", f"{half + 0x34:X}", ring_id << 30)
            t.line("expect", f"{half + 0x3C:X}", ring_id << 30)
        lap_of(t, g, 0, ring_id)
    copy(t, g, "use", 0, 0, 1, BUFFER, 0x10000, seed=9)
    no_ring_id_error(t, u)


def chain(t, g):
    """3.12, 3.6 item 10: a block from the host, copies of copies of it, the last one back, each behind a barrier."""
    t.note("slots 8 to 17: host to HBM, seven times on within HBM, back to the host; every descriptor has DMB")
    tx, rx, k = ring_places(0)
    s, m = doorbells(g, 0)
    a, bar4 = g.hbm(0)
    out = BUFFER + 0x40000
    places = [g.window | BUFFER] + [a + block * 0x10000 for block in range(8)] + [g.window | out]
    t.line("host", "fill", BUFFER, 0x10000, 0x77)
    t.line("host", "write", k, MARK, 0)
    for index in range(9):
        slot = 8 + index
        t.line("desc", tx + slot * 16, 0x4D000000, 0x1080003, places[index])
        t.line("desc", rx + slot * 16, 0x1000000, 0, places[index + 1])
    t.line("desc", tx + 17 * 16, 0x4D000004, 0x1080003, g.window | k)
    t.line("desc", rx + 17 * 16, 0x1000004, 0, g.window | k + 4)
    t.line("write", f"{s:X}", 10)
    t.line("write", f"{m:X}", 10)
    t.line("host", "poll", k + 4, MARK, "1us", g.copy_limit)
    for block in (0, 1, 7):
        t.line("hbm", "check", bar4 + block * 0x10000, 0x10000, 0x77)
    t.line("host", "check", out, 0x10000, 0x77)


def lap_of(t, g, n, ring_id):
    """8192 slots in 16 doorbells."""
    names = copy_names(g, n, 0, ring_id, BUFFER, 0)
    del names["N"]
    names["I"] = "C*200"
    t.line("host", "fill", BUFFER, 511 * 64, ring_id)
    t.line("repeat", "16", "C")
    t.play(g.file("batch"), **names)
    t.line("end")
    t.line("hbm", "check", g.hbm(n)[1], 511 * 64, ring_id)


# --- 10.4, 10.6, 10.7: open, NC reset, process exit, remove -----------------------------------

def open_device(g):
    t = Script(g.file("open"), f"spec/hw-registers.md 10.4, {g.name}: open makes no access")
    t.play(g.file("bring_up"))
    t.line("count")
    t.line("totals", "0", "0")


def program_nq(t, block, k, base, size):
    for word, value in ((0x104, base >> 32), (0x100, base & 0xFFFFFFFF), (0x108, size)):
        t.line("write", f"{block + word + k * 0x28:X}", value)


def teardown_nq(t, block, k):
    for word in (0x104, 0x100, 0x108):
        t.w(f"{block + word + k * 0x28:X}", 0)


def nc_reset(g, qemu=False):
    topsp = 4 if g.v2 else 3  # of NC 1: three per NC on v2, two later
    t = Script(g.file("qemu_nc1_reset" if qemu else "nc1_reset"),
               f"spec/hw-registers.md 10.6, {g.name}{', revision FF' if qemu else ''}, NC 1: one NC queue in set 2 and one TopSP "
               f"{topsp} queue in set 0 exist")
    t.base("M", g.misc)
    t.play(g.file("qemu" if qemu else "bring_up"))
    if qemu:
        t.note("the script before has used two slots")
        h2t_queue(t, g, 0, "play")
    program_nq(t, g.nc_nq(1), 2, g.window | 0x40000, 4096)
    program_nq(t, g.topsp_nq(topsp), 0, g.hbm(1)[0] + 0x100000, 8192)
    t.note("NC 0 is in the second lap of its ring, NC 1 in its first")
    lap_of(t, g, 0, 1)
    copy(t, g, "play", 0, 0, 2, BUFFER, 0x10000)
    copy(t, g, "play", 1, 0, 1, BUFFER, 0x10000)
    t.note("NC queue, 1 ms, then the TopSP queue")
    teardown_nq(t, g.nc_nq(1), 2)
    t.line("wait", "1ms")
    teardown_nq(t, g.topsp_nq(topsp), 0)
    request = ((0x1D8, g.reset_map(1)), (0x1EC, 2), (0x800, 1))
    if qemu:
        qemu_reset(t, g, 1 if g.v2 else g.reset_map(1), request)
    else:
        for word, value in request:
            t.w(at("M", word), value)
        acknowledge(t, g)
    init_ncs(t, g, [1], 0x3030000)
    t.note("the other NC goes on where it was, this one starts anew; its HBM has survived")
    e, q = g.h2t(0)
    for half in (0x1000, 0x21000):
        t.line("expect", f"{g.udma(e) + half + 0x3C:X}", 2 << 30 | 2)
    t.line("hbm", "check", g.hbm(1)[1], 0x10000, 1)
    copy(t, g, "play", 0, 2, 2, BUFFER, 0x10000)
    copy(t, g, "play", 1, 0, 1, BUFFER, 0x10000, seed=0x77)
    copy(t, g, "play", 0, 4, 2, BUFFER + 0x20000, 0x10000, back=True, seed=2 if g.v2 else 0x77)
    for engine in {g.h2t(0)[0], g.h2t(1)[0]}:
        no_ring_id_error(t, g.udma(engine))
    t.line("expect", f"{g.nc_nq(1) + 0x108 + 2 * 0x28:X}", 0)


def seng_reset(g):
    """Both NCs of a seng: their host-copy engine is initialised once, through the even one."""
    t = Script(g.file("nc23_reset"), f"spec/hw-registers.md 10.6, {g.name}, NC 2 and 3: the shared engine 129 is initialised too")
    t.base("M", g.misc)
    t.play(g.file("bring_up"))
    copy(t, g, "play", 3, 0, 1, BUFFER, 0x10000)
    t.w("M+1D8", g.reset_map(2) | g.reset_map(3))
    t.w("M+1EC", 2)
    t.w("M+800", 1)
    acknowledge(t, g)
    init_ncs(t, g, [2, 3], 0x3030000)
    copy(t, g, "play", 3, 0, 1, BUFFER, 0x10000, seed=0x51)
    copy(t, g, "play", 2, 0, 1, BUFFER, 0x10000, seed=0x52)


EXITING = ((5, 5), (20, 0))  # engines that reach host memory on every generation (2.6)


def process_exit(g):
    t = Script(g.file("process_exit"), f"spec/hw-registers.md 10.6, {g.name}: queues (5, 5) and (20, 0) go to the dummy ring")
    t.play(g.file("bring_up"))
    t.note("the process's rings: 64 transfers of 64 KiB have just been started on both queues")
    for index, (e, q) in enumerate(EXITING):
        u = g.udma(e) + q * 0x1000
        ring = QUEUES + index * 0x10000
        t.play("queue.trace", T=u + 0x1000, X=u + 0x21000, L=0x40, TX=g.window | ring, RX=g.window | ring + 0x1000)
        t.line("repeat", "64", "J")
        t.line("desc", f"{ring:X}+J*10", 0xD000000, 0x1080003, g.window | BUFFER)
        t.line("desc", f"{ring + 0x1000:X}+J*10", 0x1000000, 0, f"{g.hbm(0)[0] + index * 0x1000000:X}+J*10000")
        t.line("end")
        t.line("write", f"{u + 0x21038:X}", 0x40)
        t.line("write", f"{u + 0x1038:X}", 0x40)
    t.line("host", "fill", BUFFER, 0x10000, 1)
    t.line("wait", "20us")
    t.memory("DUMMY", DUMMY)
    for e, q in EXITING:
        u = g.udma(e) + q * 0x1000
        dummy = f"DUMMY+{g.window:X}"
        t.use("queue.trace", T=u + 0x1000, X=u + 0x21000, L=0x40, TX=dummy, RX=dummy)
    t.note("the old rings are freed and used by others; the last transfers have not been made")
    for index in range(len(EXITING)):
        t.line("host", "fill", QUEUES + index * 0x10000, 0x2000, 0x5A)
    t.line("wait", "10ms")
    for index, (e, q) in enumerate(EXITING):
        u = g.udma(e) + q * 0x1000
        t.line("hbm", "expect", g.hbm(0)[1] + index * 0x1000000 + 63 * 0x10000, 0, 0, 0, 0)
        for half in (u + 0x1000, u + 0x21000):
            t.line("expect", f"{half + 0x34:X}", 1 << 30)
            t.line("expect", f"{half + 0x3C:X}", 1 << 30)
            t.line("expect", f"{half + 0x20:X}", 0x3030000)
        no_ring_id_error(t, g.udma(e))
    t.note("the next process can use the queue")
    e, q = EXITING[0]
    u = g.udma(e) + q * 0x1000
    ring = QUEUES + 0x40000
    t.play("queue.trace", T=u + 0x1000, X=u + 0x21000, L=0x40, TX=g.window | ring, RX=g.window | ring + 0x1000)
    names = copy_names(g, 0, 0, 1, BUFFER, 0x10000)
    names.update(TX=ring, RX=ring + 0x1000, K=ring + 0x2000, S=u + 0x21038, T=u + 0x1038)
    t.line("host", "fill", BUFFER, 0x10000, 7)
    t.play(g.file("copy"), **names)
    t.line("hbm", "check", g.hbm(0)[1], 0x10000, 7)


def remove(g):
    t = Script(g.file("remove"), f"spec/hw-registers.md 10.7, {g.name}: one queue of NC 0 exists in set 0; then reload")
    t.play(g.file("first_copy"))
    program_nq(t, g.nc_nq(0), 0, g.window | 0x40000, 4096)
    t.note("step 3: bus master and memory decode off; step 5 goes through a mapping that is dead")
    t.line("config", "write", 4, 2, 0)
    teardown_nq(t, g.nc_nq(0), 0)
    t.note("step 6: the rings' memory belongs to others now; nothing may be fetched from it")
    for place in ring_places(0)[:2]:
        t.line("host", "fill", place, 0x20000, 0xA5)
    t.line("wait", "1s")
    t.line("config", "write", 4, 2, 6)
    t.line("expect", f"{g.nc_nq(0) + 0x108:X}", 4096)
    t.note("reload: 10.1 and 10.2 again, by a driver that starts anew")
    t.play(g.file("probe"))
    t.play(g.file("device_reset"))
    t.line("expect", f"{g.nc_nq(0) + 0x108:X}", 0)
    copy(t, g, "play", 0, 0, 1, BUFFER, 0x10000, seed=0x42)
    no_ring_id_error(t, g.udma(g.h2t(0)[0]))


# --- 7.6 and the [N] columns: drivers that are newer than the traces of section 10 ---------------

def newer(g):
    t = Script(g.file("newer"), f"spec/hw-registers.md 7.6, 8.1, 3.12, 9.6, {g.name}: what later drivers do besides")
    t.play(g.file("bring_up"))
    t.base("M", g.misc)
    t.use(g.file("power_profile"))
    t.note("GET DATA type 1: the profile is there; SET FEATURE: throttling notifications")
    mailbox.register_request(t, g, 3, 4, b"\x01", bytes([0, 0, 0, 0, 5, 0, 0, 0]), "10s")
    mailbox.register_request(t, g, 4, 5, b"\x01", b"", "60s")
    t.note("10.2 step 15: GET DATA type 2, feature 5; the answer has 33 bytes")
    for address, value in ((0x100, 0x502), (0x1F0, 0x000B0405), (0x1F4, mailbox.crc_of(5, 4, b"\x02\x05\x00")), (0x1F8, 0),
                           (0x1FC, 0), (0xF0, 1), (0x800, 1)):
        t.w(at("M", address), value)
    t.line("P", "M+800", 0, "1ms", "10s")
    t.r("M+1F0", 41 << 16 | 5)
    t.note("an unknown command is error 2, and the legacy protocol works in between")
    for address, value in ((0x1F0, 0x00084D06), (0x1F4, mailbox.crc_of(6, 0x4D, b"")), (0x1F8, 0), (0x1FC, 0), (0xF0, 1), (0x800, 1)):
        t.w(at("M", address), value)
    t.line("P", "M+800", 0, "1ms", "10s")
    t.line("R", "M+1F0", "206/FFFF")
    t.memory("REQ", REQUEST)
    t.memory("RESP", RESPONSE)
    mailbox.request(t, g, 7, 2, mailbox.METRIC[:8])
    t.note("7.1, 9.6: words that later drivers read")
    for word in (0x4, 0xC, 0x30, 0x70, 0x74, 0x80, 0x84):
        t.r(at("M", word))
    t.note("3.12: strong-order write in the marker's RX descriptor, no barrier in the data")
    tx, rx, k = ring_places(2)
    s, m = doorbells(g, 2)
    device, bar4 = g.hbm(2)
    t.line("host", "fill", BUFFER, 0x10000, 0x21)
    t.line("host", "write", k, MARK, 0)
    t.line("desc", tx, 0xD000000, 0x1080003, g.window | BUFFER)
    t.line("desc", rx, 0x1000000, 0, device)
    t.line("desc", tx + 16, 0xD000004, 0x1080003, g.window | k)
    t.line("desc", rx + 16, 0x21000004, 0, g.window | k + 4)
    t.w(f"{s:X}", 2)
    t.w(f"{m:X}", 2)
    t.line("host", "poll", k + 4, MARK, "1us", g.copy_limit)
    t.line("hbm", "check", bar4, 0x10000, 0x21)
    t.note("8.1: NC 2 and 3 with their host-copy engine 129, by the high word of the map")
    t.w("M+1D4", 2)
    t.w("M+1D8", g.reset_map(2) | g.reset_map(3))
    t.w("M+1EC", 2)
    t.w("M+800", 1)
    acknowledge(t, g)
    t.note("8.4: its queues are disabled, their pointers at the start; other engines are as they were")
    u = g.udma(129)
    for half in (0x1000, 0x21000):
        t.line("expect", f"{u + half + 0x20:X}", 0x3000000)
        t.line("expect", f"{u + half + 0x3C:X}", 1 << 30)
    t.line("expect", f"{g.udma(128) + 0x1020:X}", 0x3030000)
    init_ncs(t, g, [2, 3], 0x3030000, host_reset=True)
    copy(t, g, "play", 2, 0, 1, BUFFER, 0x10000, seed=0x52)
    copy(t, g, "play", 0, 0, 1, BUFFER, 0x10000, seed=0x53)


def write_all():
    engine.write_common()
    for g in GENERATIONS:
        engine.write(g)
        mailbox.write(g)
        probe(g)
        device_reset(g)
        special_bring_up(g)
        copy_file(g)
        first_copy(g)
        copies(g)
        open_device(g)
        nc_reset(g)
        nc_reset(g, qemu=True)
        if not g.v2:
            seng_reset(g)
            election.write(g)
            newer(g)
        process_exit(g)
        remove(g)


def main():
    write_all()
    check = "--check" in sys.argv[1:]
    stale = 0
    for name, lines in sorted(FILES.items()):
        path = os.path.join(HERE, name)
        text = "\n".join(lines) + "\n"
        if check:
            old = open(path).read() if os.path.exists(path) else ""
            if old != text:
                print(f"{name} is not what make_traces.py writes")
                stale += 1
        else:
            with open(path, "w", newline="\n") as out:
                out.write(text)
    if check:
        for name in os.listdir(HERE):
            if name.endswith(".trace") and name not in FILES:
                print(f"{name} is not written by make_traces.py")
                stale += 1
        print(f"{len(FILES)} scripts, {stale} stale")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
