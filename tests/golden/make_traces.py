#!/usr/bin/env python3
"""Writes the golden scripts: a driver's bring-up, copy, reset, exit and removal on each generation.

Every line is taken from the acceptance traces of hw-registers.md section 10 and the tables they
expand (2.3, 2.4, 3.10, 3.11, 7.5, 8), never from a recording of a driver. README.md explains the format.
`make_traces.py --check` writes nothing and fails when a file differs from what it would write.
"""
import os
import sys

import election
from writer import (BUFFER, DUMMY, FILES, GENERATIONS, MARK, QUEUES, REQUEST, RESPONSE, RINGS, Script, at,
                    init_engine)

HERE = os.path.dirname(os.path.abspath(__file__))


# --- 10.3: one DMA engine ---------------------------------------------------------------------

def engine(t, g, again):
    """10.3 from the queue enables to the end of the common part; Q is 30000 at first, then 3030000."""
    for q in range(16):
        t.w(at("U", 0x1020 + q * 0x1000), "Q")
        t.w(at("U", 0x21020 + q * 0x1000), "Q")
    t.w("U+310", 0x1000400 if g.v2 else 0x10008F8)
    t.w("U+124", 0x86F if g.v2 else 0x20808080)
    t.w("U+3A300", 0x5F5E100)
    t.w("U+408", 0)
    t.w("U+254", 0x10FFFFF)
    t.w("U+258", 0x102)
    for q in range(16):
        t.w(at("U", 0x3C400 + q * 0x40), 0xFFFFFFFF)
    t.w("U+118", 0x10008)
    t.w("U+2038C", 0)
    for q in range(16):
        for word in (0x3C404, 0x3C408, 0x3C40C):
            t.w(at("U", word + q * 0x40), 0xFFFFFFFF)
    t.w("U+20124", 0x400008 if g.v2 else 0x400080)
    t.w("U+20128", 0x40804080)
    if g.number == 4:
        t.r("U+2012C", 0x100 if again else 0)
        t.w("U+2012C", 0x100)
    t.r("U+3B460", 0)
    t.w("U+3B460", 0)
    for address, value in ((0x3A028, 0x28), (0x380E8, 0x28), (0x3A030, 0xF0000000), (0x3A0B0, 0xFFFFFFC0),
                           (0x3A018, 0xF0000000), (0x3A098, 0xFFFFFFC0), (0x380D8, 0xFFFFFAFF),
                           (0x3A068, 0x28), (0x380E8, 0x28), (0x3A070, 0x10F8), (0x3A0B0, 0xFFFFF03F),
                           (0x3A058, 0x10F8), (0x3A098, 0xFFFFF03F), (0x380D8, 0xFFFFF9FF),
                           (0x20380, 0x1004), (0x304, 0x10041), (0x308, 0x4181), (0x20308, 0x4181),
                           (0x11C, 0x10008), (0x2011C, 0x10008)):
        t.w(at("U", address), value)
    t.w("S+1C", 1)
    t.w("S+20", 1)
    t.w("S+0", 1)


def engine_files(g):
    entries = "3 to 380" if g.v2 else "1 to 132"
    for again in (False, True) if g.number == 4 else (False,):
        t = Script(g.file("engine_again" if again else "engine"),
                   f"hw-registers.md 10.3, {g.name}, entries {entries}: one DMA engine"
                   + (" that was initialised before" if again else ""))
        engine(t, g, again)
        if not g.v2:
            t.w("S+800", 0x26)
            continue
        for table in range(6):
            for word in (0x3A904, 0x3A908, 0x3A90C, 0x3A924, 0x3A928, 0x3A92C):
                t.w(at("U", word + table * 0x40), 0xF)
        for table in range(6):
            for q in range(16):
                t.w(at("U", 0x3AB00 + table * 8), q << 3 | 7)
                t.w(at("U", 0x3AB04 + table * 8), 0x10)
        for group in (0x3AD00, 0x3AE00, 0x3AF00, 0x3B000, 0x3B100, 0x3B200):
            t.w(at("U", group + 0x28), 0x28)
            t.w(at("U", group + 0x30), 0)
            t.w(at("U", group + 0x18), 0)
        t.w("U+3A300", 0xFFFFFFFF)


