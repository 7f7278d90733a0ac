#!/usr/bin/env python3
"""Device nodes as files and their mappings. node_test.py BUILD"""
import ctypes
import errno
import fcntl
import mmap
import os
import select
import stat
import struct
import subprocess
import sys

from inside import BUF_COPY, NODE, Inside, block, failure, ioctl, libc, main, number

DEVICE_ID = number(2, 114, 4)
RESOURCE_INFO = number(3, 112, 32)
FAILED = ctypes.c_void_p(-1).value
PAGE = 4096
STATE_BUFFER, SEMAPHORES = 2, 0

libc.mmap.restype = ctypes.c_void_p
libc.mremap.restype = ctypes.c_void_p


def host_id(fd):
    word = ctypes.c_uint32(99)
    result = ioctl(fd, DEVICE_ID, word)
    return word.value if result == 0 else result


class Files(Inside):
    def test_a_descriptor_that_only_names_the_node(self):
        fd = self.open(flags=os.O_PATH)
        self.assertEqual(host_id(fd), -errno.EBADF)
        self.assertEqual(failure(os.read, fd, 1), errno.EBADF)
        self.assertEqual(failure(mmap.mmap, fd, PAGE), errno.EBADF)
        self.assertEqual(failure(os.fchmod, fd, 0o600), errno.EBADF)
        self.assertTrue(os.path.samestat(os.fstat(fd), os.stat(NODE)))
        self.assertTrue(stat.S_ISCHR(os.fstat(fd).st_mode))

    def test_flags_of_an_open_file(self):
        large = 0o100000
        for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_NONBLOCK):
            fd = self.open(flags=flags | os.O_CLOEXEC)
            self.assertEqual(fcntl.fcntl(fd, fcntl.F_GETFL), flags | large)
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        self.assertEqual(fcntl.fcntl(fd, fcntl.F_GETFL), os.O_RDWR | large)

    def test_a_node_is_no_directory(self):
        for path in (f"{NODE}/", f"{NODE}/x", f"{NODE}/."):
            for call in (os.stat, os.listdir, lambda p: os.open(p, os.O_RDWR),
                         lambda p: os.chmod(p, 0o600), os.readlink, os.listxattr):
                self.assertEqual(failure(call, path), errno.ENOTDIR, path)
            self.assertFalse(os.access(path, os.R_OK))
        self.assertEqual(failure(os.stat, "/dev/neuron63"), errno.ENOENT)
        self.assertEqual(failure(os.stat, "/dev/neuron63/"), errno.ENOENT)

    def test_mode_and_owner(self):
        self.addCleanup(os.chmod, NODE, 0o666)
        os.chmod(NODE, 0o640)
        self.assertEqual(oct(os.stat(NODE).st_mode), oct(stat.S_IFCHR | 0o640))
        fd = self.open()
        self.assertEqual(oct(os.fstat(fd).st_mode), oct(stat.S_IFCHR | 0o640))
        os.fchmod(fd, 0o600)
        shown = subprocess.run(["stat", "-c", "%a %F", NODE], capture_output=True, text=True)
        self.assertEqual(shown.stdout, "600 character special file\n", "other processes see it")
        os.chown(NODE, os.getuid(), os.getgid())
        self.assertEqual(os.stat(NODE).st_uid, os.getuid())
        os.chmod(NODE, 0)
        if os.getuid() != 0:
            self.assertEqual(failure(os.open, NODE, os.O_RDWR), errno.EACCES)

    def test_always_ready_in_both_directions(self):
        fd = self.open()
        poll = select.poll()
        poll.register(fd)
        self.assertEqual(poll.poll(), [(fd, select.POLLIN | select.POLLOUT)])
        poll.modify(fd, select.POLLPRI)
        self.assertEqual(poll.poll(20), [])
        self.assertEqual(select.select([fd], [fd], [fd], 5), ([fd], [fd], []))
        with select.epoll() as epoll:
            self.assertEqual(failure(epoll.register, fd), errno.EPERM)
        copy = os.dup(fd)
        self.addCleanup(os.close, copy)
        poll.register(copy, select.POLLIN)
        self.assertEqual(poll.poll(), [(copy, select.POLLIN)])

    def test_a_node_has_no_bytes(self):
        fd, only_read, only_write = (self.open(flags=flags) for flags in
                                     (os.O_RDWR, os.O_RDONLY, os.O_WRONLY))
        buffer = bytearray(8)
        for want, call, *arguments in [
                (errno.EINVAL, os.read, fd, 8), (errno.EINVAL, os.write, fd, b"x"),
                (errno.EINVAL, os.pread, fd, 8, 0), (errno.EINVAL, os.pwrite, fd, b"x", 4),
                (errno.EINVAL, os.readv, fd, [buffer]), (errno.EINVAL, os.writev, fd, [b"x"]),
                (errno.EINVAL, os.preadv, fd, [buffer], 0),
                (errno.EINVAL, os.pread, fd, 8, -1),
                (errno.EBADF, os.write, only_read, b"x"), (errno.EBADF, os.read, only_write, 8),
                (errno.EBADF, os.pread, only_write, 8, 0),
                (errno.ESPIPE, os.lseek, fd, 0, os.SEEK_SET)]:
            self.assertEqual(failure(call, *arguments), want, (call, arguments))

    def test_another_user_keeps_an_open_descriptor(self):
        if os.getuid() != 0:
            self.skipTest("only root can change its user")
        script = """if True:
            import os, sys, threading
            from inside import *
            from node_test import *
            case = Inside()
            fd = os.open(NODE, os.O_RDWR)
            os.setuid(65534)
            handle = case.allocate(fd, 8192)
            place = libc.mmap(None, 8192, 3, 1, fd,
                              ctypes.c_long(case.address(fd, handle)))
            ctypes.c_uint32.from_address(place).value = 5
            print(host_id(fd), os.getuid(), flush=True)
            seen = []
            thread = threading.Thread(target=lambda: seen.append(host_id(fd)))
            thread.start()
            thread.join()
            child = os.fork()
            if child == 0:
                other = os.open(NODE, os.O_RDWR)
                os._exit(10 + host_id(fd) + host_id(other))
            print(seen, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            case.free(fd, handle)
            os.close(fd)
        """
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual((done.stdout, done.stderr), ("0 65534\n[0] 10\n", ""))


