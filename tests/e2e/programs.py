"""NEFFs made in place, run by ranks.py."""
import array
import json
import pathlib
import subprocess
import sys

from bench import EndToEnd, free_port

HERE = pathlib.Path(__file__).resolve().parent
FIRST_SEMAPHORE = 20  # one per stream; those below are for copies


class Program:
    """Float32 tensors, copies of them by DMA, collectives; one engine program per name."""

    def __init__(self, arch="trn1", lnc=1, groups=None, ranks=2):
        self.arch, self.lnc, self.ranks = arch, lnc, ranks
        self.groups = groups or [[list(range(ranks))]]
        self.variables = {}
        self.queues = {}
        self.blocks = {}  # by engine
        self.text = {}
        self.functions = {}  # by engine: lines behind the HALT
        self.operations = 0
        self.streams = 1
        self.second = None  # the program of the second physical core

    def second_core(self):
        """Another program over the same tensors, for the second physical core."""
        self.second = Program(self.arch, self.lnc, self.groups, self.ranks)
        self.second.variables = self.variables
        return self.second

    def variable(self, name, elements, kind="tmp-buf"):
        """kind: input, output, tmp-buf (device memory of the program)."""
        self.variables[name] = {"type": kind, "var_id": len(self.variables) + 1,
                                "size": 4 * elements}
        if kind == "tmp-buf":
            self.variables[name]["alignment"] = 64
        return name

    def table(self, name, *tensors):
        """A dge-table of these tensors; returns its id."""
        ids = [self.variables[tensor]["var_id"] for tensor in tensors]
        self.variables[name] = {"type": "dge-table", "var_id": len(self.variables) + 1,
                                "size": 16 * len(ids), "list": ids}
        return self.variables[name]["var_id"]

    def add(self, engine, line):
        self.text.setdefault(engine, []).append(line)

    def block(self, engine, source, target, semaphore, size=None, **more):
        """A copy by 16 queues, each of which adds 1 to the semaphore at its end; returns what
        triggers it. `more` goes into the descriptors' element."""
        size = size or self.variables[source]["size"]
        name = f"q{engine}{semaphore}"
        self.queues.setdefault(name, {"type": "in", "num_queues": 16, "owner": engine,
                                      "semaphore": semaphore})
        blocks = self.blocks.setdefault(engine, [])
        element = {"id": len(blocks) + 1, "queue": name, "semaphore": semaphore, "desc": [
            {"from": source, "from_off": 0, "from_sizes": [size], "from_steps": [1],
             "to": target, "to_off": 0, "to_sizes": [size], "to_steps": [1]}]}
        blocks.append({**element, **more})
        return f"{name} block_id={blocks[-1]['id']}"

    def copy(self, engine, source, target, semaphore, wait="", size=None):
        """Starts a block."""
        trigger = self.block(engine, source, target, semaphore, size)
        self.add(engine, f"PSEUDO_DMA_TRIGGER {wait} {trigger}")

    def collective(self, engine, kind, source, target, wait="", stream=0, group=0, priority=0):
        """kind: text of ctype and op. Returns the semaphore that counts completions."""
        done = FIRST_SEMAPHORE + stream
        one, other = self.variables[source], self.variables[target]
        self.add(engine,
                 f"PSEUDO_TRIGGER_COLLECTIVE_2 {wait} $S[{done}]++@complete ctype={kind} "
                 f"dtype=float32 cc_dim=0 src0_var_id={one['var_id']} src0_var_offset=0 "
                 f"src0_shape_reg=0 src0_pattern=[1][{one['size'] // 4}]\n"
                 f"PSEUDO_EXTENSION group_id={group} channel_id=0 stream_id={stream} "
                 f"dst_var_id={other['var_id']} dst_var_offset=0 dst_shape_reg=0 "
                 f"dst_pattern=[1][{other['size'] // 4}]"
                 + (f" priority={priority}" if priority else ""))
        self.operations += 1
        self.streams = max(self.streams, stream + 1)
        return done

    def function(self, engine, name, lines, arguments=0):
        """arguments: the id of its table, for calls that name none."""
        table = f" args_table_var_id={arguments}" if arguments else ""
        self.functions.setdefault(engine, []).extend(
            [f".function {name}{table}", *lines, "RETURN", ".endfunction"])

    def delay(self, engine, turns):
        """A loop on the engine's registers."""
        label = f"delay{len(self.text.get(engine, []))}"
        self.add(engine, f"REGISTER_MOVE dst=r1 src=0\n{label}:\n"
                         "REGISTER_ALU op=ADD dst=r1 a=r1 b=1\n"
                         f"COMPARE_BRANCH cond=LTU a=r1 b={turns} target={label}")

    def pack(self, tool, directory):
        """Writes the NEFF; returns its path."""
        root = pathlib.Path(directory) / f"neff{len(list(pathlib.Path(directory).glob('neff*')))}"
        self.write_part(root / "sg00")
        if self.second:
            self.second.write_part(root / "sg01")
        elif self.lnc == 2:
            self.write(root / "sg01" / "def.json",
                       json.dumps({"name": "definition", "x_arch": self.arch, "var": {}}))
        file = root.with_suffix(".neff")
        subprocess.run([tool, "pack", str(root), "-o", str(file), "--name", "test"], check=True)
        return str(file)

    def write_part(self, root):
        definition = {"name": "definition", "x_arch": self.arch}
        for engine, lines in self.text.items():
            definition[engine] = f"{engine}.json"
            definition[f"{engine}_instr"] = f"{engine}.bin"
            self.write(root / f"{engine}.json",
                       json.dumps({"instr": [], "dma": self.blocks.get(engine, [])}))
            text = [f".engine {engine}", f".arch {self.arch}", *lines, "HALT",
                    *self.functions.get(engine, []), ""]
            self.write(root / f"{engine}.s", "\n".join(text))
        definition["dma_queue"] = self.queues
        definition["var"] = self.variables
        definition["x_cc"] = {"replica_groups": self.groups,
                              "source_target_pairs": [None] * len(self.groups),
                              "participants": self.ranks, "streams": self.streams,
                              "ops": self.operations}
        self.write(root / "def.json", json.dumps(definition))

    @staticmethod
    def write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")


