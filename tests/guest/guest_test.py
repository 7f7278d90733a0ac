#!/usr/bin/env python3
"""Boots the test guest with a device and judges what it and the machine say.

guest_test.py SOMA DIRECTORY CASE: DIRECTORY holds vmlinuz and initramfs.cpio.gz (scripts/guest.sh)
and receives the guest's console (CASE.log) and the machine's report (CASE.json).

Cases of `soma vfio-user` have a QEMU that speaks it as DIRECTORY/qemu (scripts/guest_qemu.sh).
Prints the guest's measurements; none of them decides anything.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import typing

PATIENCE = 600  # seconds until everything is killed; an idle host needs about 20


class Case(typing.NamedTuple):
    platform: str
    device: str  # as lspci has it
    revision: str = "silicon"
    mode: str = "once"  # guest_mode (init)
    memory: int = 512  # MiB
    processors: int = 1
    verdicts: int = 1  # of the guest
    vfio_user: bool = False  # the front end
    devices: int = 1


# Few: most of a test is the boot of the guest.
CASES = {
    "silicon": Case("trn1.2xlarge", "1d0f:7164", mode="all", verdicts=3),
    # Memory on both sides of the PCI hole, the other device, and its other revision.
    "large": Case("inf2.xlarge", "1d0f:7264", "qemu", memory=3072, processors=4),
    # A guest is killed in the middle of its checks, the next one has them all.
    "vfio_user": Case("trn1.2xlarge", "1d0f:7164", processors=2, vfio_user=True),
    "vfio_user_v3_qemu": Case("trn2.3xlarge", "1d0f:7364", "qemu", "each", processors=4,
                              vfio_user=True),
    "vfio_user_v4": Case("trn3-gen1-server", "1d0f:7564", mode="each", vfio_user=True, devices=4),
    "vfio_user_16": Case("trn2.48xlarge", "1d0f:7364", mode="each", vfio_user=True, devices=16),
}
VERDICT = re.compile(r"^verdict: (.*)$", re.MULTILINE)
PASSED = re.compile(r"pass, [1-9][0-9]* checks")
# What the guest touches on purpose (check_unknown, check_events), as the report names it.
UNKNOWN = [
    r"bar\d\+0x0*20000000",      # between blocks
    r"bar\d\+0x0*30fa5000",      # behind misc RAM
    r"dma5 0x0*f00",             # between registers of a DMA engine
    r"nc0\.semaphores 0x0*400",  # the gap behind the events
    r"cc5\.semaphores 0x0*ffc",
]


@contextlib.contextmanager
def started(command, console):
    """A process in a session of its own, all of which is killed at the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def boot(directory, case):
    """What a QEMU needs to boot the guest."""
    mode = CASES[case].mode
    return ["-m", str(CASES[case].memory), "-smp", str(CASES[case].processors), "-nodefaults",
            "-display", "none", "-serial", "stdio", "-kernel", str(directory / "vmlinuz"),
            "-initrd", str(directory / "initramfs.cpio.gz"),
            *([] if mode == "all" else ["-no-reboot"]),
            # The kernel's check of its timer fails on a host that is too busy.
            "-append", f"console=ttyS0 quiet panic=-1 no_timer_check guest_mode={mode}"]


def machine(soma, front_end, directory, case):
    report = directory / f"{case}.json"
    report.unlink(missing_ok=True)
    return [soma, front_end, "--platform", CASES[case].platform, "--revision",
            CASES[case].revision, "--report", str(report)]


def run(soma, directory, case):
    """Exit status of the machine, None if it had to be killed; the console is in CASE.log."""
    with open(directory / f"{case}.log", "wb") as console:
        try:
            if CASES[case].vfio_user:
                return run_vfio_user(soma, directory, case, console)
            command = [*machine(soma, "qemu", directory, case), "--", *boot(directory, case)]
            with started(command, console) as process:
                return process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return None


def wait_for(text, path, process):
    for _ in range(10 * PATIENCE):
        if text in path.read_text(errors="replace"):
            return
        if process.poll() is not None:
            raise SystemExit(f"guest_test: ended without '{text}':\n{path.read_text()}")
        time.sleep(0.1)
    raise subprocess.TimeoutExpired(process.args, PATIENCE)


