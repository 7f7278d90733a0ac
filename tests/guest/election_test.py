#!/usr/bin/env python3
"""Boots four guests, each with the first devices of a node of a Trainium2 ultraserver, which hold
the election over the links.

election_test.py SOMA DIRECTORY: as guest_test.py; consoles are DIRECTORY/election.N.log.
"""
import contextlib
import pathlib
import re
import sys
import tempfile

import guest_test

NODES = 4
DEVICES = 2  # of 16
PER_NODE = 16
ELECTED = re.compile(r"^# elected: node (\d) of 4, pod ([0-9a-f]+), serial ([0-9a-f]+)\s*$",
                     re.MULTILINE)
CASE = "election"
guest_test.CASES[CASE] = guest_test.Case("trn2-ultraserver", "1d0f:7364", mode="election",
                                         memory=256, vfio_user=True, devices=DEVICES)


def run(soma, directory, place):
    """Exit status of the machine; the consoles are in the directory."""
    socket, log = f"{place}/device", directory / f"{CASE}.machine.log"
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(open(log, "wb"))
        command = [*guest_test.machine(soma, "vfio-user", directory, CASE), "--socket", socket]
        server = stack.enter_context(guest_test.started(command, said))
        guest_test.wait_for("ready at", log, server)
        guests = []
        for node in range(NODES):
            paths = [f"{socket}.{node * PER_NODE + n}" for n in range(DEVICES)]
            console = stack.enter_context(open(directory / f"{CASE}.{node}.log", "wb"))
            command = guest_test.guest_of(directory, CASE, paths)
            guests.append(stack.enter_context(guest_test.started(command, console)))
        for guest in guests:
            guest.wait(guest_test.PATIENCE)
        server.terminate()
        return server.wait(guest_test.PATIENCE)


def complaints_of(consoles):
    results = []
    for node, console in enumerate(consoles):
        yield from (f"node {node}: {text}"
                    for text in guest_test.complaints_of_guest(CASE, console))
        results += ELECTED.findall(console)
    if len(results) != NODES:
        yield f"{len(results)} of {NODES} nodes were elected"
        return
    ids = [int(each[0]) for each in results]
    serials = [int(each[2], 16) for each in results]
    if sorted(ids) != list(range(NODES)):
        yield f"nodes are {ids}"
    if {int(each[1], 16) for each in results} != {min(serials)}:
        yield f"the pod is not that of the least serial: {results}"
    if ids[serials.index(min(serials))] != 0:
        yield f"the node of the least serial is not node 0: {results}"


def main():
    soma, directory = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as place:
        status = run(soma, directory, place)
    consoles = [(directory / f"{CASE}.{node}.log").read_text(errors="replace")
                for node in range(NODES)]
    complaints = [*complaints_of(consoles)]
    if status != 0:
        complaints.append(f"the machine ended with {status}")
    for console in consoles:
        print("\n".join(each.group(0).strip() for each in ELECTED.finditer(console)))
    for text in complaints:
        print(f"election_test: {text}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
