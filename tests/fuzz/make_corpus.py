#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets of the machine's interfaces, from the sequences of
hw-registers.md 3, 5, 7, 8 and 10 and of the socket protocols:

    python3 tests/fuzz/make_corpus.py tests/fuzz/corpus

A seed reaches a deep state; the fuzzer bends it.
"""
import sys
from pathlib import Path

from seeds.cc_cores import cc_seeds
from seeds.descriptors import descriptor_seeds
from seeds.device_nodes import node_seeds
from seeds.front_ends import remote_pci_seeds, vfio_user_seeds
from seeds.registers import register_seeds


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for target, seeds in (('register', register_seeds), ('descriptor', descriptor_seeds),
                          ('remote_pci', remote_pci_seeds), ('vfio_user', vfio_user_seeds),
                          ('node', node_seeds), ('cc', cc_seeds)):
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds():
            (folder / name).write_bytes(seed if isinstance(seed, bytes) else seed.data)


if __name__ == '__main__':
    main()