class Mappings(Inside):
    def setUp(self):
        super().setUp()
        self.fd = self.open()
        self.handle = self.allocate(self.fd, 2 * PAGE)
        self.offset = self.address(self.fd, self.handle)

    def map(self, protection, flags=mmap.MAP_SHARED, fd=None, length=2 * PAGE, offset=None):
        place = libc.mmap(None, ctypes.c_size_t(length), protection, flags,
                          self.fd if fd is None else fd,
                          ctypes.c_long(self.offset if offset is None else offset))
        if place == FAILED:
            return -ctypes.get_errno()
        self.addCleanup(libc.munmap, ctypes.c_void_p(place), ctypes.c_size_t(length))
        return place

    def call(self, function, *arguments):
        ctypes.set_errno(0)
        result = function(*[ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 31 else
                            ctypes.c_size_t(a) if isinstance(a, int) else a for a in arguments])
        failed = result in (-1, FAILED)
        return -ctypes.get_errno() if failed else result

    def word(self, place, value=None):
        word = ctypes.c_uint32.from_address(place)
        if value is not None:
            word.value = value
        return word.value

    def stored(self):
        word = ctypes.c_uint32()
        request = block("<QQQQI4x", self.handle, ctypes.addressof(word), 4, 0, 0)
        self.assertEqual(ioctl(self.fd, BUF_COPY, request), 0)
        return word.value

    def test_the_owner_may_raise_a_mapping_to_writable(self):
        place = self.map(mmap.PROT_READ)
        self.assertEqual(self.call(libc.mprotect, place, 2 * PAGE, 3), 0)
        self.word(place, 0x1234)
        self.assertEqual(self.stored(), 0x1234)

    def test_others_may_not(self):
        script = ("from inside import *; fd = os.open(NODE, os.O_RDWR); "
                  "libc.mmap.restype = ctypes.c_void_p; "
                  f"p = libc.mmap(None, 8192, 1, 1, fd, ctypes.c_long({self.offset})); "
                  "print(libc.mprotect(ctypes.c_void_p(p), 8192, 3), ctypes.get_errno())")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual((done.stdout, done.stderr), (f"-1 {errno.EACCES}\n", ""))

    def test_private_mappings_of_a_file_that_is_read_only(self):
        only_read = self.open(flags=os.O_RDONLY)
        self.assertEqual(self.map(3, fd=only_read), -errno.EACCES)
        place = self.map(3, mmap.MAP_PRIVATE, only_read)
        self.assertGreater(place, 0)
        self.word(place, 0x77)
        self.assertEqual((self.word(place), self.stored()), (0x77, 0))

    def test_remapping(self):
        place = self.map(3)
        may_move = 1
        self.assertEqual(self.call(libc.mremap, place, 2 * PAGE, 4 * PAGE, may_move),
                         -errno.EFAULT)
        self.assertEqual(self.call(libc.mremap, place, 0, 2 * PAGE, may_move), -errno.EFAULT)
        self.assertEqual(self.call(libc.mremap, place, 2 * PAGE, 2 * PAGE, may_move), place)
        self.word(place, 3)
        self.assertEqual(self.stored(), 3)

    def test_advice(self):
        place = self.map(3)
        self.word(place, 9)
        refused = {"DONTNEED": 4, "DOFORK": 11, "DODUMP": 17, "FREE": 8, "HUGEPAGE": 14}
        for name, advice in refused.items():
            self.assertEqual(self.call(libc.madvise, place, 2 * PAGE, ctypes.c_int(advice)),
                             -errno.EINVAL, name)
        self.assertEqual(self.call(libc.madvise, place, 2 * PAGE, ctypes.c_int(9)), -errno.ENODEV)
        for advice in (0, 10, 16):
            self.assertEqual(self.call(libc.madvise, place, 2 * PAGE, ctypes.c_int(advice)), 0)
        self.assertEqual(self.call(libc.msync, place, 2 * PAGE, ctypes.c_int(4)), -errno.EINVAL)
        self.assertEqual(self.call(libc.msync, place, 2 * PAGE, ctypes.c_int(1)), 0)
        self.assertEqual((self.word(place), self.stored()), (9, 9))
        child = os.fork()
        if child == 0:
            self.word(place)
            os._exit(0)
        self.assertEqual(os.WTERMSIG(os.waitpid(child, 0)[1]), 11, "a child has no such mapping")

    def resource(self, kind, core=0):
        request = block("<IIIIQQ", 0, core, kind, 0, 0, 0)
        self.assertEqual(ioctl(self.fd, RESOURCE_INFO, request), 0)
        return struct.unpack_from("<QQ", request.raw, 16)

    def test_the_state_buffer_can_be_mapped(self):
        for core in (0, 1):
            offset, length = self.resource(STATE_BUFFER, core)
            place = self.map(3, offset=offset, length=length)
            self.assertGreater(place, 0)
            self.assertEqual(self.word(place + PAGE), 0)
            self.word(place + PAGE, 0xabc + core)
        again = self.map(1, offset=self.resource(STATE_BUFFER)[0], length=length)
        self.assertEqual(self.word(again + PAGE), 0xabc)

    def test_semaphores_can_be_raised_to_writable(self):
        offset, length = self.resource(SEMAPHORES)
        place = self.map(mmap.PROT_READ, offset=offset, length=length)
        self.assertEqual(self.call(libc.mprotect, place, length, 3), 0)
        self.word(place + 0x1400 + 4 * 200, 41)
        self.word(place + 0x1800 + 4 * 200, 1)
        self.assertEqual(self.word(place + 0x1000 + 4 * 200), 42)


if __name__ == "__main__":
    main(sys.argv, ["trn1.2xlarge", "trn2.3xlarge"])
