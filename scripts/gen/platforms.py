#!/usr/bin/env python3
"""Writes data/platforms/*.json from published facts: platforms.py DATA_DIRECTORY [--check].

Facts are DATA_DIRECTORY/facts/platforms.json (cores, chips, links, platforms; spec/platforms.md 1).
The result is one graph per platform (data/schema/platform.schema.json); rates stay in data/timing.
Platforms of the first core generation are left out: their registers are not public. --check writes
nothing and fails when a file is missing or differs from what would be written; platforms that the
facts do not name are nobody's business here.
"""
import csv
import json
import pathlib
import sys

TIMING = {"trainium1": "trn1", "inferentia2": "inf2", "trainium2": "trn2", "trainium3": "trn3"}


def compared_platforms(data):
    """Platforms with published times that ours are compared with (docs/accuracy.md)."""
    with (data / "calibration/collectives.csv").open() as file:
        return {row["platform"] for row in csv.DictReader(file)}


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


def convert(facts, name, compared):
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
        "validated": name in compared,
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


def differences(wanted, directory):
    """What is wrong with the files of `directory`, one line each."""
    for name, text in wanted.items():
        path = directory / name
        if not path.exists():
            yield f"{path}: missing"
        elif path.read_text() != text:
            yield f"{path}: not what platforms.py writes"


def main():
    data = pathlib.Path(sys.argv[1])
    facts = json.loads((data / "facts/platforms.json").read_text())
    compared = compared_platforms(data)
    wanted = {f"{name}.json": text_of(convert(facts, name, compared))
              for name, platform in facts["platforms"].items()
              if platform["nc_generation"] != "v1"}
    if sys.argv[2:] == ["--check"]:
        breaches = list(differences(wanted, data / "platforms"))
        print("\n".join(breaches + [f"{len(wanted)} platforms, {len(breaches)} differ"]))
        return 1 if breaches or not wanted else 0
    for name, text in wanted.items():
        (data / "platforms" / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
