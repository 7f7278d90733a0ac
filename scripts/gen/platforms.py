#!/usr/bin/env python3
"""Writes data/platforms/*.json from a table of published facts: platforms.py FACTS OUTPUT_DIRECTORY.

FACTS is a file of schema "neuron-platforms" (cores, chips, links, platforms). The result is one
graph per platform (data/schema/platform.schema.json); rates stay in data/timing. Platforms of the
first core generation are left out: their registers are not public.
"""
import json
import pathlib
import sys

TIMING = {"trainium1": "trn1", "inferentia2": "inf2", "trainium2": "trn2", "trainium3": "trn3"}
# Platforms with published collective or kernel times that we compare with (docs/accuracy.md).
COMPARED = {"trn1.2xlarge"}


def chip_model(facts, name):
    chip = facts["chips"][name]
    core = facts["cores"][chip["nc_gen"]]
    return {
        "name": name,
        "cores": chip["neuron_cores"],
        "lnc_options": chip["lnc_options"],
        "lnc_default": chip["lnc_default"],
        "hbm_stacks": chip["memory"]["stacks"],
        "hbm_stack_bytes": chip["memory"]["bytes_per_stack"],
        "cc_cores": chip["cc_cores"],
        "dma_engines": chip["dma_engines"],
        "sbuf_partitions": core["sbuf"]["partitions"],
        "sbuf_partition_bytes": core["sbuf"]["bytes_per_partition"],
        "psum_partition_bytes": core["psum"]["bytes_per_partition"],
    }


def convert(facts, name):
    source = facts["platforms"][name]
    topology = source["topology"]
    servers = source.get("servers", 1)
    host = source["host"].get("per_server", source["host"])
    chips = []
    for device in topology["devices"]:
        chip = {"id": device["id"], "node": device.get("server", 0),
                "local_id": device.get("local_id", device["id"]), "coord": device["coord"],
                "connected_to": device["connected_to"]}
        for key in ("connected_to_z", "pci_bdf", "cpu_affinity", "numa_node"):
            if key in device:
                chip[key] = device[key]
        chips.append(chip)
    nics, network = [], source["network"]
    for index in range(network["efa_count"] or 0):
        nics.append({"id": index, "node": index * servers // network["efa_count"],
                     "gbit": network["efa_gbit_each"]})
    return {
        "schema": "platform/1",
        "name": name,
        "generation": source["nc_generation"],
        "timing": TIMING[source["chip"]],
        "validated": name in COMPARED,
        "chip": chip_model(facts, source["chip"]),
        "topology": {"kind": topology["kind"], "dims": topology["dims"]},
        "nodes": [{"id": node, "instance_type": source.get("server_platform", name),
                   "vcpu": host["vcpu"], "memory_gib": host["memory_gib"]}
                  for node in range(servers)],
        "chips": chips,
        "switches": [{key: switch[key] for key in ("id", "level", "link", "members")}
                     for switch in topology["switches"]],
        "edges": topology["edges"],
        "nics": nics,
    }


def text_of(platform):
    """JSON with one line per element of a list of objects, so that differences read well."""
    parts = []
    for key, value in platform.items():
        if isinstance(value, list) and value:
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    facts = json.loads(pathlib.Path(sys.argv[1]).read_text())
    output = pathlib.Path(sys.argv[2])
    for name, platform in facts["platforms"].items():
        if platform["nc_generation"] != "v1":
            (output / f"{name}.json").write_text(text_of(convert(facts, name)))


if __name__ == "__main__":
    main()
