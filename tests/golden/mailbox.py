"""Golden scripts of the mailboxes: spec/hw-registers.md 7.5, 7.6 and 10.9."""
from mailbox_message import message
from writer import REQUEST, RESPONSE, Script, at


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
    t = Script(g.file("metric"), f"spec/hw-registers.md 10.9 and 7.5, {g.name}: 128 bytes of metrics, sequence 2")
    t.base("M", g.misc)
    t.memory("REQ", REQUEST)
    t.memory("RESP", RESPONSE)
    for k in range(32):
        t.w(at("M", 0x100 + k * 4), int.from_bytes(METRIC[k * 4:k * 4 + 4], "little"))
    request(t, g, 2, 2, METRIC)


def steady(g):
    t = Script(g.file("steady"), f"spec/hw-registers.md 10.9, {g.name}: power samples, metrics, counters through the mailbox")
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
    t = Script(g.file("power_profile"), f"spec/hw-registers.md 7.6, {g.name}: SET POWER PROFILE 5, sequence 2")
    t.base("M", g.misc)
    t.r("M+0", API[g.number])
    register_request(t, g, 2, 3, bytes([0, 0, 0, 0, 5, 0, 0, 0]), b"", "60s")


def crc_of(sequence, command, payload):
    return int.from_bytes(message(sequence, command, payload)[4:8], "little")


def write(g):
    metric(g)
    steady(g)
    if not g.v2:
        power_profile(g)