class Programs(EndToEnd):
    """Tests that run programs of their own."""

    def execute(self, *arguments, **more):
        """attempt(), which goes well: what ranks.py says, with "run"."""
        run = self.attempt(*arguments, **more)
        self.assert_ok(run)
        result = json.loads(run.output.splitlines()[-1])
        result["run"] = run
        return result

    def attempt(self, programs, options, inputs=None, executions=1, rings=False, **environment):
        """`programs`: one, or one per rank. `inputs`: by name a list of floats per rank."""
        if not isinstance(programs, list):
            programs = [programs] * programs.ranks
        files = {}
        for program in programs:
            if id(program) not in files:
                files[id(program)] = program.pack(self.program("neff"), self.directory)
        first = programs[0]
        sizes = {kind: {name: v["size"] for name, v in first.variables.items()
                        if v["type"] == kind} for kind in ("input", "output")}
        for name, ranks in (inputs or {}).items():
            for rank, values in enumerate(ranks):
                (self.directory / f"{name}.{rank}").write_bytes(array.array("f", values).tobytes())
        job = {"library": str(self.build / "lib" / "libnrt.so.1"),
               "executions": executions, "rings": rings,
               "neffs": [files[id(program)] for program in programs],
               "inputs": sizes["input"], "outputs": sizes["output"]}
        (self.directory / "job.json").write_text(json.dumps(job))
        # It initialises all cores that it sees.
        environment.setdefault("NEURON_RT_VISIBLE_CORES", f"0-{first.ranks - 1}")
        return self.run_on(options, [sys.executable, str(HERE / "ranks.py"), "job.json"],
                           NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{free_port()}", **environment)

    def output(self, name, rank):
        values = array.array("f")
        values.frombytes((self.directory / f"{name}.{rank}").read_bytes())
        return list(values)

    @staticmethod
    def program_time(result):
        """Picoseconds from the execution barrier to rest."""
        released, = (row for row in result["run"].report["activities"]
                     if row["name"] == "barrier release")
        return released["total_ps"]