def mask_files():
    """The masks of groups A and B are cleared again each time; what only software writes stays."""
    for name, title, trigger2, trigger3, log_a, log_b in (
            ("v3_engine_masks.trace", "first initialisation", 0, 0, 0, 0),
            ("v3_engine_masks_again.trace", "later ones without a reset", 0x800, 4, 0x20000, 0x800)):
        t = Script(name, f"hw-registers.md 10.3, v3 and v4, entries 133 to 146: {title}")
        t.r("U+3A010", 0xF0000000)
        t.w("U+3A010", 0xF0020000)
        t.w("U+3A030", 0xF0020000)
        t.r("U+3A050", 0x10F8)
        t.w("U+3A050", 0x18F8)
        t.w("U+3A070", 0x18F8)
        t.r("F+90", trigger2)
        t.w("F+90", 0x800)
        t.r("F+D0", trigger3)
        t.w("F+D0", 4)
        t.r("U+20C", log_a)
        t.w("U+20C", 0x20000)
        t.r("U+2020C", log_b)
        t.w("U+2020C", 0x800)


def engine_script(g):
    t = Script(g.file("engine_twice"), f"hw-registers.md 10.3, {g.name}: engine 0 twice, then what it must read as")
    t.play(g.file("probe"))
    writes, reads = {2: (379, 1), 3: (139, 7), 4: (140, 8)}[g.number]
    for again in (False, True):
        t.line("count")
        init_engine(t, g, 0, 0x3030000 if again else 0x30000, again)
        t.line("totals", str(writes), str(reads))
    t.note("3.2, 3.3, 3.9: every written value is stored; mask clear acts on the masks")
    t.base("U", g.udma(0))
    masked = 0 if g.v2 else 1
    values = [(0x118, 0x10008), (0x11C, 0x10008), (0x124, 0x86F if g.v2 else 0x20808080), (0x254, 0x10FFFFF),
              (0x258, 0x102), (0x304, 0x10041), (0x308, 0x4181), (0x310, 0x1000400 if g.v2 else 0x10008F8),
              (0x408, 0), (0x2011C, 0x10008), (0x20124, 0x400008 if g.v2 else 0x400080), (0x20128, 0x40804080),
              (0x20308, 0x4181), (0x20380, 0x1004), (0x2038C, 0), (0x3A300, 0xFFFFFFFF if g.v2 else 0x5F5E100),
              (0x3A028, 0x28), (0x3A068, 0x28), (0x380E8, 0x28),
              (0x3A010, 0xF0000000 | masked << 17), (0x3A030, 0xF0000000 | masked << 17),
              (0x3A050, 0x10F8 | masked << 11), (0x3A070, 0x10F8 | masked << 11),
              (0x3A090, 0xFFFFF000), (0x3A0B0, 0xFFFFF03F), (0x380D0, 0xFFFFF8FF),
              (0x20C, masked << 17), (0x2020C, masked << 11), (0x3B460, 0)]
    if g.number == 4:
        values.append((0x2012C, 0x100))
    for offset, value in values:
        t.line("expect", at("U", offset), value)
    for q in (0, 7, 15):
        t.line("expect", at("U", 0x1020 + q * 0x1000), 0x3030000)
        t.line("expect", at("U", 0x21020 + q * 0x1000), 0x3030000)


def queue_file():
    t = Script("queue.trace", "hw-registers.md 3.11: queue registers T (M2S) and X (S2M), L descriptors, rings at TX, RX")
    for offset, value in ((0x74, 3), (0x20, 0x3000000), (0xB0, 0x100), (0x28, "lo(TX)"), (0x2C, "hi(TX)"),
                          (0x30, "L"), (0xA0, 0), (0x20, 0x3030000)):
        t.w(at("T", offset), value)
    for offset, value in ((0x20, 0x3000000), (0x64, 0x100), (0x28, "lo(RX)"), (0x2C, "hi(RX)"), (0x30, "L"),
                          (0x54, 0), (0x20, 0x3030000)):
        t.w(at("X", offset), value)


