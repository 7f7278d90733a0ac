#!/usr/bin/env python3
"""Functions of the driver library that monitors look for in libnrt's own symbol table, by address:
symbols_test.py LIBRARY (spec/clients.md C13.2)."""
import subprocess
import sys

WANTED = ["nds_open", "nds_close", "nds_get_nc_counter", "ndl_available_devices",
          "ndl_open_device", "ndl_close_device", "ndl_get_all_apps_info"]


def main():
    listing = subprocess.run(["nm", "--defined-only", sys.argv[1]], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    addresses = {words[2]: int(words[0], 16) for words in map(str.split, listing.splitlines())
                 if len(words) == 3}
    missing = [name for name in WANTED if addresses.get(name, 0) == 0]
    print("\n".join(f"missing: {name}" for name in missing) or f"{len(WANTED)} functions")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
