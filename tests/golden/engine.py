"""Golden scripts of one DMA engine and its queues: spec/hw-registers.md 10.3, 3.10 and 3.11."""
from writer import Script, at, init_engine

def common_part(t, g, again):
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
                   f"spec/hw-registers.md 10.3, {g.name}, entries {entries}: one DMA engine"
                   + (" that was initialised before" if again else ""))
        common_part(t, g, again)
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
        t = Script(name, f"spec/hw-registers.md 10.3, v3 and v4, entries 133 to 146: {title}")
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
    t = Script(g.file("engine_twice"), f"spec/hw-registers.md 10.3, {g.name}: engine 0 twice, then what it must read as")
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
    t = Script("queue.trace", "spec/hw-registers.md 3.11: queue registers T (M2S) and X (S2M), L descriptors, rings at TX, RX")
    for offset, value in ((0x74, 3), (0x20, 0x3000000), (0xB0, 0x100), (0x28, "lo(TX)"), (0x2C, "hi(TX)"),
                          (0x30, "L"), (0xA0, 0), (0x20, 0x3030000)):
        t.w(at("T", offset), value)
    for offset, value in ((0x20, 0x3000000), (0x64, 0x100), (0x28, "lo(RX)"), (0x2C, "hi(RX)"), (0x30, "L"),
                          (0x54, 0), (0x20, 0x3030000)):
        t.w(at("X", offset), value)


def queue_examples():
    """The two tables at the end of 10.3, in absolute addresses."""
    t = Script("v3_queue_128_0.trace", "spec/hw-registers.md 10.3: QUE(128, 0, 8192)")
    for address, value in ((0x06801074, 3), (0x06801020, 0x03000000), (0x068010B0, 0x100), (0x06801028, 0x12340000),
                           (0x0680102C, 0x4000), (0x06801030, 0x2000), (0x068010A0, 0), (0x06801020, 0x03030000),
                           (0x06821020, 0x03000000), (0x06821064, 0x100), (0x06821028, 0x12380000),
                           (0x0682102C, 0x4000), (0x06821030, 0x2000), (0x06821054, 0), (0x06821020, 0x03030000)):
        t.w(f"{address:X}", value)
    t = Script("v3_queue_0_3.trace", "spec/hw-registers.md 10.3: QUE(0, 3, 64)")
    for address, value in ((0x82004074, 3), (0x82004020, 0x03000000), (0x820040B0, 0x100), (0x82004028, 0x40000000),
                           (0x8200402C, 0x4000), (0x82004030, 0x40), (0x820040A0, 0), (0x82004020, 0x03030000),
                           (0x82024020, 0x03000000), (0x82024064, 0x100), (0x82024028, 0x40000400),
                           (0x8202402C, 0x4000), (0x82024030, 0x40), (0x82024054, 0), (0x82024020, 0x03030000)):
        t.w(f"{address:X}", value)


def write_common():
    mask_files()
    queue_file()
    queue_examples()


def write(g):
    engine_files(g)
    engine_script(g)
