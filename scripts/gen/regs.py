#!/usr/bin/env python3
"""Turns data/regs/<block>.json into generated/contract/regs/<block>.h.

A register file names a block, its source section and a list of registers. Each register has a name,
an offset and optionally
  access   rw (default), ro, wo, rc (read clears), w0c (write 0 clears), w1s (write 1 sets another
           register), w0t (write 0 clears bits of another register)
  reset    value after reset, 0
  mask     bits that can be written, all
  gens     generations that have it, [2, 3, 4]; of a block or group: of all its registers
  kind     function (default): what it does is modelled; storage: it holds what is written and that is
           all there is to it; unsupported: accepted as storage, its effect is not modelled
  fields   {name: [lsb, width]}
  doc      one line
A group ({"group", "offset", "stride", "count", "registers"}) repeats its registers. The output is
freestanding constexpr C++: an offset constant per register (kQRingBaseLo is relative to its group),
Field constants, and kRegs, the table of every known register of the block."""
import json
import sys

ACCESS = {"rw": "kReadWrite", "ro": "kReadOnly", "wo": "kWriteOnly", "rc": "kReadClear",
          "w0c": "kWrite0Clear", "w1s": "kWriteOnly", "w0t": "kWriteOnly"}
KIND = {"function": "kFunction", "storage": "kStorage", "unsupported": "kUnsupported"}
KEYS = {"name", "offset", "access", "reset", "mask", "gens", "kind", "supported", "fields", "doc"}
GROUP_KEYS = {"group", "offset", "stride", "count", "gens", "doc", "registers"}


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def num(text):
    return int(str(text), 0)


def gens_mask(gens):
    return sum(1 << g for g in gens)


class Emitter:
    def __init__(self, path):
        self.path = path
        self.block = json.load(open(path))
        self.gens = self.block.get("gens", [2, 3, 4])
        self.lines = []
        self.table = []
        self.seen = set()

    def fail(self, message):
        raise SystemExit(f"{self.path}: {message}")

    def constants(self, reg, prefix):
        unknown = set(reg) - KEYS
        if unknown:
            self.fail(f"{reg['name']}: unknown keys {sorted(unknown)}")
        ident = "k" + camel(prefix + reg["name"])
        if ident in self.seen:
            self.fail(f"{ident} is defined twice")
        self.seen.add(ident)
        doc = reg.get("doc", reg["name"])
        self.lines.append(f"constexpr uint32_t {ident} = 0x{num(reg['offset']):X};  // {doc}")
        for field, (lsb, width) in reg.get("fields", {}).items():
            self.lines.append(f"constexpr Field {ident}{camel(field)}{{{lsb}, {width}}};")

    def row(self, reg, name, offset, stride, count, gens):
        kind = reg.get("kind", "function" if reg.get("supported", True) else "unsupported")
        doc = reg.get("doc", "").replace('"', "'")
        self.table.append((offset, f'{{"{name}", 0x{offset:X}, 0x{stride:X}, {count}, '
                           f'Access::{ACCESS[reg.get("access", "rw")]}, 0x{num(reg.get("reset", 0)):X}, '
                           f'0x{num(reg.get("mask", 0xFFFFFFFF)):X}, {gens_mask(reg.get("gens", gens))}, '
                           f'RegKind::{KIND[kind]}, "{doc}"}},'))

    def group(self, item):
        unknown = set(item) - GROUP_KEYS
        if unknown:
            self.fail(f"{item['group']}: unknown keys {sorted(unknown)}")
        name = item["group"]
        ident = "k" + camel(name)
        offset, stride, count = num(item["offset"]), num(item["stride"]), num(item["count"])
        doc = item.get("doc", "")
        self.lines.append(f"constexpr uint32_t {ident} = 0x{offset:X};  // {doc}".rstrip("/ "))
        self.lines.append(f"constexpr uint32_t {ident}Stride = 0x{stride:X};")
        self.lines.append(f"constexpr uint32_t {ident}Count = {count};")
        for reg in item["registers"]:
            self.constants(reg, name + "_")
            self.row(reg, f"{name}_{reg['name']}", offset + num(reg["offset"]), stride, count,
                     item.get("gens", self.gens))

    def emit(self):
        name = self.block["block"]
        for item in self.block["registers"]:
            if "group" in item:
                self.group(item)
            else:
                self.constants(item, "")
                self.row(item, item["name"], num(item["offset"]), 0, 1, self.gens)
        head = [f"// Generated from data/regs/{name}.json by scripts/gen/regs.py; do not edit.",
                "#pragma once", "", '#include "arch/contract/reg.h"', "",
                f"namespace contract::{name} {{", "",
                f"// {self.block['title']}. Source: {self.block['source']}",
                f'constexpr const char* kTitle = "{self.block["title"]}";',
                f'constexpr const char* kSource = "{self.block["source"]}";']
        rows = ["", "constexpr RegInfo kRegs[] = {"]
        rows += [f"    {text}" for _, text in sorted(self.table, key=lambda r: r[0])]
        return "\n".join(head + self.lines + rows + ["};", "", f"}}  // namespace contract::{name}", ""])


if __name__ == "__main__":
    text = Emitter(sys.argv[1]).emit()
    open(sys.argv[2], "w").write(text)
