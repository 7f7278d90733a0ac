#!/usr/bin/env python3
"""Commands that reach other nodes of a machine, and what becomes of processes that fail.

launch_test.py SOMA CLIENT_DIRECTORY
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOL, CLIENTS = map(os.path.abspath, sys.argv[1:3])
CLIENT = CLIENTS + "/place_client"
PEER = CLIENTS + "/peer_client"
del sys.argv[1:]
PLATFORM = "trn2-ultraserver"


class Up:
    """One machine for all tests: each is a command on it."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="lt")
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.directory.name,
                                HOME=self.directory.name, SHELL="/bin/sh")
        for name in list(self.environment):
            if name.startswith(("SLURM_", "OMPI_", "SOMA_")):
                del self.environment[name]

    def tool(self, *arguments, **options):
        return subprocess.run([TOOL, *arguments], env=self.environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, **options)

    def __enter__(self):
        started = self.tool("up", "--platform", PLATFORM)
        if started.returncode != 0:
            raise RuntimeError(started.stderr)
        return self

    def __exit__(self, *_):
        self.tool("down")
        self.directory.cleanup()


class Launch(unittest.TestCase):
    def on(self, script, node=0, status=0, **options):
        result = MACHINE.tool("exec", "--node", str(node), "--", "sh", "-c", script, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout, result.stderr

    def lines(self, script, **options):
        return sorted(self.on(script, **options)[0].splitlines())

    def test_exec_inside_a_command(self):
        self.assertEqual(self.on("soma exec --node 3 -- uname -n; soma exec -- uname -n", node=1)[0],
                         "node-3\nnode-1\n")
        self.on("soma exec --node 2 -- sh -c 'exit 9'", status=9)
        self.assertIn("nodes 0 to 3", self.on("soma exec --node 4 -- true", status=2)[1])
        self.assertIn("--report", self.on("soma exec --report /tmp/r -- true", status=2)[1])

    def test_ssh_is_a_login_on_a_node(self):
        output, _ = self.on("FOO=1 ssh -q -o BatchMode=yes -p 22 me@node-2 "
                            "'uname -n; pwd; echo \"<$FOO>\"; ls -d /dev/neuron15'", node=1)
        self.assertEqual(output, f"node-2\n{MACHINE.directory.name}\n<>\n/dev/neuron15\n")
        self.assertEqual(self.on("ssh localhost uname -n; ssh node-0 -n uname -n", node=3)[0],
                         "node-3\nnode-0\n")
        self.assertEqual(self.on("echo hello | ssh node-1 cat")[0], "hello\n")
        self.on("ssh node-1 exit 7", status=7)
        self.on("ssh node-1 'kill -9 $$'", status=255)
        self.assertIn("-L", self.on("ssh -L 1:node-1:2 node-1 true", status=255)[1])

    def test_mpirun_places_ranks(self):
        show = ("sh -c 'echo $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE "
                "$OMPI_COMM_WORLD_LOCAL_RANK $OMPI_COMM_WORLD_LOCAL_SIZE $(uname -n)'")
        self.assertEqual(self.lines(f"mpirun -np 4 -npernode 2 {show}"),
                         ["0 4 0 2 node-0", "1 4 1 2 node-0", "2 4 0 2 node-1", "3 4 1 2 node-1"])
        self.assertEqual(self.lines(f"mpirun -npernode 1 {show}"),
                         [f"{n} 4 0 1 node-{n}" for n in range(4)])
        self.assertEqual(self.lines(f"mpirun --host node-3:2,node-1 {show}"),
                         ["0 3 0 2 node-3", "1 3 1 2 node-3", "2 3 0 1 node-1"])
        self.assertEqual(self.lines(f"mpiexec -n 3 --map-by node -H node-1:2,node-2:2 {show}"),
                         ["0 3 0 2 node-1", "1 3 0 1 node-2", "2 3 1 2 node-1"])
        self.assertEqual(self.lines(f"mpirun -n 3 --oversubscribe -H node-1,node-2 {show}"),
                         ["0 3 0 2 node-1", "1 3 1 2 node-1", "2 3 0 1 node-2"])
        names = "sh -c 'echo $OMPI_COMM_WORLD_RANK $(uname -n)'"
        two = ["0 node-0", "1 node-1"]
        self.assertEqual(self.lines(f"mpirun -np 2 --hosts 127.0.0.1,127.0.0.1 {names}"), two)
        self.assertEqual(self.lines(f"mpirun -np 2 --host trn-a,trn-b {names}"), two)
        hosts = pathlib.Path(MACHINE.directory.name, "hosts")
        hosts.write_text("# mine\nnode-2 slots=1\nnode-0 slots=2 max_slots=2\n")
        self.assertEqual(self.lines(f"mpirun -np 3 --hostfile {hosts} {names}"),
                         ["0 node-2", "1 node-0", "2 node-0"])

    def test_mpirun_environment_and_output(self):
        output = self.lines("LOCAL=1 GIVEN=2 mpirun -np 2 -npernode 1 -x GIVEN -x SET=3 "
                            "--mca btl tcp,self --bind-to none --tag-output "
                            "sh -c 'echo [$LOCAL][$GIVEN][$SET]; pwd'", cwd="/usr")
        self.assertEqual(output, ["[1,0]<stdout>:/usr", "[1,0]<stdout>:[1][2][3]",
                                  "[1,1]<stdout>:/usr", "[1,1]<stdout>:[][2][3]"])
        self.assertEqual(self.on("mpirun --mca a b echo --mca c d")[0], "--mca c d\n")
        self.assertEqual(self.on("mpirun -H 'node-2:*' uname -n")[0], "node-2\n")
        self.assertEqual(self.on("echo in | mpirun -np 2 -npernode 1 cat")[0], "in\n")

    def test_mpirun_refuses(self):
        for arguments, word in (("--frobnicate true", "--frobnicate"), ("-np x true", "-np"),
                                ("-np", "-np"), ("", "no program"), ("-np 1 a : b", "':'"),
                                ("--host node-1 -np 2 true", "slots"),
                                ("--host node-7 -np 1 --host a,b,c,d,e true", "4 nodes"),
                                ("--map-by l3cache true", "l3cache")):
            self.assertIn(word, self.on("mpirun " + arguments, status=1)[1])
        self.on("mpirun -np 2 no-such-command", status=1)

    def test_the_first_rank_that_fails_ends_the_others(self):
        begin = time.monotonic()
        errors = self.on("mpirun -np 4 -npernode 1 sh -c "
                         "'test $OMPI_COMM_WORLD_RANK = 2 && exit 5; sleep 50'", status=5)[1]
        self.assertIn("rank 2 on node 2", errors)
        self.assertLess(time.monotonic() - begin, 45)

    def test_srun(self):
        show = ("sh -c 'echo $SLURM_PROCID $SLURM_NTASKS $SLURM_LOCALID $SLURM_NODEID "
                "$SLURM_NNODES $(uname -n)'")
        self.assertEqual(self.lines(f"srun -N 2 -n 2 --ntasks-per-node 1 {show}"),
                         ["0 2 0 0 2 node-0", "1 2 0 1 2 node-1"])
        self.assertEqual(self.lines(f"srun -l -w node-[2-3] -n3 {show}"),
                         ["0: 0 3 0 0 2 node-2", "1: 1 3 1 0 2 node-2", "2: 2 3 0 1 2 node-3"])
        self.on("srun -N 4 sh -c 'exit $SLURM_PROCID'", status=3)
        for arguments, word in (("-N 5 true", "4 nodes"), ("--frobnicate true", "--frobnicate"),
                                ("", "No command"), ("-w node-[3-1] true", "list of hosts")):
            self.assertIn(word, self.on("srun " + arguments, status=1)[1])

    def test_signals_reach_the_ranks(self):
        mark = "47.1102"
        process = subprocess.Popen(
            [TOOL, "exec", "--", "mpirun", "-npernode", "1", "sh", "-c",
             f"echo ready; exec sleep {mark}"], env=MACHINE.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        for _ in range(4):
            self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        self.assertNotEqual(process.returncode, 0)
        self.assertNotEqual(subprocess.run(["pgrep", "-f", f"sleep {mark}"], check=False,
                                           stdout=subprocess.DEVNULL).returncode, 0)

    def test_many_processes_hold_devices_at_once(self):
        # Fewer files than they need, so that the machine has to allow itself more.
        with tempfile.TemporaryDirectory(dir="/dev/shm") as seen:
            script = (f"exec 3<>/dev/neuron$OMPI_COMM_WORLD_LOCAL_RANK 4<>/dev/neuron0 || exit 3; "
                      f": > {seen}/$OMPI_COMM_WORLD_RANK; "
                      f"until test -e {seen}/all || test $(ls {seen} | wc -l) -ge 64; "
                      f"do sleep 0.05; done; : > {seen}/all")
            result = subprocess.run(
                ["sh", "-c", f"ulimit -Sn 200; exec {TOOL} run --platform {PLATFORM} -- "
                 f"mpirun -np 64 -npernode 16 sh -c '{script}'"], text=True, check=False,
                env=MACHINE.environment, stderr=subprocess.PIPE, timeout=300)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(len(os.listdir(seen)), 65)

    def test_a_client_that_dies_leaves_the_others_their_devices(self):
        self.on("exec 3<>/dev/neuron0 4<>/dev/neuron7; kill -9 $$", node=2, status=137)
        survivors = self.lines(
            "mpirun -np 8 -npernode 2 sh -c 'exec 3<>/dev/neuron0 || exit 3; "
            "test $OMPI_COMM_WORLD_RANK != 5 || exec sleep 0.1; " f"{CLIENT}' | grep '^pod'")
        self.assertEqual(len(survivors), 7)
        report = pathlib.Path(MACHINE.directory.name, "report")
        result = MACHINE.tool("exec", "--node", "2", "--report", str(report), "--", CLIENT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("device "), 16)
        text = report.read_text()
        self.assertLess(len(text), 20000)  # says nothing of what did nothing
        self.assertEqual(json.loads(text)["resources"], [])

    def test_links_go_down_and_up(self):
        self.on("soma fault --link 0-1 down && soma fault --link link.d0-d1 up")
        self.assertEqual(MACHINE.tool("fault", "--link", "0-16", "down").returncode, 0)
        self.assertEqual(MACHINE.tool("fault", "--link", "0-16", "up").returncode, 0)
        missing = MACHINE.tool("fault", "--link", "0-5", "down")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("no such link", missing.stderr)
        later = MACHINE.tool("fault", "--link", "0-5", "--after-us", "1", "down")
        self.assertEqual((later.returncode, later.stderr), (2, missing.stderr))
        self.assertEqual(MACHINE.tool("fault", "--link", "0-1").returncode, 2)
        self.assertEqual(MACHINE.tool("fault", "--name", "none", "--link", "0-1", "up").returncode, 2)
        result = MACHINE.tool("run", "--platform", "trn2.48xlarge", "--", "soma", "fault", "--link",
                              "2-6", "down")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_link_between_nodes_fails_and_comes_back(self):
        holder = subprocess.Popen([TOOL, "exec", "--node", "1", "--", PEER, "hold"], text=True,
                                  env=MACHINE.environment, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        chip, address = holder.stdout.readline().split()
        self.assertEqual(chip, "16")

        def content():
            holder.stdin.write("\n")
            holder.stdin.flush()
            return holder.stdout.readline()

        def send(value, status):
            return self.on(f"{PEER} send {chip} {address} {value}", status=status)[0]

        self.assertEqual(content(), "0 0\n")
        self.assertEqual(send(17, 0), "sent\n")
        self.assertEqual(content(), "17 17\n")
        self.assertEqual(MACHINE.tool("fault", "--link", "0-16", "down").returncode, 0)
        self.assertEqual(send(18, 1), "no answer\n")
        self.assertEqual(content(), "17 17\n")
        self.assertEqual(MACHINE.tool("fault", "--link", "0-16", "up").returncode, 0)
        self.assertEqual(send(19, 0), "sent\n")
        self.assertEqual(content(), "19 19\n")
        holder.stdin.close()
        self.assertEqual(holder.wait(timeout=120), 0)
        holder.stdout.close()


if __name__ == "__main__":
    with Up() as MACHINE:
        unittest.main()
