"""What the makers of golden scripts share: scripts, the addresses of each generation, engine initialisation.

Source: spec/hw-registers.md 2.2 to 2.5, 3.10, 3.12.
"""
FILES = {}

# Host memory of the player. A driver puts these things where it likes.
REQUEST, RESPONSE, DUMMY, RINGS, BUFFER, QUEUES = 0x10000, 0x20000, 0x30000, 0x100000, 0x2000000, 0x3000000
MARK = 0xABCDEF01
RESERVED = 0x1000000  # the lowest 16 MiB of a stack belong to firmware (2.6)


class Script:
    def __init__(self, name, title):
        self.lines = [f"# {title}"]
        FILES[name] = self.lines

    def note(self, text):
        self.lines.append(f"# {text}")

    def line(self, *words):
        self.lines.append(" ".join(w if isinstance(w, str) else format(w, "X") for w in words))

    def base(self, name, value):
        self.line("base", name, value)

    def memory(self, name, value):
        self.line("memory", name, value)

    def w(self, address, value):
        self.line("W", address, value)

    def r(self, address, value="*"):
        self.line("R", address, value)

    def insert(self, how, name, **names):
        self.line(how, name, *(f"{k}={v if isinstance(v, str) else format(v, 'X')}" for k, v in names.items()))

    def use(self, name, **names):
        self.insert("use", name, **names)

    def play(self, name, **names):
        self.insert("play", name, **names)


def at(base, offset):
    return f"{base}+{offset:X}"


class Generation:
    """Addresses of spec/hw-registers.md 2.2 to 2.5 and 3.12."""

    def __init__(self, number):
        self.number = number
        self.name = f"v{number}"
        self.v2 = number == 2
        self.misc = 0x30FA0000 if self.v2 else 0x06C84000
        self.misc_device = 0x0FFFF0FA0000 if self.v2 else 0x008006C84000
        self.window = 1 << 44 if self.v2 else 1 << 46
        self.ncs = 2 if self.v2 else 8
        self.compute = 32 if self.v2 else 128
        self.give_up = "120s" if self.v2 else "480s"
        self.copy_limit = "40ms" if self.v2 else "20ms"
        self.qemu = 0x30647010 if self.v2 else 0x06300010

    def file(self, what):
        return f"{self.name}_{what}.trace"

    def udma(self, e):
        if self.v2:
            if e < 16:
                return 0x30000000 + e * 0x40000
            return {32: 0x30600000, 33: 0x30D00000}.get(e, 0x30700000 + (e - 16) * 0x40000)
        if e >= 128:
            return (0x06800000, 0x06900000, 0x46800000, 0x46900000)[e - 128]
        return (0x82000000, 0x94000000, 0xA2000000, 0xB4000000)[e // 32] + e % 32 * 0x100000

    def sdma(self, e):
        if self.v2 and e < 16:
            return 0x30400000 + e * 0x7000
        if self.v2 and e < 32:
            return 0x30B00000 + (e - 16) * 0x7000
        return self.udma(e) + 0x40000

    def error_trigger(self, e):
        return (0x8C000000, 0x9C400000, 0xAC000000, 0xBC400000)[e // 32] + e % 32 * 0x20000

    def nc_nq(self, n):
        if self.v2:
            return (0x30535000, 0x30C35000)[n]
        return 0x06001000 + n // 4 * 0x40000000 + n // 2 % 2 * 0x400000 + n % 2 * 0x180000

    def topsp_nq(self, t):
        if self.v2:
            return 0x30E04000 + t * 0x40000
        return 0x06A00000 + t // 8 * 0x40000000 + t % 8 * 0x40000

    def h2t(self, n):
        return (32 + n, 0) if self.v2 else (128 + n // 2, n % 2)

    def reset_map(self, n):
        return (0x701, 0x3802)[n] if self.v2 else 0x10101 << n

    def hbm(self, n):
        """Device address and BAR4 offset of the first free byte near NC n."""
        if self.v2:
            return n * 0x1000000000 + RESERVED, n * 0x400000000 + RESERVED
        h = n // 2
        return (0, 0x4000000000, 0x800000000000, 0x804000000000)[h] + RESERVED, h * 0x1000000000 + RESERVED


GENERATIONS = [Generation(n) for n in (2, 3, 4)]


V2_BROADCAST_LAST = (0, 3, 6, 9, 15)


def init_engine(t, g, e, first, again=False, how="use"):
    """ENG2(e), ENG3(e) or ENG4(e)."""
    s = g.sdma(e)
    if g.v2 and e < 32:
        op = "W" if how == "use" else "write"
        t.line(op, f"{s + 0x100:X}", 0xFFFF >> e % 16)
        t.line(op, f"{s + 0x104:X}", 0xFFFF if e % 16 in V2_BROADCAST_LAST else 0)
    body = "engine_again" if again and g.number == 4 else "engine"
    t.insert(how, g.file(body), U=g.udma(e), S=s, Q=first)
    if not g.v2 and e < 128:
        masks = "v3_engine_masks_again.trace" if again else "v3_engine_masks.trace"
        t.insert(how, masks, U=g.udma(e), F=g.error_trigger(e))
