"""Golden scripts of the election of an ultraserver: spec/hw-registers.md 9 and 10.8, v3 and v4."""
from writer import BUFFER, Script, at, init_engine

ELECTION = 0x4000000  # host memory of the first device's remote reads, 1 MiB for each device
SERIAL = 0x0123456700001000  # of node 0 in the script of four nodes
WINDOWS, WINDOW = 0x10_0000_0000_0000, 0x4_0000_0000_0000  # of the neighbours (2.4)


def election_engines(g):
    return (36, 68, 4, 100) if g.number == 3 else (40, 72, 8, 104)


def election_places(k):
    """M2S ring, S2M ring and page of the k-th engine, from H on."""
    return (f"H+{k * 0x10000 + offset:X}" for offset in (0, 0x4000, 0x8000))


def remote_read(t, g, k, slot, offset, size):
    """9.3: `size` bytes of the neighbour's misc RAM through the k-th engine."""
    e = election_engines(g)[k]
    tx, rx, page = election_places(k)
    window = WINDOWS + e // 32 * WINDOW
    t.use(g.file("election_read"), TX=tx, RX=rx, P=page, I=slot, N=size, A=window + g.misc_device + offset,
          S=g.udma(e) + 0x21038, T=g.udma(e) + 0x1038)


def election_parts(g):
    t = Script(g.file("election_read"), f"spec/hw-registers.md 9.3, {g.name}: N bytes at A to page P, slots I and I+1 of the rings")
    t.line("host", "write", "P", 1, 0)
    t.line("desc", "TX+I*10", "D000000+N", 0x5080003, "A")
    t.line("desc", "RX+I*10", "1000000+N", 0, f"{g.window:X}+P+8")
    t.line("desc", "TX+I*10+10", 0xD000004, 0x5080003, f"{g.window:X}+P")
    t.line("desc", "RX+I*10+10", 0x1000004, 0, f"{g.window:X}+P+4")
    t.w("S", 2)
    t.w("T", 2)
    t.line("host", "poll", "P+4", 1, "4us", "4ms")

    t = Script(g.file("election_start"), f"spec/hw-registers.md 10.8 steps 2 and 3, {g.name}: engines, rings, status V")
    for k, e in enumerate(election_engines(g)):
        init_engine(t, g, e, 0x3030000, again=True)
        tx, rx, _ = election_places(k)
        u = g.udma(e)
        t.use("queue.trace", T=u + 0x1000, X=u + 0x21000, L=0x400, TX=f"{tx}+{g.window:X}", RX=f"{rx}+{g.window:X}")
    t.w(f"{g.misc + 0x190:X}", "V")

    t = Script(g.file("election_serials"), f"spec/hw-registers.md 10.8 step 4, {g.name}: serial numbers through all four engines")
    for k in range(4):
        remote_read(t, g, k, 0, 0x38, 8)
    t = Script(g.file("election_offer"), f"spec/hw-registers.md 10.8 step 5, {g.name}: the values LEFT and RIGHT")
    for word, value in ((0x180, "hi(LEFT)"), (0x184, "lo(LEFT)"), (0x188, "hi(RIGHT)"), (0x18C, "lo(RIGHT)")):
        t.w(f"{g.misc + word:X}", value)
    t = Script(g.file("election_exchange"), f"spec/hw-registers.md 10.8 step 6, {g.name}: the neighbours' values")
    for k in (0, 2):
        remote_read(t, g, k, 2, 0x180, 16)
    t = Script(g.file("election_status"), f"spec/hw-registers.md 10.8 steps 7 to 9, {g.name}: status V, that of the neighbours, data gone")
    t.w(f"{g.misc + 0x190:X}", "V")
    for k in (0, 2):
        remote_read(t, g, k, 4, 0x190, 4)
    for word in (0x18C, 0x188, 0x184, 0x180):
        t.w(f"{g.misc + word:X}", 0)
    t = Script(g.file("election_result"), f"spec/hw-registers.md 10.8 step 10, {g.name}: status word V, pod serial number POD")
    t.w(f"{g.misc + 0x190:X}", "V")
    t.w(f"{g.misc + 0x194:X}", "hi(POD)")
    t.w(f"{g.misc + 0x198:X}", "lo(POD)")


