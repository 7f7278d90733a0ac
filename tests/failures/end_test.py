#!/usr/bin/env python3
"""Wrong names, applications that fail, and how machines end: with the right exit code, and without
leaving anything behind. end_test.py BIN"""
import os
import pathlib
import signal
import subprocess
import time

from common import VECTOR_ADD, VECTOR_ADD_TRANSFERS, FailureTest, descendants, main, tool


def shared_memory():
    """Names in /dev/shm but the directories of machines that have no other place."""
    return sorted(name for name in os.listdir("/dev/shm") if not name.startswith("soma-"))


class End(FailureTest):
    def processes_of(self, mark):
        """Processes with `mark` in their environment."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark.encode() in path.read_bytes():
                    found.append(int(path.parts[2]))
            except OSError:
                continue
        return found

    def assert_gone(self, mark, memory):
        self.wait_until(lambda: not self.processes_of(mark), "processes are left", 20)
        self.assert_nothing_left()
        self.assertEqual(shared_memory(), memory)

    def test_unknown_names(self):
        for arguments, words in (
                (("--platform", "trn1.3xlarge"), ("trn1.3xlarge", "trn1.2xlarge")),
                (("--set", "dma.engine_gbps_capp=1"), ("dma.engine_gbps_capp", "dma.engine_gbps_cap")),
                (("--set", "nonsense=1"), ("nonsense",)),
                (("--set", "time.slice_us=abc"), ("time.slice_us",)),
                (("--timing-file", "trn9"), ("trn9", "trn1")),
                (("--timing-onyl",), ("--timing-onyl", "--timing-only")),
                (("--policy", "both"), ("epoch", "overlap")),
                (("--clock", "sun"), ("virtual", "host"))):
            for command in ("run", "up"):
                with self.subTest(command=command, arguments=arguments):
                    tail = ("--", "true") if command == "run" else ()
                    result = self.command(tool("soma"), command, *arguments, *tail)
                    self.assertEqual(result.code, 2, result)
                    self.assert_lines(result.err, *words)
                    self.assertEqual(len(result.err.splitlines()), 1, result)
        result = self.command(tool("soma"), "fly")
        self.assertEqual(result.code, 2, result)
        self.assert_lines(result.err, "fly", "run")
        self.assert_nothing_left()

    def test_applications_that_fail(self):
        program = self.directory / "crash.c"
        program.write_text("#include <signal.h>\n#include <stdlib.h>\n"
                           "int main(int n, char **v) { if (n > 1) abort();\n"
                           "  *(volatile int *)(size_t)(16 + 0 * (size_t)v) = 1; return 0; }\n")
        crash, static = self.directory / "crash", self.directory / "static"
        subprocess.run(["cc", "-w", "-o", crash, program], check=True)
        for command, code in (((crash,), 139), ((crash, "abort"), 134), (("no-such",), 127),
                              ((self.directory / "no-such",), 127), ((program,), 127),
                              ((self.directory,), 127), (("false",), 1),
                              (("sh", "-c", "exit 121"), 121)):
            with self.subTest(command=command):
                result = self.run_in_machine(*command)
                self.assertEqual(result.code, code, result)
                if code == 127:
                    self.assert_lines(result.err, str(command[0]))
        program.write_text("int main(void) { return 5; }\n")
        if subprocess.run(["cc", "-static", "-o", static, program], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0:
            self.assertEqual(self.run_in_machine(static).code, 5)
        self.assert_nothing_left()

    def test_signals_during_a_collective(self):
        memory = shared_memory()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                mark = f"FAILURE_MARK={os.getpid()}x{number}"
                name, value = mark.split("=")
                process = self.start(tool("soma"), "run", "--", tool("nccom-test"), "-r", 2, "-b",
                                     "1mb", "-e", "1mb", "-n", 100000, "allr", **{name: value})
                self.wait_until(lambda: len(descendants(process.pid)) == 1, "it has a child")
                self.wait_for_work(process.pid)
                self.assertIsNone(process.poll())
                begin = time.monotonic()
                process.send_signal(number)
                result = self.finish(process)
                self.assertEqual(result.code, 128 + number, result)
                self.assertLess(time.monotonic() - begin, 60)
                self.assert_gone(mark, memory)

    def test_terminate_application_that_ignores_it(self):
        mark = f"FAILURE_MARK={os.getpid()}deaf"
        memory = shared_memory()
        script = "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
        process = self.start(tool("soma"), "run", "--", "sh", "-c", script,
                             FAILURE_MARK=mark.split("=")[1])
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process).code, 137)
        self.assert_gone(mark, memory)

    def test_time_limit_of_the_shell(self):
        begin = time.monotonic()
        result = self.command("timeout", "1", tool("soma"), "run", "--", "sleep", "100")
        self.assertEqual(result.code, 124, result)
        self.assertLess(time.monotonic() - begin, 60)
        self.assert_nothing_left()

    def test_two_machines_at_once(self):
        good = self.pack("good", VECTOR_ADD, VECTOR_ADD_TRANSFERS)
        processes = [self.start(tool("soma"), "run", "--", tool("vector_add"), good, 20),
                     self.start(tool("soma"), "run", "--", tool("nccom-test"), "-r", 2, "-b", "1kb",
                                "-e", "1mb", "-f", 4, "-n", 5, "--check", "random", "allr"),
                     self.start(tool("soma"), "run", "--", tool("vector_add"), good, 20)]
        for process in processes:
            result = self.finish(process)
            self.assertEqual(result.code, 0, result)
        self.assert_nothing_left()

    def test_machine_in_the_background(self):
        pid = self.up()
        os.kill(pid, signal.SIGTERM)
        self.wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or
                        "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2],
                        "the machine has ended")
        self.assert_nothing_left()
        self.assertEqual(self.exec("true").code, 2)

    def test_machine_that_is_killed_under_its_client(self):
        pid = self.up()
        process = self.start(tool("soma"), "exec", "--name", "f", "--", tool("nccom-test"), "-r", 2,
                             "-b", "1mb", "-e", "1mb", "-n", 100000, "allr",
                             NEURON_RT_EXEC_TIMEOUT="2")
        time.sleep(1.0)
        os.kill(pid, signal.SIGKILL)
        result = self.finish(process)
        self.assertNotEqual(result.code, 0, result)
        self.up()  # of the same name
        self.assertEqual(self.exec("ls", "/dev/neuron0").code, 0)


if __name__ == "__main__":
    main()
