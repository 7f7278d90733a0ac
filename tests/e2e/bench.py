"""What the end-to-end tests share: one command on one machine, with a hard limit."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

LIMIT = 300  # seconds of one command that hangs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Run:
    """The result of a command on a machine."""

    def __init__(self, status, output, errors, report):
        self.status = status
        self.output = output
        self.errors = errors
        self.report_text = report

    @property
    def report(self):
        return json.loads(self.report_text)

    def microseconds(self, size):
        """The time column of nccom-test for one size."""
        row = re.search(rf"^ +{size} +\d+ +\w+ +([0-9.]+) ", self.output, re.MULTILINE)
        if row is None:
            raise AssertionError(f"no row for {size} in:\n{self.output}{self.errors}")
        return float(row.group(1))


class EndToEnd(unittest.TestCase):
    build = None  # the build directory; set by the script

    def setUp(self):
        # Not under the runtime directory of other tests, and short: it holds Unix sockets.
        self.directory = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="e2e"))
        self.addCleanup(shutil.rmtree, self.directory)
        # Of memory, as on other hosts: the files of 16 devices in sysfs keep a busy disk busy.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
        self.runtime = tempfile.mkdtemp(dir=memory, prefix="e2e")
        self.addCleanup(shutil.rmtree, self.runtime)
        self.runs = 0

    def program(self, name):
        return str(self.build / "bin" / name)

    def neff(self, name):
        return str(self.build / "examples" / (name + ".neff"))

    def run_on(self, options, command, limit=LIMIT, **environment):
        """Runs `command` on a new machine; kills everything that is left after `limit` seconds."""
        self.runs += 1
        report = self.directory / f"report{self.runs}.json"
        arguments = [self.program("soma"), "run", "--report", str(report), *options, "--", *command]
        variables = {key: value for key, value in os.environ.items()
                     if not key.startswith(("NEURON_", "NCCOM_"))}
        variables.update(XDG_RUNTIME_DIR=self.runtime, **environment)
        process = subprocess.Popen(arguments, env=variables, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, cwd=self.directory)
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            self.fail(f"{arguments} took more than {limit} s\n{output}\n{errors}")
        text = report.read_text() if report.exists() else ""
        return Run(process.returncode, output, errors, text)

    def nccom(self, options, *arguments, **environment):
        return self.run_on(options, [self.program("nccom-test"), "-r", "2", *arguments],
                           **environment)

    def two_processes(self):
        """One rank per process; they meet through NEURON_RT_ROOT_COMM_ID."""
        one = 'NEURON_RT_VISIBLE_CORES=%d "$0" "$1" --rank %d --ranks 2 >rank%d 2>&1'
        script = f"{one % (0, 0, 0)} & {one % (1, 1, 1)}; b=$?; wait $!; a=$?; " \
                 "cat rank0 rank1; exit $((a | b))"
        return self.run_on([], ["sh", "-c", script, self.program("allreduce_two_ranks"),
                                self.neff("allreduce_two_ranks")],
                           NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{free_port()}")

    def assert_ok(self, run):
        self.assertEqual(run.status, 0, run.output + run.errors)


def main(arguments):
    """For `SCRIPT BUILD [unittest arguments]`."""
    EndToEnd.build = pathlib.Path(arguments.pop(1)).resolve()
    unittest.main()