def election_devices(g):
    """A node's device in one piece, when no neighbour keeps it waiting: what a driver's log is compared with."""
    t = Script(g.file("election_secondary"), f"spec/hw-registers.md 10.8, {g.name}: device D of a node of four")
    t.use(g.file("election_start"), H="H", V=0)
    t.use(g.file("election_serials"), H="H")
    t.use(g.file("election_offer"), LEFT="D", RIGHT="D")
    t.use(g.file("election_exchange"), H="H")
    t.use(g.file("election_status"), H="H", V=3)
    t = Script(g.file("election_primary"), f"spec/hw-registers.md 10.2 step 17 and 10.8, {g.name}: device 0; neighbours LEFT and RIGHT")
    for word in (0x190, 0x194, 0x198):
        t.r(f"{g.misc + word:X}")
    for word in (0x24, 0x38, 0x3C):
        t.line("RNO", f"{g.misc + word:X}", "*")
    t.use(g.file("election_start"), H="H", V=0xFF0000)
    t.use(g.file("election_serials"), H="H")
    t.use(g.file("election_offer"), LEFT="LEFT", RIGHT="RIGHT")
    t.use(g.file("election_exchange"), H="H")
    t.use(g.file("election_status"), H="H", V=0xFF0003)
    t.use(g.file("election_result"), V="V", POD="POD")


def halves(value):
    return value & 0xFFFFFFFF, value >> 32