def guest_of(directory, case, paths):
    """A QEMU with the devices at these sockets."""
    command = [str(directory / "qemu"), "-machine", "q35,memory-backend=memory", "-object",
               f"memory-backend-memfd,id=memory,size={CASES[case].memory}M,share=on"]
    # A device of v3 or v4 takes 260 GiB of addresses, 40 bits have room for three.
    if len(paths) > 3:
        command += ["-cpu", "qemu64,phys-bits=46"]
    for path in paths:
        device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": path}}
        command += ["-device", json.dumps(device)]
    return command + boot(directory, case)


def run_vfio_user(soma, directory, case, console):
    devices = CASES[case].devices
    log, first = directory / f"{case}.machine.log", directory / f"{case}.killed.log"
    with tempfile.TemporaryDirectory() as place, open(log, "wb") as said:
        socket = f"{place}/device"
        paths = [f"{socket}.{n}" for n in range(devices)] if devices > 1 else [socket]
        command = guest_of(directory, case, paths)
        serve = [*machine(soma, "vfio-user", directory, case), "--socket", socket]
        with started(serve, said) as server:
            wait_for("ready at", log, server)
            if CASES[case].mode == "once":
                with open(first, "wb") as killed, started(command, killed) as guest:
                    wait_for("\nok 100 ", first, guest)
            with started(command, console) as guest:
                guest.wait(PATIENCE)
            server.terminate()
            return server.wait(PATIENCE)


def complaints_of_guest(case, console):
    for line in re.findall(r"^not ok .*$", console, re.MULTILINE):
        yield line
    verdicts = VERDICT.findall(console)
    if len(verdicts) != CASES[case].verdicts:
        yield f"{len(verdicts)} verdicts, expected {CASES[case].verdicts}"
    for verdict in verdicts:
        if not PASSED.fullmatch(verdict):
            yield f"verdict: {verdict}"
    lowest = re.search(r"^# memory for DMA from physical address 0x([0-9a-f]+)$", console,
                       re.MULTILINE)
    if case == "large" and (lowest is None or int(lowest[1], 16) < 1 << 32):
        yield "the guest's memory for DMA is not above 4 GiB"
    if "guest: exit status 0" not in console:
        yield "the guest did not end well"
    # Both boots of a guest that reboots show it.
    shown = len(re.findall(rf"^[0-9a-f]\S* .*\[{CASES[case].device}\]", console, re.MULTILINE))
    if shown != CASES[case].devices * (2 if CASES[case].mode == "all" else 1):
        yield f"lspci shows {shown} devices"
    for line in re.findall(r"^.*qemu-system-x86_64: .*$", console, re.MULTILINE):
        yield f"QEMU says: {line}"
    if "Oops" in console or "BUG:" in console or "Kernel panic" in console:
        yield "the guest's kernel is damaged"


def complaints_of_report(path, mode):
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        yield f"no report: {error}"
        return
    if report["repeatable"] is not False:
        yield "the report calls a run with a guest repeatable"
    if report.get("failure"):
        yield f"the machine failed: {report['failure']}"
    counters = {c["name"]: c["value"] for c in report["counters"]}
    every = mode != "each"  # check
    rest = ("semaphore_updates", "notifications") if every else ()
    for name in ("packets", "doorbells", *rest):
        if not counters.get(name):
            yield f"the report counts no {name}"
    names = [each["name"] for each in report["fidelity"]["unknown"]]
    for pattern in UNKNOWN if every else ():
        if not any(re.search(pattern, name) for name in names):
            yield f"the report does not name an access to {pattern}: {names}"


def main():
    soma, directory, case = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    status = run(soma, directory, case)
    console = (directory / f"{case}.log").read_text(errors="replace")
    complaints = list(complaints_of_guest(case, console))
    if status is None:
        complaints.append(f"not finished after {PATIENCE} s; killed")
    else:
        complaints += complaints_of_report(directory / f"{case}.json", CASES[case].mode)
        if status != 0:
            complaints.append(f"the machine ended with {status}")
    print("\n".join(re.findall(r"^measure: .*$", console, re.MULTILINE)))
    if complaints:
        print(console[-8000:])
    for complaint in complaints:
        print(f"guest_test: {complaint}")
    print(f"console: {directory / (case + '.log')}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
