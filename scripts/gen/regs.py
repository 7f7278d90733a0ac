#!/usr/bin/env python3
"""Turns data/regs/<block>.json into generated/contract/regs/<block>.h.

A register file names a block, its source section and a list of registers. Each register has a name,
an offset, an access ("rw", "ro", "wo", "w1", "rc"), a reset value, optional fields ([lsb, width]) and a
one-line meaning. A group ({"group", "offset", "stride", "count", "registers"}) repeats its registers.
The output is freestanding constexpr C++: an offset constant per register (kQRingBaseLo is relative to
its group), Field constants, and kRegs, the table of every known register of the block."""
import json
import sys


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def num(text):
    return int(str(text), 0)


def emit(path, out_path):
    block = json.load(open(path))
    name = block["block"]
    lines = [f"// Generated from data/regs/{name}.json by scripts/gen/regs.py; do not edit.",
             "#pragma once", "", '#include "arch/contract/reg.h"', "", f"namespace contract::{name} {{", "",
             f"// {block['title']}. Source: {block['source']}"]
    table = []
    seen = set()

    def constants(reg, prefix):
        ident = "k" + camel(prefix + reg["name"])
        if ident in seen:
            raise SystemExit(f"{path}: {ident} is defined twice")
        seen.add(ident)
        access = {"rw": "kReadWrite", "ro": "kReadOnly", "wo": "kWriteOnly"}[reg.get("access", "rw")]
        lines.append(f"constexpr uint32_t {ident} = 0x{num(reg['offset']):X};  // {reg.get('doc', reg['name'])}")
        for field, (lsb, width) in reg.get("fields", {}).items():
            lines.append(f"constexpr Field {ident}{camel(field)}{{{lsb}, {width}}};")
        return access

    for item in block["registers"]:
        if "group" in item:
            g = item["group"]
            ident = "k" + camel(g)
            lines.append(f"constexpr uint32_t {ident} = 0x{num(item['offset']):X};  // {item.get('doc', '')}".rstrip())
            lines.append(f"constexpr uint32_t {ident}Stride = 0x{num(item['stride']):X};")
            lines.append(f"constexpr uint32_t {ident}Count = {num(item['count'])};")
            for reg in item["registers"]:
                access = constants(reg, g + "_")
                table.append((f"{g}_{reg['name']}", num(item["offset"]) + num(reg["offset"]), num(item["stride"]),
                              num(item["count"]), access, num(reg.get("reset", 0)), reg.get("supported", True)))
        else:
            access = constants(item, "")
            table.append((item["name"], num(item["offset"]), 0, 1, access, num(item.get("reset", 0)),
                          item.get("supported", True)))
    lines += ["", "constexpr RegInfo kRegs[] = {"]
    for reg, offset, stride, count, access, reset, supported in sorted(table, key=lambda r: r[1]):
        lines.append(f'    {{"{reg}", 0x{offset:X}, 0x{stride:X}, {count}, Access::{access}, 0x{reset:X}, '
                     f'{str(supported).lower()}}},')
    lines += ["};", "", f"}}  // namespace contract::{name}", ""]
    open(out_path, "w").write("\n".join(lines))


if __name__ == "__main__":
    emit(sys.argv[1], sys.argv[2])
