#!/usr/bin/env python3
"""Writes the golden register traces of a driver's bring-up, copy, reset and exit.

Every line is taken from the acceptance traces of hw-registers.md section 10 (and the tables of 3.10 and
3.11 that they expand), not from any driver code. The format is explained in README.md.
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


class Trace:
    def __init__(self, name, title):
        self.path = os.path.join(HERE, name)
        self.lines = [f"# {title}"]

    def note(self, text):
        self.lines.append(f"# {text}")

    def base(self, name, value):
        self.lines.append(f"base {name} {value:X}")

    def w(self, address, value):
        self.lines.append(f"W {address} {value if isinstance(value, str) else format(value, 'X')}")

    def r(self, address, value="*"):
        self.lines.append(f"R {address} {value if isinstance(value, str) else format(value, 'X')}")

    def use(self, name, **bases):
        self.lines.append("use " + name + "".join(f" {k}={v:X}" for k, v in bases.items()))

    def save(self):
        with open(self.path, "w", newline="\n") as out:
            out.write("\n".join(self.lines) + "\n")


def at(base, offset):
    return f"{base}+{offset:X}"


def engine(t, v2, v4=False):
    """10.3 from the queue enables to the end of the common part; Q is 30000 at first, then 3030000."""
    for q in range(16):
        t.w(at("U", 0x1020 + q * 0x1000), "Q")
        t.w(at("U", 0x21020 + q * 0x1000), "Q")
    t.w("U+310", 0x1000400 if v2 else 0x10008F8)
    t.w("U+124", 0x86F if v2 else 0x20808080)
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
    t.w("U+20124", 0x400008 if v2 else 0x400080)
    t.w("U+20128", 0x40804080)
    if v4:
        t.r("U+2012C", 0)
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


def v2_engine():
    t = Trace("v2_engine.trace", "hw-registers.md 10.3, v2, entries 3 to 380: one DMA engine")
    engine(t, True)
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
    t.save()


def v3_engine(name, v4):
    t = Trace(name, f"hw-registers.md 10.3, v{4 if v4 else 3}, entries 1 to 132: one DMA engine")
    engine(t, False, v4)
    t.w("S+800", 0x26)
    t.save()


def v3_masks():
    t = Trace("v3_engine_masks.trace", "hw-registers.md 10.3, v3, entries 133 to 146: first initialisation")
    t.r("U+3A010", 0xF0000000)
    t.w("U+3A010", 0xF0020000)
    t.w("U+3A030", 0xF0020000)
    t.r("U+3A050", 0x10F8)
    t.w("U+3A050", 0x18F8)
    t.w("U+3A070", 0x18F8)
    t.r("F+90", 0)
    t.w("F+90", 0x800)
    t.r("F+D0", 0)
    t.w("F+D0", 4)
    t.r("U+20C", 0)
    t.w("U+20C", 0x20000)
    t.r("U+2020C", 0)
    t.w("U+2020C", 0x800)
    t.save()


def queue(name, title, tx="*", rx="*", length="L"):
    t = Trace(name, title)
    halves = lambda base: ("*", "*") if base == "*" else (base & 0xFFFFFFFF, base >> 32)
    low, high = halves(tx)
    for offset, value in ((0x74, 3), (0x20, 0x3000000), (0xB0, 0x100), (0x28, low), (0x2C, high), (0x30, length),
                          (0xA0, 0), (0x20, 0x3030000)):
        t.w(at("T", offset), value)
    low, high = halves(rx)
    for offset, value in ((0x20, 0x3000000), (0x64, 0x100), (0x28, low), (0x2C, high), (0x30, length), (0x54, 0),
                          (0x20, 0x3030000)):
        t.w(at("X", offset), value)
    t.save()


V2_BROADCAST_LAST = (0, 3, 6, 9, 15)


def v2_udma(e):
    if e < 16:
        return 0x30000000 + e * 0x40000
    return {32: 0x30600000, 33: 0x30D00000}.get(e, 0x30700000 + (e - 16) * 0x40000)


def v2_sdma(e):
    if e < 16:
        return 0x30400000 + e * 0x7000
    return {32: 0x30640000, 33: 0x30D40000}.get(e, 0x30B00000 + (e - 16) * 0x7000)


def v2_nc(t, nc, first):
    for k in range(16):
        e = nc * 16 + k
        s = v2_sdma(e)
        t.w(f"{s + 0x100:X}", 0xFFFF >> k)
        t.w(f"{s + 0x104:X}", 0xFFFF if k in V2_BROADCAST_LAST else 0)
        t.use("v2_engine.trace", U=v2_udma(e), S=s, Q=first)
    h = 32 + nc
    t.use("v2_engine.trace", U=v2_udma(h), S=v2_sdma(h), Q=first)
    t.use("queue.trace", T=v2_udma(h) + 0x1000, X=v2_udma(h) + 0x21000, L=8192)


def v2_bring_up():
    t = Trace("v2_bring_up.trace", "hw-registers.md 10.1 and 10.2, v2: probe and first device reset")
    t.base("M", 0x30FA0000)
    t.r("M+24")
    t.w("M+1EC", 1)
    t.w("M+800", 1)
    t.note("100 ms")
    t.r("M+1EC", 0)
    t.r("M+808", 0)
    for nc in range(2):
        t.note(f"NC {nc}")
        v2_nc(t, nc, 0x30000)
    t.save()


def v2_nc_reset():
    t = Trace("v2_nc1_reset.trace",
              "hw-registers.md 10.6, v2, NC 1: one NC queue in set 2 and one TopSP 4 queue in set 0 exist")
    t.base("M", 0x30FA0000)
    t.note("NC queue, 1 ms, then the TopSP queue")
    for block, k in ((0x30C35000, 2), (0x30E04000 + 4 * 0x40000, 0)):
        for word in (0x104, 0x100, 0x108):
            t.w(f"{block + word + k * 0x28:X}", 0)
    t.w("M+1D8", 0x3802)
    t.w("M+1EC", 2)
    t.w("M+800", 1)
    t.note("100 ms")
    t.r("M+1EC", 0)
    t.r("M+808", 0)
    v2_nc(t, 1, 0x3030000)
    t.save()


def v2_first_copy():
    t = Trace("v2_first_copy.trace", "hw-registers.md 10.5, v2: 64 KiB for NC 0, S2M tail then M2S tail")
    t.w("30621038", 2)
    t.w("30601038", 2)
    t.save()


def v3_first_copy():
    t = Trace("v3_first_copy.trace", "hw-registers.md 10.5, v3 and v4: 64 KiB for NC 0")
    t.w("6821038", 2)
    t.w("6801038", 2)
    t.save()


def v2_process_exit():
    t = Trace("v2_process_exit.trace", "hw-registers.md 10.6, v2: queues (3, 5) and (17, 0) go to the dummy ring")
    for e, q in ((3, 5), (17, 0)):
        u = v2_udma(e)
        t.use("queue.trace", T=u + 0x1000 + q * 0x1000, X=u + 0x21000 + q * 0x1000, L=64)
    t.save()


if __name__ == "__main__":
    v2_engine()
    v3_engine("v3_engine.trace", False)
    v3_engine("v4_engine.trace", True)
    v3_masks()
    queue("queue.trace", "hw-registers.md 3.11: queue registers T (M2S) and X (S2M), L descriptors")
    queue("v3_queue_128_0.trace", "hw-registers.md 10.3: QUE(128, 0, 8192); T 6801000, X 6821000",
          0x400012340000, 0x400012380000, 0x2000)
    queue("v3_queue_0_3.trace", "hw-registers.md 10.3: QUE(0, 3, 64); T 82004000, X 82024000",
          0x400040000000, 0x400040000400, 0x40)
    v2_bring_up()
    v2_nc_reset()
    v2_first_copy()
    v3_first_copy()
    v2_process_exit()