def queue_examples():
    """The two tables at the end of 10.3, in absolute addresses."""
    t = Script("v3_queue_128_0.trace", "hw-registers.md 10.3: QUE(128, 0, 8192)")
    for address, value in ((0x06801074, 3), (0x06801020, 0x03000000), (0x068010B0, 0x100), (0x06801028, 0x12340000),
                           (0x0680102C, 0x4000), (0x06801030, 0x2000), (0x068010A0, 0), (0x06801020, 0x03030000),
                           (0x06821020, 0x03000000), (0x06821064, 0x100), (0x06821028, 0x12380000),
                           (0x0682102C, 0x4000), (0x06821030, 0x2000), (0x06821054, 0), (0x06821020, 0x03030000)):
        t.w(f"{address:X}", value)
    t = Script("v3_queue_0_3.trace", "hw-registers.md 10.3: QUE(0, 3, 64)")
    for address, value in ((0x82004074, 3), (0x82004020, 0x03000000), (0x820040B0, 0x100), (0x82004028, 0x40000000),
                           (0x8200402C, 0x4000), (0x82004030, 0x40), (0x820040A0, 0), (0x82004020, 0x03030000),
                           (0x82024020, 0x03000000), (0x82024064, 0x100), (0x82024028, 0x40000400),
                           (0x8202402C, 0x4000), (0x82024030, 0x40), (0x82024054, 0), (0x82024020, 0x03030000)):
        t.w(f"{address:X}", value)


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
    t = Script(g.file("probe"), f"hw-registers.md 10.1, {g.name}: probe")
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
    t = Script(g.file("device_reset"), f"hw-registers.md 10.2, {g.name}: device reset")
    t.base("M", g.misc)
    t.w("M+1EC", 1)
    t.w("M+800", 1)
    acknowledge(t, g)
    t.line("count")
    init_ncs(t, g, range(g.ncs), 0x30000)
    writes, reads = {2: (12912, 34), 3: (18436, 900), 4: (18568, 1032)}[g.number]
    t.line("totals", str(writes), str(reads))

    t = Script(g.file("bring_up"), f"hw-registers.md 10.1 and 10.2, {g.name}: probe and first device reset")
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
        t = Script(g.file(suffix), f"hw-registers.md 8.5 and 10.2, {g.name}, revision FF: reset register, value {value:X}")
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
                   f"hw-registers.md 1.2, {g.name}, revision F0: NC 0 alone"
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
    t = Script(g.file("copy"), f"hw-registers.md 10.5, {g.name}: one descriptor and its marker in slots I and I+1 of the "
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

    t = Script(g.file("batch"), f"hw-registers.md 3.12, {g.name}: 511 descriptors of 64 bytes and a marker from slot I on, "
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
    t = Script(g.file("first_copy"), f"hw-registers.md 10.5, {g.name}: 64 KiB from the host to HBM 0 for NC 0")
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
    t = Script(g.file("copies"), f"hw-registers.md 10.5, {g.name}: both directions, the last NC, and five laps of a ring")
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
    t = Script(g.file("open"), f"hw-registers.md 10.4, {g.name}: open makes no access")
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
               f"hw-registers.md 10.6, {g.name}{', revision FF' if qemu else ''}, NC 1: one NC queue in set 2 and one TopSP "
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
    t = Script(g.file("nc23_reset"), f"hw-registers.md 10.6, {g.name}, NC 2 and 3: the shared engine 129 is initialised too")
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
    t = Script(g.file("process_exit"), f"hw-registers.md 10.6, {g.name}: queues (5, 5) and (20, 0) go to the dummy ring")
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
    t = Script(g.file("remove"), f"hw-registers.md 10.7, {g.name}: one queue of NC 0 exists in set 0; then reload")
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


# --- 10.9: steady state -----------------------------------------------------------------------

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # 7.5


def message(sequence, command, payload):
    head = bytes([sequence, command]) + (len(payload) + 8).to_bytes(2, "little")
    crc = crc32c(head + bytes(4) + payload)
    return head + crc.to_bytes(4, "little") + payload


assert message(2, 1, 0x008006C84024.to_bytes(8, "little"))[4:8] == (0x70454FC8).to_bytes(4, "little")  # 7.5


def request(t, g, sequence, command, payload):
    """7.5 steps 1 to 5."""
    data = message(sequence, command, payload)
    words = [int.from_bytes(data[k:k + 4], "little") for k in range(0, len(data), 4)]
    for k in range(0, len(words), 8):
        t.line("host", "write", f"REQ+{k * 4:X}", *words[k:k + 8])
    t.line("host", "write", "RESP", 0)
    window = f"{g.window:X}"
    for word, value in ((0x1F4, f"lo(REQ+{window})"), (0x1F0, f"hi(REQ+{window})"), (0x1FC, f"lo(RESP+{window})"),
                        (0x1F8, f"hi(RESP+{window})"), (0x800, 1)):
        t.w(at("M", word), value)
    t.line("host", "poll", "RESP", f"{sequence:X}/FFFF", "1ms", "1s")


METRIC = bytes(0x11 * (k // 4 + 1) & 0xFF for k in range(128))


def metric(g):
    t = Script(g.file("metric"), f"hw-registers.md 10.9 and 7.5, {g.name}: 128 bytes of metrics, sequence 2")
    t.base("M", g.misc)
    t.memory("REQ", REQUEST)
    t.memory("RESP", RESPONSE)
    for k in range(32):
        t.w(at("M", 0x100 + k * 4), int.from_bytes(METRIC[k * 4:k * 4 + 4], "little"))
    request(t, g, 2, 2, METRIC)


def steady(g):
    t = Script(g.file("steady"), f"hw-registers.md 10.9, {g.name}: power samples, metrics, counters through the mailbox")
    t.play(g.file("bring_up"))
    t.base("M", g.misc)
    t.line("repeat", "4", "C")
    t.line("wait", "50ms")
    t.line("R", "M+0", "*")
    for word in ("M+54",) if g.v2 else ("M+54", "M+58"):
        t.line("expect", word, "*")
    t.line("end")
    t.use(g.file("metric"))
    t.note("7.5, command 1: two words of the misc RAM by their device addresses")
    t.memory("REQ", REQUEST)
    t.memory("RESP", RESPONSE)
    t.line("write", "M+C0", 0x5EED)
    t.line("write", "M+1CC", 0xFFFFFFFF)
    payload = b"".join((g.misc_device + word).to_bytes(8, "little") for word in (0xC0, 0x1CC))
    request(t, g, 3, 1, payload)
    t.line("host", "expect", "RESP", 0x000C0003, 0x5EED, 0xFFFFFFFF)


# --- 7.6 and the [N] columns: drivers that are newer than the traces of section 10 ---------------

API = {3: 7, 4: 6}  # lowest firmware version that newer drivers use the register mailbox with


def register_request(t, g, sequence, command, payload, response, limit):
    """7.6 steps 2 to 8; `response` is its payload."""
    size = len(payload)
    data = message(sequence, command, payload)
    words = [int.from_bytes(data[k:k + 4].ljust(4, b"\0"), "little") for k in range(0, len(data), 4)]
    for k, word in enumerate(words[2:]):
        t.w(at("M", 0x100 + k * 4), word)
    for word, value in ((0x1F0, words[0]), (0x1F4, words[1]), (0x1F8, 0), (0x1FC, 0), (0xF0, 1), (0x800, 1)):
        t.w(at("M", word), value)
    t.line("P", "M+800", 0, "1ms", limit)
    t.r("M+1F0", (len(response) + 8) << 16 | sequence)
    for k in range(0, len(response), 4):
        t.r(at("M", 0x100 + k), int.from_bytes(response[k:k + 4].ljust(4, b"\0"), "little"))


def power_profile(g):
    t = Script(g.file("power_profile"), f"hw-registers.md 7.6, {g.name}: SET POWER PROFILE 5, sequence 2")
    t.base("M", g.misc)
    t.r("M+0", API[g.number])
    register_request(t, g, 2, 3, bytes([0, 0, 0, 0, 5, 0, 0, 0]), b"", "60s")


def newer(g):
    t = Script(g.file("newer"), f"hw-registers.md 7.6, 8.1, 3.12, 9.6, {g.name}: what later drivers do besides")
    t.play(g.file("bring_up"))
    t.base("M", g.misc)
    t.use(g.file("power_profile"))
    t.note("GET DATA type 1: the profile is there; SET FEATURE: throttling notifications")
    register_request(t, g, 3, 4, b"\x01", bytes([0, 0, 0, 0, 5, 0, 0, 0]), "10s")
    register_request(t, g, 4, 5, b"\x01", b"", "60s")
    t.note("10.2 step 15: GET DATA type 2, feature 5; the answer has 33 bytes")
    for address, value in ((0x100, 0x502), (0x1F0, 0x000B0405), (0x1F4, crc_of(5, 4, b"\x02\x05\x00")), (0x1F8, 0),
                           (0x1FC, 0), (0xF0, 1), (0x800, 1)):
        t.w(at("M", address), value)
    t.line("P", "M+800", 0, "1ms", "10s")
    t.r("M+1F0", 41 << 16 | 5)
    t.note("an unknown command is error 2, and the legacy protocol works in between")
    for address, value in ((0x1F0, 0x00084D06), (0x1F4, crc_of(6, 0x4D, b"")), (0x1F8, 0), (0x1FC, 0), (0xF0, 1), (0x800, 1)):
        t.w(at("M", address), value)
    t.line("P", "M+800", 0, "1ms", "10s")
    t.line("R", "M+1F0", "206/FFFF")
    t.memory("REQ", REQUEST)
    t.memory("RESP", RESPONSE)
    request(t, g, 7, 2, METRIC[:8])
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


def crc_of(sequence, command, payload):
    return int.from_bytes(message(sequence, command, payload)[4:8], "little")


def write_all():
    mask_files()
    queue_file()
    queue_examples()
    for g in GENERATIONS:
        engine_files(g)
        engine_script(g)
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
            power_profile(g)
            newer(g)
        process_exit(g)
        remove(g)
        metric(g)
        steady(g)


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
