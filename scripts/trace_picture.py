#!/usr/bin/env python3
"""Draws one operation of a trace of `soma run --trace` as SVG.

trace_picture.py TRACE OUT.svg [--anchor d0.cc0] [--operation -1] [--from-us A --to-us B]

Without a time window, draws the last stretch from "trigger" to "done" of the anchor track. Reads the
Perfetto protobuf by hand: field numbers are those of sim/perfetto.proto.
"""
import argparse
import collections
import re
import sys
from xml.sax.saxutils import escape

TRACE_PACKET, TIMESTAMP, TRACK_EVENT, TRACK_DESCRIPTOR = 1, 8, 11, 60
UUID, NAME, PARENT = 1, 2, 5
TYPE, EVENT_TRACK, EVENT_NAME = 9, 11, 23
SLICE_BEGIN, SLICE_END = 1, 2
ANNOTATION, ANNOTATION_UINT, ANNOTATION_NAME = 4, 3, 10
RESULT = b"result after ps"

WIDTH, LABELS, ROW, TOP, MARGIN = 1180, 130, 15, 56, 12
LETTER = 5.4  # width of a letter of 9 px
GROUPS = [  # title, pattern of track names
    ("Engines", r"\.nc\d+\.\w+"),
    ("CC-cores", r"\.cc\d+"),
    ("DMA rings", r"\.dma\d+\.q\d+"),
    ("Directions: between cores, over PCIe", r"\.(cross|pcie)"),
]
COLOURS = {
    "wait": ("#e8e8e8", "waits for a semaphore or a DMA"),
    "reduce": ("#f0a35e", "reduce"),
    "copy": ("#74a9cf", "copy"),
    "signal": ("#c51b8a", "signal (4 bytes to a semaphore)"),
    "busy": ("#9ecb8b", "direction busy"),
    "trigger": ("#6a51a3", "trigger, done"),
    "notify": ("#de2d26", "notification (time stamp)"),
    "other": ("#8c96a8", "other instructions"),
}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Yields (field number, value) of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def result_of(event):
    """Ns from the beginning of an instruction to its result, where that is behind its end."""
    for number, value in fields(event):
        note = dict(fields(value)) if number == ANNOTATION else {}
        if note.get(ANNOTATION_NAME) == RESULT:
            return note[ANNOTATION_UINT] / 1000
    return 0


def load(path, results=False):
    """{track name: [(begin ns, end ns, name)]}; with results, instructions end with theirs."""
    tracks, events = {}, collections.defaultdict(list)
    with open(path, "rb") as file:
        data = file.read()
    for number, value in fields(data):
        if number != TRACE_PACKET:
            continue
        packet = dict(fields(value))
        if TRACK_DESCRIPTOR in packet:
            track = dict(fields(packet[TRACK_DESCRIPTOR]))
            parent = tracks.get(track.get(PARENT))
            own = track[NAME].decode()
            tracks[track[UUID]] = own if parent is None else f"{parent}.{own}"
        if TRACK_EVENT in packet:
            event = dict(fields(packet[TRACK_EVENT]))
            events[event[EVENT_TRACK]].append(
                (packet[TIMESTAMP], event[TYPE], event.get(EVENT_NAME, b"").decode(),
                 result_of(packet[TRACK_EVENT]) if results else 0))
    spans = {}
    for track, name in tracks.items():
        stack, done = [], []
        for time, kind, text, result in events[track]:
            if kind == SLICE_BEGIN:
                stack.append((time, text, result))
            elif kind == SLICE_END and stack:
                begin, text, result = stack.pop()
                done.append((begin, max(time, begin + result), text))
        if done:
            spans[name] = done
    return spans


def window(spans, anchor, operation):
    """From "trigger" to "done" of one operation of a track."""
    found, begin = [], None
    for at, end, name in spans.get(anchor, []):
        if name == "trigger":
            begin = at
        elif name == "done" and begin is not None:
            found.append((begin, end))
            begin = None
    if not found:
        sys.exit(f"no operation on track {anchor}; tracks: {' '.join(sorted(spans))}")
    return found[operation]


