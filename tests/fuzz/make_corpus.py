#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets of the machine's interfaces, from the sequences of
spec/hw-registers.md 3, 5, 7, 8 and 10 and of the socket protocols:

    python3 tests/fuzz/make_corpus.py tests/fuzz/corpus

A seed reaches a deep state; the fuzzer bends it. With --check before the folder nothing is written;
a file that differs from what would be is an error.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'golden'))  # mailbox_message

from seeds.cc_cores import cc_seeds  # noqa: E402
from seeds.descriptors import descriptor_seeds  # noqa: E402
from seeds.device_nodes import node_seeds  # noqa: E402
from seeds.engines import engine_seeds, instruction_seeds  # noqa: E402
from seeds.front_ends import remote_pci_seeds, vfio_user_seeds  # noqa: E402
from seeds.programs import program_seeds  # noqa: E402
from seeds.registers import register_seeds  # noqa: E402


def main():
    check = sys.argv[1:2] == ['--check']
    if len(sys.argv) != 2 + check:
        sys.exit(__doc__)
    stale = []
    for target, seeds in (('register', register_seeds), ('descriptor', descriptor_seeds),
                          ('remote_pci', remote_pci_seeds), ('vfio_user', vfio_user_seeds),
                          ('node', node_seeds), ('cc', cc_seeds),
                          ('instruction', instruction_seeds), ('engine', engine_seeds),
                          ('program', program_seeds)):
        folder = Path(sys.argv[-1]) / target
        for name, seed in seeds():
            data = seed if isinstance(seed, bytes) else seed.data
            file = folder / name
            if not check:
                folder.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            elif not file.exists() or file.read_bytes() != data:
                stale.append(str(file))
    if stale:
        sys.exit('stale: ' + ' '.join(stale))


if __name__ == '__main__':
    main()
