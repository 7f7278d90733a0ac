#!/usr/bin/env python3
"""sysfs as programs see it: files, their text and its changes. sysfs_test.py BUILD"""
import ctypes
import errno
import os
import select
import shutil
import stat
import subprocess
import sys

from inside import (ACQUIRE_DS, DEVICES, NODE, RELEASE_DS, TREE, Inside, block, failure, ioctl,
                    libc, main)

TENSORS = f"{TREE}/stats/memory_usage/host_mem/tensors"
NEWS = select.POLLPRI | select.POLLERR


def text(path):
    with open(path, "rb", buffering=0) as file:
        return file.read(4096)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


class Text(Inside):
    def total(self, fd):
        os.lseek(fd, 0, os.SEEK_SET)
        return int(os.read(fd, 64))

    def test_an_open_descriptor_reads_again_from_its_start(self):
        device = self.open()
        attribute = self.open(f"{TENSORS}/total", os.O_RDONLY)
        before = int(os.read(attribute, 64))
        self.assertEqual(os.read(attribute, 64), b"", "the end of the text")
        handle = self.allocate(device, 8192)
        self.assertEqual(os.read(attribute, 64), b"", "still the end")
        self.assertEqual(self.total(attribute), before + 8192)
        self.free(device, handle)
        self.assertEqual(int(os.pread(attribute, 64, 0)), before, "pread at 0")
        self.assertEqual(os.read(attribute, 64), b"", "pread leaves the position alone")

    def test_the_text_is_made_when_it_is_read(self):
        device = self.open()
        attribute = self.open(f"{TENSORS}/total", os.O_RDONLY)
        self.allocate(device, 4096)
        self.assertEqual(int(os.read(attribute, 64)), int(text(f"{TENSORS}/total")))

    def test_a_text_that_is_read_in_parts_stays_whole(self):
        device = self.open()
        self.allocate(device, 4096)
        attribute = self.open(f"{TENSORS}/total", os.O_RDONLY)
        first = os.read(attribute, 1)
        want = text(f"{TENSORS}/total")
        self.allocate(device, 9 * 4096)
        self.assertEqual(first + os.read(attribute, 64), want)

    def test_duplicates_read_again_too(self):
        device = self.open()
        attribute = self.open(f"{TENSORS}/total", os.O_RDONLY)
        copy = os.dup(attribute)
        self.addCleanup(os.close, copy)
        before = self.total(copy)
        self.allocate(device, 4096)
        self.assertEqual(self.total(copy), before + 4096)
        self.assertFalse(os.get_inheritable(attribute), "close-on-exec is kept")

    def test_copies(self):
        for tool in ("cp", "cat"):
            copy = self.directory / tool
            command = {"cp": ["cp", f"{TREE}/core_count", copy],
                       "cat": ["sh", "-c", f"cat {TREE}/core_count > {copy}"]}[tool]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(copy.read_text(), text(f"{TREE}/core_count").decode())
        shutil.copyfile(f"{TREE}/core_count", self.directory / "python")
        self.assertEqual((self.directory / "python").read_bytes(), text(f"{TREE}/core_count"))
        done = subprocess.run(["cp", "-r", f"{TREE}/info", self.directory / "info"],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        copied = (self.directory / "info/architecture/device_name").read_bytes()
        self.assertEqual(copied, text(f"{TREE}/info/architecture/device_name"))

    def test_a_file_is_the_same_by_every_name(self):
        by_name = os.stat(f"{TREE}/core_count")
        for other in (f"{DEVICES}/core_count", f"{TREE}/subsystem/neuron0/core_count",
                      f"{TREE}/info/../core_count"):
            self.assertTrue(os.path.samestat(by_name, os.stat(other)), other)
        attribute = self.open(f"{TREE}/core_count", os.O_RDONLY)
        self.assertTrue(os.path.samestat(by_name, os.fstat(attribute)))
        os.read(attribute, 64)
        os.pread(attribute, 64, 0)
        self.assertTrue(os.path.samestat(by_name, os.fstat(attribute)))
        self.assertNotEqual(by_name.st_ino, os.stat(f"{TREE}/connected_devices").st_ino)
        self.assertEqual(by_name.st_nlink, 1)

    def test_seeking(self):
        attribute = self.open(f"{TREE}/core_count", os.O_RDONLY)
        self.assertEqual(os.lseek(attribute, 0, os.SEEK_END), 4096)
        self.assertEqual(os.read(attribute, 64), b"")
        self.assertEqual(os.lseek(attribute, 0, os.SEEK_HOLE), 4096)
        self.assertEqual(os.lseek(attribute, 0, os.SEEK_DATA), 0)


class Changes(Inside):
    def setUp(self):
        super().setUp()
        self.device = self.open()
        self.announce(0)
        self.addCleanup(self.announce, -1)
        self.attribute = self.open(f"{TENSORS}/present", os.O_RDONLY)

    def announce(self, delay):
        with open(f"{TREE}/info/notify_delay", "w") as file:
            file.write(f"{delay}\n")

    def news(self, timeout=0, events=NEWS):
        poll = select.poll()
        poll.register(self.attribute, events)
        return [event for _, event in poll.poll(timeout)]

    def reread(self):
        os.lseek(self.attribute, 0, os.SEEK_SET)
        return int(os.read(self.attribute, 64))

    def test_a_change_is_news_until_it_is_read(self):
        self.reread()
        self.assertEqual(self.news(50), [])
        handle = self.allocate(self.device, 4096)
        self.assertEqual(self.news(10000), [NEWS])
        self.assertEqual(self.news(), [NEWS])
        self.assertEqual(self.reread(), 4096)
        self.assertEqual(self.news(50), [])
        self.free(self.device, handle)
        self.assertEqual(self.news(10000), [NEWS], "the value is the same, but it was set")

    def test_what_came_before_the_first_poll_counts(self):
        self.reread()
        self.allocate(self.device, 4096)
        self.assertEqual(self.news(), [NEWS])

    def test_before_the_first_read_everything_is_news(self):
        self.assertEqual(self.news(), [NEWS])

    def test_a_poll_sleeps_until_another_process_makes_a_change(self):
        self.reread()
        script = ("import os, time, ctypes, struct; from inside import *; time.sleep(0.2); "
                  "c = Inside(); fd = os.open(NODE, os.O_RDWR); c.allocate(fd, 4096)")
        child = subprocess.Popen([sys.executable, "-c", script], cwd=os.path.dirname(__file__))
        self.assertEqual(self.news(20000), [NEWS])
        self.assertEqual(child.wait(), 0)

    def test_select(self):
        self.reread()
        self.assertEqual(select.select([], [], [self.attribute], 0.05), ([], [], []))
        self.assertEqual(select.select([self.attribute], [], [], 0)[0], [self.attribute])
        self.allocate(self.device, 4096)
        self.assertEqual(select.select([], [], [self.attribute], 10)[2], [self.attribute])

    def test_readers_are_always_ready(self):
        self.reread()
        self.assertEqual(self.news(events=select.POLLIN | select.POLLOUT),
                         [select.POLLIN | select.POLLOUT])

    def test_nothing_is_announced_by_default(self):
        self.announce(-1)
        self.reread()
        self.allocate(self.device, 4096)
        self.assertEqual(self.news(50), [])

    def test_other_descriptors_are_polled_beside_it(self):
        self.reread()
        ends = os.pipe()
        for end in ends:
            self.addCleanup(os.close, end)
        poll = select.poll()
        poll.register(self.attribute, NEWS)
        poll.register(ends[0], select.POLLIN)
        os.write(ends[1], b"x")
        self.assertEqual(poll.poll(10000), [(ends[0], select.POLLIN)])

    def test_text_that_is_no_number_changes_no_setting(self):
        for setting in ("", "x", "1", "0x", "0 0"):
            self.announce(setting)
            self.assertEqual(text(f"{TREE}/info/notify_delay"), b"0\n", setting)
        self.announce(-1)
        self.announce("word")
        self.assertEqual(text(f"{TREE}/info/notify_delay"), b"-1\n")


class Files(Inside):
    def test_numbers_of_the_node(self):
        major = os.major(os.stat(NODE).st_rdev)
        self.assertEqual(text(f"{TREE}/dev"), b"%d:0\n" % major)
        self.assertEqual(text(f"{TREE}/uevent"), b"MAJOR=%d\nMINOR=0\nDEVNAME=neuron0\n" % major)
        with open("/proc/devices") as devices:
            self.assertIn(f"{major:3} neuron\n", devices.read())

    def test_modes_and_sizes(self):
        modes = {"reset": 0o600, "uevent": 0o644, "dev": 0o444, "core_count": 0o400,
                 "connected_devices": 0o400, "info/notify_delay": 0o644,
                 "neuron_core0/stats/status/success/total": 0o644,
                 "power/control": 0o644, "power/runtime_status": 0o444}
        for name, want in modes.items():
            self.assertEqual(oct(mode(f"{TREE}/{name}")), oct(want), name)
            self.assertEqual(os.stat(f"{TREE}/{name}").st_size, 4096, name)
            text_of = failure(text, f"{TREE}/{name}")
            self.assertEqual(oct(mode(f"{TREE}/{name}")), oct(want), f"{name} {text_of}")
        self.assertEqual(oct(mode("/sys/module/neuron/parameters/no_reset")), "0o660")
        self.assertEqual(oct(mode("/sys/module/neuron/version")), "0o444")
        self.assertEqual(os.stat("/sys/module/neuron/version").st_size, 4096)
        self.assertEqual(os.stat("/proc/devices").st_size, 0)

    def test_files_of_power_management(self):
        self.assertEqual(sorted(os.listdir(f"{TREE}/power")),
                         ["autosuspend_delay_ms", "control", "runtime_active_time",
                          "runtime_status", "runtime_suspended_time"])
        self.assertEqual(text(f"{TREE}/power/control"), b"auto\n")
        self.assertEqual(text(f"{TREE}/power/runtime_status"), b"unsupported\n")
        attribute = self.open(f"{TREE}/power/autosuspend_delay_ms", os.O_RDONLY)
        self.assertEqual(failure(os.read, attribute, 64), errno.EIO)

    def test_names_cannot_be_made_or_taken_away(self):
        new, old = f"{TREE}/new", f"{TREE}/core_count"
        link = str(self.directory / "link")
        cases = [
            (errno.EACCES, os.open, new, os.O_CREAT | os.O_WRONLY),
            (errno.ENOENT, os.open, f"{new}/x", os.O_CREAT | os.O_WRONLY),
            (errno.EEXIST, os.open, old, os.O_CREAT | os.O_EXCL | os.O_WRONLY),
            (errno.EISDIR, os.open, TREE, os.O_WRONLY),
            (errno.EACCES, os.open, f"{TREE}/dev", os.O_WRONLY),
            (errno.ENOTDIR, os.open, f"{old}/", os.O_RDONLY),
            (errno.EPERM, os.mkdir, new),
            (errno.EEXIST, os.mkdir, TREE),
            (errno.EPERM, os.rmdir, TREE),
            (errno.EPERM, os.unlink, old),
            (errno.ENOENT, os.unlink, new),
            (errno.EPERM, os.rename, old, new),
            (errno.ENOENT, os.rename, new, old),
            (errno.EXDEV, os.rename, old, link),
            (errno.EPERM, os.symlink, "target", new),
            (errno.EXDEV, os.link, old, link),
            (errno.EPERM, os.mknod, new),
            (0, os.truncate, old, 0),
        ]
        for want, call, *arguments in cases:
            got = failure(call, *arguments)
            self.assertEqual(errno.errorcode.get(got, got), errno.errorcode.get(want, want),
                             (call, arguments))
        self.assertEqual(text(old), b"2")

    def test_extended_attributes(self):
        for path in (f"{TREE}/core_count", TREE, NODE):
            for follow in (True, False):
                self.assertEqual(os.listxattr(path, follow_symlinks=follow), [])
                self.assertEqual(failure(os.getxattr, path, "security.selinux"), errno.ENODATA)
        self.assertEqual(failure(os.getxattr, TREE, "system.posix_acl_access"), errno.EOPNOTSUPP)
        self.assertEqual(failure(os.setxattr, TREE, "user.x", b"1"), errno.EOPNOTSUPP)
        for fd in (self.open(), self.open(f"{TREE}/core_count", os.O_RDONLY)):
            self.assertEqual(os.listxattr(fd), [])
            self.assertEqual(failure(os.getxattr, fd, "security.selinux"), errno.ENODATA)
        done = subprocess.run(["ls", "-lR", f"{TREE}/", NODE], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Datastore(Inside):
    COUNTERS = f"{TREE}/neuron_core0/stats/status/success"

    def count(self, value):
        """A process's successes: the datastore's counter 1 of core 0."""
        request = block("<i4xQI4x", 0, 0, 0)
        self.assertEqual(ioctl(self.device, ACQUIRE_DS, request), 0)
        offset = int.from_bytes(request.raw[8:16], "little")
        libc.mmap.restype = ctypes.c_void_p
        place = libc.mmap(None, ctypes.c_size_t(262144), 3, 1, self.device, ctypes.c_long(offset))
        ctypes.c_uint64.from_address(place + 256 + 8).value = value
        self.assertEqual(libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(262144)), 0)
        self.assertEqual(ioctl(self.device, RELEASE_DS, request), 0)

    def test_a_release_without_counts_keeps_the_last_ones(self):
        self.device = self.open()
        before = int(text(f"{self.COUNTERS}/total"))
        self.count(5)
        self.assertEqual(text(f"{self.COUNTERS}/present"), b"5\n")
        self.count(0)
        self.assertEqual(text(f"{self.COUNTERS}/present"), b"5\n")
        self.assertEqual(int(text(f"{self.COUNTERS}/total")), before + 5)


if __name__ == "__main__":
    main(sys.argv)