def kind_of(name):
    if name.endswith(" wait") or name.startswith("wait: "):
        return "wait"
    first = name.split(" ")[0]
    return "trigger" if first == "done" else first if first in COLOURS else "other"


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def text(x, y, what, size=10, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(what)}</text>')


def box(x, y, width, colour, title=""):
    inner = f"<title>{escape(title)}</title>" if title else ""
    return (f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{ROW - 3}" '
            f'fill="{colour}">{inner}</rect>')


def draw_row(name, y, spans, begin, scale):
    """One track: its name and its spans, signals last because they are thin."""
    parts = [text(LABELS - 6, y + ROW - 5, name, anchor="end")]
    for at, end, what in sorted(spans, key=lambda span: kind_of(span[2]) == "signal"):
        kind = kind_of(what)
        x, width = LABELS + (at - begin) * scale, max((end - at) * scale, 1.2)
        parts.append(box(x, y, width, COLOURS[kind][0], f"{what}, {end - at} ns"))
        if len(what) * LETTER < width:
            parts.append(text(x + width / 2, y + ROW - 6, what, size=9, anchor="middle"))
        elif width > 3:  # neighbours of one kind stay apart
            parts.append(f'<path d="M{x + width:.2f} {y}v{ROW - 3}" stroke="#fff" '
                         'stroke-width="0.6"/>')
    return parts


def axis(y, bottom, span, scale):
    parts, step = [], next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 1000) if span / 1000 / s <= 15)
    for tick in range(int(span / 1000 / step) + 1):
        x = LABELS + tick * step * 1000 * scale
        parts.append(f'<path d="M{x:.1f} {y}V{bottom}" stroke="#ccc" stroke-width="0.5"/>')
        parts.append(text(x, y - 4, f"{tick * step:g} us", anchor="middle"))
    return parts


def legend(y, kinds):
    parts, x = [], 12
    for kind, (colour, meaning) in COLOURS.items():
        if kind in kinds:
            parts += [box(x, y, 12, colour), text(x + 17, y + ROW - 5, meaning)]
            x += 32 + len(meaning) * 5.6
    return parts


def picture(spans, begin, end):
    scale = (WIDTH - LABELS - MARGIN) / (end - begin)
    seen = {name: [(max(a, begin), min(b, end), what) for a, b, what in rows
                   if a < end and b > begin] for name, rows in spans.items()}
    body, y, kinds = [], TOP, set()
    for title, pattern in GROUPS:
        names = sorted((n for n in seen if seen[n] and re.search(pattern, n)), key=natural)
        if not names:
            continue
        body.append(text(12, y + 11, title, size=11, weight="bold"))
        y += ROW + 2
        for name in names:
            body += draw_row(name, y, seen[name], begin, scale)
            kinds |= {kind_of(what) for _, _, what in seen[name]}
            y += ROW
        y += 6
    height = y + MARGIN
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="DejaVu Sans, sans-serif">',
            '<rect width="100%" height="100%" fill="#fff"/>']
    return "\n".join(head + legend(10, kinds) + axis(TOP - 8, y, end - begin, scale) + body +
                     ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--anchor", default="d0.cc0", help="track whose operation is drawn")
    parser.add_argument("--operation", type=int, default=-1, help="which; negative from the last")
    parser.add_argument("--from-us", type=float, help="time window instead of an operation")
    parser.add_argument("--to-us", type=float)
    args = parser.parse_args()
    spans = load(args.trace)
    if args.from_us is not None and args.to_us is not None:
        begin, end = args.from_us * 1000, args.to_us * 1000
    else:
        begin, end = window(spans, args.anchor, args.operation)
    with open(args.out, "w", encoding="ascii") as file:
        file.write(picture(spans, begin, end))


if __name__ == "__main__":
    main()
