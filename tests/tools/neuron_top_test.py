"""neuron-top on machines, in a terminal of the test's: neuron_top_test.py BUILD."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from bench import EndToEnd, main

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
LIMIT = 60  # seconds


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command, environment, rows=40, columns=100):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, environment)
        self.output = b""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys)

    def settings(self):
        return termios.tcgetattr(self.master)

    def until(self, pattern):
        """What was written up to what matches `pattern`; the rest stays."""
        end = time.monotonic() + LIMIT
        while not (found := re.search(pattern, self.output, re.DOTALL)):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            try:
                part = os.read(self.master, 65536) if ready else b""
            except OSError:  # the last one has closed it
                part = b""
            if not part:
                raise AssertionError(f"no {pattern} in {self.output}")
            self.output += part
        text, self.output = self.output[:found.end()], self.output[found.end():]
        return text.decode()

    def finish(self):
        os.close(self.master)
        return os.waitpid(self.pid, 0)[1]


class Top(EndToEnd):
    def start(self, platform, command, **environment):
        variables = {**os.environ, "XDG_RUNTIME_DIR": str(self.directory), "TERM": "xterm",
                     "LC_ALL": "C.UTF-8", **environment}
        return Terminal([self.program("soma"), "run", "--platform", platform, "--", *command],
                        variables)

    def test_a_session(self):
        holder = self.directory / "holder.py"
        holder.write_text(HOLDER)
        script = 'NEURON_PROCESS_TAG=train "$0" "$1" & read started; neuron-top; kill $!; echo end'
        top = self.start("trn2.3xlarge", ["sh", "-c", script, sys.executable, str(holder)])
        before = top.settings()
        top.until(b"holds\r\n")
        top.press(b"\n")
        first = top.until(rb"\x1b\[J")
        self.assertIn(ENTER.decode(), first)
        self.assertRegex(first, r"neuron-top [0-9.]+ running on i-[0-9a-f]{17} \(trn2.3xlarge\)")
        self.assertIn("NeuronCore v3d Utilization", first)
        self.assertIn("NC3", first)
        top.until(rb"\[2\]:train")
        top.press(b"d")
        top.until(rb">\[2\]:train<")
        top.press(b"f")
        top.until(b"TFLOPS: ")
        top.resize(12, 40)
        top.until(rb"\x1b\[J")
        top.press(b"q")
        self.assertIn("end", top.until(re.escape(LEAVE) + b".*end\r\n"))
        self.assertEqual(top.settings(), before)
        self.assertEqual(top.finish(), 0)

    def test_signals_give_the_terminal_back(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number):
                script = f"neuron-top & sleep 1; kill -{int(number)} $!; wait $!; echo status $?"
                # In the background of a shell without job control: its input is /dev/null.
                top = self.start("trn1.2xlarge",
                                 ["sh", "-c", script.replace("neuron-top", "neuron-top </dev/tty")])
                text = top.until(rb"status \d+")
                self.assertLess(text.index(ENTER.decode()), text.index(LEAVE.decode()))
                self.assertTrue(text.endswith("status 0"))
                top.finish()

    def test_without_a_terminal(self):
        run = self.run_on([], ["neuron-top"])
        self.assertEqual((run.status, run.output), (1, ""))
        self.assertIn("terminal", run.errors)
        done = subprocess.run([self.program("neuron-top")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed to discover Neuron devices", done.stderr)

    def test_arguments(self):
        top = self.start("trn1.2xlarge", ["neuron-top", "--bogus"])
        text = top.until(b"help.*\n")
        self.assertNotIn("\x1b", text)
        self.assertEqual(os.waitstatus_to_exitcode(top.finish()), 2)


# Holds one core until it is killed.
HOLDER = """
import ctypes, time
nrt = ctypes.CDLL("libnrt.so.1")
assert nrt.nrt_init(1, b"", b"") == 0
print("holds", flush=True)
while True:
    time.sleep(1)
"""

if __name__ == "__main__":
    main(sys.argv)