def four_nodes(g):
    """Four devices of one index, one in each node, first as secondaries, then as primaries."""
    t = Script(g.file("election"), f"spec/hw-registers.md 9 and 10.8, {g.name}: the four nodes of an ultraserver")
    sides = [(n ^ 1, (n + 1 if n % 2 else n + 3) % 4) for n in range(4)]  # 9.5
    place = [f"{ELECTION + n * 0x100000:X}" for n in range(4)]
    page = lambda n, k: f"{ELECTION + n * 0x100000 + k * 0x10000 + 0x8008:X}"

    def each(name, **names):
        for n in range(4):
            t.line("device", str(n))
            t.play(g.file(name), H=place[n], **{k: v(n) if callable(v) else v for k, v in names.items()})

    for n, (left, right) in enumerate(sides):
        if n < left:
            t.line("cable", "left", str(n), str(left))
        if n < right:
            t.line("cable", "right", str(n), str(right))
    for n in range(4):
        t.line("device", str(n))
        t.play(g.file("bring_up"))
        for word, value in zip((0x38, 0x3C), halves(SERIAL + n)):
            t.line("write", f"{g.misc + word:X}", value)
    for what, index in (("device 5 of each node", 5), ("device 0 of each node", 0)):
        t.note(what)
        value = lambda n: index or SERIAL + n
        each("election_start", V=0 if index else 0xFF0000)
        each("election_serials")
        for n in range(4):
            for k in range(4):
                t.line("host", "expect", page(n, k), *halves(SERIAL + sides[n][k // 2]))
        offer = [[index or SERIAL + other for other in sides[n]] for n in range(4)]
        each("election_offer", LEFT=lambda n: offer[n][0], RIGHT=lambda n: offer[n][1])
        each("election_exchange")
        for n in range(4):
            for side, k in ((0, 0), (1, 2)):
                left, right = offer[sides[n][side]]
                t.line("host", "expect", page(n, k), *halves(left)[::-1], *halves(right)[::-1])
        t.note("a status is there before a neighbour asks for it")
        for n in range(4):
            t.line("device", str(n))
            t.line("write", f"{g.misc + 0x190:X}", 3 if index else 0xFF0003)
        each("election_status", V=3 if index else 0xFF0003)
        for n in range(4):
            for k in (0, 2):
                t.line("host", "expect", page(n, k), 3 if index else 0xFF0003)
            t.line("device", str(n))
            for word in (0x180, 0x184, 0x188, 0x18C):
                t.line("expect", f"{g.misc + word:X}", 0)
    t.note("the lowest serial number is that of node 0, and of the pod")
    each("election_result", V=lambda n: 0x04000303 | n << 16, POD=SERIAL)
    t.note("7.1: the result outlives a device reset")
    t.line("device", "2")
    t.play(g.file("device_reset"))
    for word, value in ((0x190, 0x04020303), (0x194, SERIAL >> 32), (0x198, SERIAL & 0xFFFFFFFF)):
        t.line("expect", f"{g.misc + word:X}", value)


# --- one node, whose neighbours the script plays on other devices ------------------------------

class Reader:
    """The remote reads of one device, each checked at once."""

    def __init__(self, g, device):
        self.g = g
        self.engines = election_engines(g)
        self.place = ELECTION + device * 0x100000
        self.slot = dict.fromkeys(self.engines, 0)

    def rings(self, e):
        base = self.place + self.engines.index(e) * 0x10000
        return base, base + 0x4000, base + 0x8000

    def start(self, t, how, e):
        tx, rx, _ = self.rings(e)
        t.memory("TX", tx)
        t.memory("RX", rx)
        u, window = self.g.udma(e), f"{self.g.window:X}"
        t.insert(how, "queue.trace", T=u + 0x1000, X=u + 0x21000, L=1024, TX=f"TX+{window}", RX=f"RX+{window}")

    def read(self, t, how, e, offset, words, expected=None):
        """Reads words of the neighbour's misc RAM; then compares them."""
        tx, rx, page = self.rings(e)
        u = self.g.udma(e)
        remote = WINDOWS + e // 32 * WINDOW + self.g.misc_device + offset
        t.insert(how, self.g.file("election_read"), TX=tx, RX=rx, P=page, I=self.slot[e], N=words * 4, A=remote,
                 S=u + 0x21038, T=u + 0x1038)
        self.slot[e] += 2
        if expected is not None:
            t.line("host", "expect", page + 8, *expected)


# Serial numbers of device 0 and 1 of the nodes; node 0 is in the middle, so that its id is not 0.
SERIALS = {(0, 0): (0x20, 0x22220000), (1, 0): (0x10, 0x11110001), (2, 0): (0x40, 0x44440002),
           (3, 0): (0x30, 0x33330003), (0, 1): (0x21, 0x22221000), (1, 1): (0x11, 0x11111001),
           (3, 1): (0x31, 0x33331003)}
# Left cables join nodes 0-1 and 2-3, right cables 1-2 and 3-0 (9.5).
MACHINE = {(0, 0): 0, (0, 1): 1, (1, 0): 2, (1, 1): 3, (3, 0): 4, (3, 1): 5}
LEFT, RIGHT = 1, 3  # neighbours of node 0


def neighbour_writes(t, g, who, pairs):
    t.line("device", str(MACHINE[who]))
    for word, value in pairs:
        t.line("write", f"{g.misc + word:X}", value)


def data_words(values):
    return list(zip((0x180, 0x184, 0x188, 0x18C), values))


def elect(t, g, d, reader):
    """Steps 1 to 10 for device d of node 0, with its neighbours' part in between."""
    primary = d == 0
    left, right = (LEFT, d), (RIGHT, d)
    sl, sr = SERIALS[left], SERIALS[right]
    mine = sl + sr if primary else (0, d, 0, d)
    e = reader.engines
    t.note(f"device {d}")
    t.line("device", str(MACHINE[(0, d)]))
    t.base("M", g.misc)
    if primary:
        t.note("step 1")
        for word in (0x24, 0x38, 0x3C):
            t.line("RNO", at("M", word), "*")
    t.note("step 2")
    for engine_number in e:
        init_engine(t, g, engine_number, 0x3030000, again=True)
        reader.start(t, "use", engine_number)
    t.note("step 3")
    t.w("M+190", 0xFF0000 if primary else 0)
    t.note("step 4; the right neighbour is not up at first")
    reader.read(t, "use", e[0], 0x38, 2, (sl[1], sl[0]))
    reader.read(t, "use", e[1], 0x38, 2, (sl[1], sl[0]))
    reader.read(t, "use", e[2], 0x38, 2, (0, 0))
    neighbour_writes(t, g, right, ((0x3C, sr[0]), (0x38, sr[1])))
    t.line("device", str(MACHINE[(0, d)]))
    t.line("wait", "50ms")
    reader.read(t, "use", e[2], 0x38, 2, (sr[1], sr[0]))
    reader.read(t, "use", e[3], 0x38, 2, (sr[1], sr[0]))
    t.note("step 5")
    for word, value in data_words(mine):
        t.w(at("M", word), value)
    t.note("step 6; first there are no data at the left, then they are whole")
    their_left = SERIALS[(0, 0)] + SERIALS[(2, 0)] if primary else (0, d, 0, d)
    their_right = SERIALS[(2, 0)] + SERIALS[(0, 0)] if primary else (0, d, 0, d)
    reader.read(t, "use", e[0], 0x180, 4, (0, 0, 0, 0))
    neighbour_writes(t, g, left, data_words(their_left))
    neighbour_writes(t, g, right, data_words(their_right))
    t.line("device", str(MACHINE[(0, d)]))
    t.line("wait", "50ms")
    reader.read(t, "use", e[0], 0x180, 4, their_left)
    reader.read(t, "use", e[2], 0x180, 4, their_right)
    t.note("step 7")
    t.w("M+190", 0xFF0003 if primary else 3)
    t.note("step 8")
    reader.read(t, "use", e[0], 0x190, 1, (0xFF0000 if primary else 0,))
    for who in (left, right):
        neighbour_writes(t, g, who, ((0x190, 0xFF0003 if primary else 3),))
    t.line("device", str(MACHINE[(0, d)]))
    t.line("wait", "50ms")
    reader.read(t, "use", e[0], 0x190, 1, (0xFF0003 if primary else 3,))
    reader.read(t, "use", e[2], 0x190, 1, (0xFF0003 if primary else 3,))


def finish_election(t, g, d):
    t.line("device", str(MACHINE[(0, d)]))
    t.note("step 9")
    for word in (0x18C, 0x188, 0x184, 0x180):
        t.w(at("M", word), 0)
    if d == 0:
        t.note("step 10: S >= D, L < R: the serial of the left neighbour is the lowest; node 1 of 4")
        t.w("M+190", 0x04010303)
        t.w("M+194", SERIALS[(LEFT, 0)][0])
        t.w("M+198", SERIALS[(LEFT, 0)][1])


def one_node(g):
    t = Script(g.file("election_node"), f"spec/hw-registers.md 10.8, {g.name}: device 1, then device 0 of node 0; the script plays "
               "nodes 1 (left) and 3 (right), which are late")
    for d in (0, 1):
        t.line("cable", "left", str(MACHINE[(0, d)]), str(MACHINE[(1, d)]))
        t.line("cable", "right", str(MACHINE[(0, d)]), str(MACHINE[(3, d)]))
    for who, number in sorted(MACHINE.items(), key=lambda item: item[1]):
        t.line("device", str(number))
        t.play(g.file("bring_up" if who[0] == 0 else "probe"))
        serial = (0, 0) if who[0] == RIGHT else SERIALS[who]
        for word, value in ((0x3C, serial[0]), (0x38, serial[1]), (0x190, 0xFF0000 if who[1] == 0 else 0)):
            t.line("write", f"{g.misc + word:X}", value)
    for d in (1, 0):
        elect(t, g, d, Reader(g, d))
        t.note("the other direction: each neighbour sees what the device has written last")
        for who, engines in (((LEFT, d), (0, 1)), ((RIGHT, d), (2, 3))):
            reader = Reader(g, MACHINE[who] + 8)
            t.line("device", str(MACHINE[who]))
            for index in engines:
                e = reader.engines[index]
                init_engine(t, g, e, 0x30000, how="play")
                reader.start(t, "play", e)
                reader.read(t, "play", e, 0x190, 1, (0xFF0003 if d == 0 else 3,))
        finish_election(t, g, d)
    t.note("8.4: what an election wrote survives a device reset")
    t.play(g.file("device_reset"))
    t.line("expect", "M+190", 0x04010303)
    t.line("expect", "M+194", SERIALS[(LEFT, 0)][0])
    t.line("expect", "M+198", SERIALS[(LEFT, 0)][1])


def unlinked(g):
    t = Script(g.file("unlinked"), f"spec/hw-registers.md 9.3, {g.name}: a neighbour that is not there does not answer")
    t.line("cable", "left", "0", "1")
    t.line("device", "1")
    t.play(g.file("probe"))
    t.line("device", "0")
    t.play(g.file("bring_up"))
    reader = Reader(g, 0)
    left, right = reader.engines[0], reader.engines[2]
    for e in (left, right):
        reader.start(t, "play", e)
    tx, rx, page = reader.rings(right)
    t.line("host", "write", page, 1, 0)
    t.line("desc", tx, 0xD000008, 0x5080003, WINDOWS + g.misc_device + 0x38)
    t.line("desc", rx, 0x1000008, 0, g.window | page + 8)
    t.line("desc", tx + 16, 0xD000004, 0x5080003, g.window | page)
    t.line("desc", rx + 16, 0x1000004, 0, g.window | page + 4)
    t.line("write", f"{g.udma(right) + 0x21038:X}", 2)
    t.line("write", f"{g.udma(right) + 0x1038:X}", 2)
    t.line("wait", "4ms")
    t.line("host", "expect", page, 1, 0, 0, 0)
    t.note("the other side works, and this one again after a queue reset")
    reader.read(t, "play", left, 0x38, 1)
    reader.start(t, "play", right)
    t.line("host", "fill", BUFFER, 0x10000, 7)
    t.play(g.file("copy"), TX=tx, RX=rx, K=page, I=0, R=1, N=0, S=g.udma(right) + 0x21038, T=g.udma(right) + 0x1038,
           FROM=g.window | BUFFER, TO=g.hbm(0)[0])
    t.line("hbm", "check", g.hbm(0)[1], 0x10000, 7)

def write(g):
    election_parts(g)
    election_devices(g)
    four_nodes(g)
    one_node(g)
    unlinked(g)
