"""Test cases that are programs on a machine: a script that calls main(BUILD) starts itself again
under soma run and there executes its cases. They use the interfaces of a real driver only."""
import ctypes
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from bench import EndToEnd

NODE = "/dev/neuron0"
TREE = "/sys/class/neuron_device/neuron0"
DEVICES = "/sys/devices/virtual/neuron_device/neuron0"

libc = ctypes.CDLL(None, use_errno=True)


def number(direction, nr, size):
    return direction << 30 | size << 16 | 0x4e << 8 | nr


ALLOCATE = number(2, 102, 56)
FREE = number(2, 22, 8)
GET_PA = number(2, 25, 8)
BUF_COPY = number(3, 24, 40)
ACQUIRE_DS = number(2, 71, 8)
RELEASE_DS = number(2, 72, 8)


def ioctl(fd, request, argument):
    """The result, or -errno. `argument`: a ctypes object, changed in place, or an address."""
    pointer = ctypes.c_void_p(argument) if isinstance(argument, int) else ctypes.byref(argument)
    ctypes.set_errno(0)
    result = libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(request), pointer)
    return result if result >= 0 else -ctypes.get_errno()


def block(layout, *values):
    """A structure of the ABI, by a format of the struct module."""
    return ctypes.create_string_buffer(struct.pack(layout, *values), struct.calcsize(layout))


def failure(call, *arguments):
    """The errno that a call of the os module ends with, 0 when it succeeds."""
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0


class Inside(unittest.TestCase):
    """A case on the machine, with a scratch directory."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="inside"))
        self.addCleanup(shutil.rmtree, self.directory)

    def open(self, path=NODE, flags=os.O_RDWR):
        fd = os.open(path, flags)
        self.addCleanup(self.close, fd)
        return fd

    def close(self, fd):
        failure(os.close, fd)

    def allocate(self, fd, size, host=True, category=2, nc=0, align=0):
        handle = ctypes.c_uint64()
        request = block("<QQIIIIIIQI4x", size, align, 1 if host else 0, 0, 0, nc, category, 0,
                        ctypes.addressof(handle), 0)
        result = ioctl(fd, ALLOCATE, request)
        self.assertEqual(result, 0)
        return handle.value

    def free(self, fd, handle):
        self.assertEqual(ioctl(fd, FREE, ctypes.c_uint64(handle)), 0)

    def address(self, fd, handle):
        pa = ctypes.c_uint64()
        self.assertEqual(ioctl(fd, GET_PA, block("<QQ", handle, ctypes.addressof(pa))), 0)
        return pa.value


class Machine(EndToEnd):
    """The machine of the cases."""
    platforms = ["trn1.2xlarge"]

    def test_programs_on_a_machine(self):
        for platform in self.platforms:
            with self.subTest(platform=platform):
                run = self.run_on(["--platform", platform],
                                  [sys.executable, os.path.abspath(sys.argv[0]), "-v"])
                self.assertEqual(run.status, 0, run.output + run.errors)
                self.assertIn("\nOK", run.errors)


def main(arguments, platforms=None):
    """For `SCRIPT BUILD`, and again for the script on the machine."""
    if "SOMA_SOCKET" in os.environ:
        unittest.main()
    Machine.build = pathlib.Path(arguments.pop(1)).resolve()
    Machine.platforms = platforms or Machine.platforms
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Machine)
    result = unittest.TextTestRunner().run(suite)
    sys.exit(not result.wasSuccessful())
