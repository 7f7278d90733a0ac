#!/usr/bin/env python3
"""Breaks lines of the sources, one at a time, and lists those that no test notices.

usage: mutate.py [--rooms hw/cc,...] [--count N] [--seed S] [--minutes M]

Works in a worktree of its own at HEAD, build/mutate/tree, and builds there; the first run
builds what it needs. A mutant swaps an operator, changes a constant, negates a condition or drops
a statement. The tests of its room are built and run up to the first that fails. Results are lines
of build/mutate/results.jsonl: {file, line, before, after, outcome}; a later run goes on where the
last one stopped, and mutants that have a result are not repeated. Outcomes: killed, timeout
(killed too), rejected (does not compile), survived. Exit status 0 whatever survives.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/mutate"
TREE = PLACE / "tree"
BUILD = TREE / "build/release"
RESULTS = PLACE / "results.jsonl"
SECONDS = 240  # of one mutant: build and tests together

# Room: test programs, the quickest first.
ROOMS = {
    "hw/cc": ("hw_cc_test", "hw_machine_test"),
    "hw/core": ("hw_core_test",),
    "hw/dma": ("hw_dma_test",),
    "hw/link": ("hw_link_test",),
    "hw/machine": ("hw_machine_test", "hw_management_test"),
    "hw/mem": ("hw_dma_test", "hw_link_test"),
    "hw/nq": ("hw_sync_test", "hw_machine_test"),
    "hw/pcie": ("hw_endpoint_test",),
    "hw/reg": ("hw_core_test", "hw_dma_test"),
    "hw/sync": ("hw_sync_test", "hw_core_test"),
    "hw/time": ("hw_kernel_queue_test", "hw_core_test", "hw_dma_test"),
    "driver/kernel": ("election_test", "driver_kernel_test"),
    "runtime/collectives": ("ccl_select_test", "ccl_msccl_test", "ccl_groups_test",
                            "ccl_verify_test", "ccl_print_test", "ccl_mesh_test", "ccl_ring_test",
                            "collectives_test"),
    "runtime/exec": ("runtime_test",),
    "runtime/load": ("runtime_test",),
    "runtime/nrt": ("runtime_test",),
}
# Programs whose tests each need a process of their own (cmake/Soma.cmake, PER_CASE).
PER_CASE = {"election_test", "hw_kernel_queue_test", "hw_machine_test", "hw_management_test"}

OPERATORS = {" == ": (" != ",), " != ": (" == ",), " < ": (" <= ", " >= "),
             " <= ": (" < ", " > "), " > ": (" >= ", " <= "), " >= ": (" > ", " < "),
             " + ": (" - ",), " - ": (" + ",), " * ": (" / ",), " / ": (" * ",), " % ": (" / ",),
             " && ": (" || ",), " || ": (" && ",), " += ": (" -= ", " = "), " -= ": (" += ",),
             " << ": (" >> ",), " >> ": (" << ",), "++": ("--",), "--": ("++",),
             "true": ("false",), "false": ("true",), "std::min": ("std::max",),
             "std::max": ("std::min",)}
OPERATOR = re.compile("|".join(
    rf"\b{re.escape(o)}\b" if o[0].isalpha() else re.escape(o)
    for o in sorted(OPERATORS, key=len, reverse=True)))
NUMBER = re.compile(r"(?<![\w.'\"])(\d+)(?=u?l{0,2}\b)(?!\.)")
CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while) \()(.+)(\)(?: \{| return.*;| continue;)?)$")
STATEMENT = re.compile(r"^\s*(?:[\w.\->\[\]]+ (?:[-+*/|&]|<<|>>)?= .+|[\w.\->:\[\]]+\(.*\)|"
                       r"\+\+[\w.\->]+|return|continue|break);$")
# Lines that say something rather than do it, or that only the compiler reads.
SKIPPED = re.compile(r"^\s*(?:#|//|/\*|\*|using |namespace |template |static_assert|assert|case |"
                     r"public:|private:|protected:|default:|log_?[.(]|.*\blog_?\.(?:error|warn|"
                     r"info|debug|trace)|throw |.*operator)")


def without_text(line):
    """The line with strings, characters and a comment blanked, so that places stay the same."""
    line = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', lambda m: "\0" * len(m.group()), line)
    comment = line.find("//")
    return line if comment < 0 else line[:comment]


def mutants_of(line):
    """All (what was done, mutated line) of one line of C++; none for those that do nothing."""
    if not line.strip() or SKIPPED.match(line):
        return []
    code = without_text(line)
    found = []

    def put(what, start, end, text):
        found.append((what, line[:start] + text + line[end:]))

    for match in OPERATOR.finditer(code):
        # Template brackets and unary signs have no blanks around them.
        for other in OPERATORS[match.group()]:
            put("operator", match.start(), match.end(), other)
    for match in NUMBER.finditer(code):
        value = int(match.group(1)) if not match.group(1).startswith("0") or match.group(
            1) == "0" else None
        if value is not None:
            put("constant", match.start(1), match.end(1), str(value + 1))
    bare = code.rstrip()
    condition = CONDITION.match(bare)
    if condition and ";" not in condition.group(2):
        start, end = condition.span(2)
        put("condition", start, end, f"!({line[start:end]})")
    if STATEMENT.match(bare):
        indent = len(line) - len(line.lstrip())
        found.append(("statement", line[:indent] + ";"))
    return found


def room_of(path):
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def candidates(tree, rooms):
    """Every (file, line number, what, before, after) of the rooms, in the order of the files."""
    for room in sorted(rooms):
        for path in sorted((tree / room).rglob("*")):
            name = str(path.relative_to(tree))
            if path.suffix not in (".cpp", ".h"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for what, after in mutants_of(line):
                    yield name, number, what, line, after


def sample(tree, rooms, seed):
    """All mutants in an order of chance: first the room, then one of its lines."""
    by_room = collections.defaultdict(list)
    for mutant in candidates(tree, rooms):
        by_room[room_of(mutant[0])].append(mutant)
    chance = random.Random(seed)
    for mutants in by_room.values():
        chance.shuffle(mutants)
    while by_room:
        room = chance.choice(sorted(by_room))
        yield by_room[room].pop()
        if not by_room[room]:
            del by_room[room]


def run(command, seconds, cwd=TREE):
    """Exit status, or None when the time was up; then nothing that it started is left."""
    process = subprocess.Popen(["nice", "-n", "10", *map(str, command)], cwd=cwd,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return process.wait(max(seconds, 1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def build(targets, seconds):
    return run(["cmake", "--build", BUILD, "-j", "1", "--target", *targets], seconds)


def tests_of(target):
    """Command lines: one, or one per test where each wants its own process."""
    program = BUILD / "bin" / target
    if target not in PER_CASE:
        return [[program, "--gtest_fail_fast"]]
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                            check=True).stdout
    commands, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = name if name.endswith(".") else ""
        elif suite:
            commands.append([program, f"--gtest_filter={suite}{name.strip()}"])
    return commands


def outcome_of(targets):
    """Builds and tests what is in the tree now."""
    end = time.monotonic() + SECONDS
    for target in targets:
        status = build([target], end - time.monotonic())
        if status is None:
            return "timeout"
        if status != 0:
            return "rejected"
        for command in tests_of(target):
            status = run(command, end - time.monotonic(), BUILD)
            if status != 0:
                return "timeout" if status is None else "killed"
    return "survived"


def prepare(rooms):
    if not TREE.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", TREE, "HEAD"], cwd=ROOT, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.strip()
    subprocess.run(["git", "checkout", "--quiet", "--force", "--detach", head], cwd=TREE,
                   check=True)
    # A mutant changes one file: sources compile alone.
    subprocess.run(["cmake", "--preset", "release", "-DCMAKE_UNITY_BUILD=OFF",
                    "--log-level=WARNING"], cwd=TREE,
                   check=True)
    targets = sorted({target for room in rooms for target in ROOMS[room]})
    print(f"building {', '.join(targets)}", flush=True)
    if build(targets, 3600) != 0:
        sys.exit("mutate.py: the tests do not build as they are")
    for target in targets:
        if any(run(command, SECONDS, BUILD) != 0 for command in tests_of(target)):
            sys.exit(f"mutate.py: {target} fails as it is")


def results():
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def key(result):
    return result["file"], result["before"], result["after"]


def try_one(name, number, what, before, after):
    path = TREE / name
    text = path.read_text()
    lines = text.splitlines()
    lines[number - 1] = after
    path.write_text("\n".join(lines) + "\n")
    try:
        outcome = outcome_of(ROOMS[room_of(name)])
    finally:
        path.write_text(text)
    return {"file": name, "line": number, "what": what, "before": before.strip(),
            "after": after.strip(), "outcome": outcome}


def summary(found):
    for result in found:
        if result["outcome"] == "survived":
            print(f"{result['file']}:{result['line']}: survived ({result['what']})\n"
                  f"  - {result['before']}\n  + {result['after']}")
    rooms = collections.defaultdict(collections.Counter)
    for result in found:
        rooms[room_of(result["file"])][result["outcome"]] += 1
    for room, counts in sorted(rooms.items()):
        print(f"{room}: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rooms", default=",".join(ROOMS), help="comma-separated")
    parser.add_argument("--count", type=int, default=100, help="mutants that compile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    arguments = parser.parse_args()
    rooms = arguments.rooms.split(",")
    unknown = sorted(set(rooms) - set(ROOMS))
    if unknown:
        parser.error(f"unknown rooms {', '.join(unknown)}; known are {', '.join(ROOMS)}")
    end = time.monotonic() + 60 * arguments.minutes
    prepare(rooms)
    done = {key(result) for result in results()}
    tried = 0
    for mutant in sample(TREE, rooms, arguments.seed):
        if tried == arguments.count or time.monotonic() > end:
            break
        name, number, what, before, after = mutant
        if (name, before.strip(), after.strip()) in done:
            continue
        result = try_one(*mutant)
        tried += result["outcome"] != "rejected"
        with RESULTS.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{name}:{number}: {result['outcome']} ({what})", flush=True)
    summary(results())


if __name__ == "__main__":
    main()
