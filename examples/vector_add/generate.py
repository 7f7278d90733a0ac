#!/usr/bin/env python3
"""Writes the members of a vector-add NEFF of any size: generate.py ELEMENTS DIRECTORY [--arch trn1].

c = a + b over float32. The elements are laid out over the 128 partitions of the state buffer in
tiles; each tile is loaded, added by the Vector engine, and stored. Turn the directory into a file
with:  neff pack DIRECTORY -o vector_add.neff
"""
import argparse
import json
import pathlib

PARTITIONS = 128
PITCH = 0x40000           # bytes from one partition to the next
FLOAT = 4
SLOT = 16 * 1024          # bytes of one operand per partition in one tile


def tiles(elements):
    """Yields (first element, partitions, elements per partition) of each tile."""
    per_slot = SLOT // FLOAT
    done = 0
    while done < elements:
        left = elements - done
        if left < PARTITIONS:
            yield done, 1, left
            done += left
        else:
            columns = min(per_slot, left // PARTITIONS)
            yield done, PARTITIONS, columns
            done += columns * PARTITIONS


def transfer(tensor, slot, first, partitions, columns, store):
    row = columns * FLOAT
    hbm = {"off": first * FLOAT, "sizes": [row, partitions], "steps": [1, row]}
    sbuf = {"off": slot * SLOT, "sizes": [row, partitions], "steps": [1, PITCH]}
    source, destination = (sbuf, hbm) if store else (hbm, sbuf)
    names = ("SB", tensor) if store else (tensor, "SB")
    return {"op": "copy",
            "from": names[0], "from_off": source["off"], "from_sizes": source["sizes"], "from_steps": source["steps"],
            "to": names[1], "to_off": destination["off"], "to_sizes": destination["sizes"],
            "to_steps": destination["steps"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("elements", type=int)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--arch", default="trn1")
    options = parser.parse_args()
    if options.elements < 1:
        parser.error("ELEMENTS must be positive")
    size = options.elements * FLOAT
    dma, sync, vector = [], [f".engine sp", f".arch {options.arch}"], [f".engine dve", f".arch {options.arch}"]
    for k, (first, partitions, columns) in enumerate(tiles(options.elements)):
        for i, tensor in enumerate("ab"):
            dma.append({"id": 3 * k + i + 1, "queue": "qSyncIn0", "semaphore": 10,
                        "desc": [transfer(tensor, i, first, partitions, columns, False)]})
        dma.append({"id": 3 * k + 3, "queue": "qSyncOut0", "semaphore": 11,
                    "desc": [transfer("c", 2, first, partitions, columns, True)]})
        free = f"$S[11]>={16 * k} " if k else ""
        sync += [f"PSEUDO_DMA_TRIGGER {free}qSyncIn0 block_id={3 * k + 1}",
                 f"PSEUDO_DMA_TRIGGER qSyncIn0 block_id={3 * k + 2}",
                 f"PSEUDO_DMA_TRIGGER $S[20]>={k + 1} qSyncOut0 block_id={3 * k + 3}"]
        tile = f"[1][{columns}]"
        vector += [f"TENSOR_TENSOR $S[10]>={32 * (k + 1)} $S[20]++@complete op=ADD",
                   f"    dst=fp32@{2 * SLOT}{tile} src0=fp32@0{tile} src1=fp32@{SLOT}{tile}"
                   f" partitions=0..{partitions - 1}"]
    sync += [f"EVENT_SEMAPHORE $S[11]>={16 * len(list(tiles(options.elements)))}", "HALT"]
    vector += ["HALT"]
    io = {name: {"type": kind, "var_id": i + 1, "size": size, "x_dtype": "float32", "x_shape": [options.elements]}
          for i, (name, kind) in enumerate((("a", "input"), ("b", "input"), ("c", "output")))}
    definition = {"name": "definition", "x_arch": options.arch,
                  "sp": "sp.json", "sp_instr": "sp.bin", "dve": "dve.json", "dve_instr": "dve.bin",
                  "dma_queue": {"qSyncIn0": {"type": "in", "num_queues": 16, "owner": "sp", "semaphore": 10},
                                "qSyncOut0": {"type": "out", "num_queues": 16, "owner": "sp", "semaphore": 11}},
                  "var": {"SB": {"type": "state-buffer", "var_id": 0, "size": PARTITIONS * PITCH}, **io}}
    graph = options.directory / "sg00"
    graph.mkdir(parents=True, exist_ok=True)
    (graph / "def.json").write_text(json.dumps(definition, indent=2) + "\n")
    (graph / "sp.json").write_text(json.dumps({"instr": [], "dma": dma}, indent=2) + "\n")
    (graph / "dve.json").write_text(json.dumps({"instr": [], "dma": []}) + "\n")
    (graph / "sp.s").write_text("\n".join(sync) + "\n")
    (graph / "dve.s").write_text("\n".join(vector) + "\n")


if __name__ == "__main__":
    main()
