"""A client of the vfio-user protocol, written from QEMU's docs/interop/vfio-user.rst alone."""
import array
import errno
import fcntl
import json
import mmap
import os
import select
import socket
import struct

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION_INFO, GET_REGION_IO_FDS, GET_IRQ_INFO, SET_IRQS = range(1, 9)
REGION_READ, REGION_WRITE, DMA_READ, DMA_WRITE, DEVICE_RESET = range(9, 14)
REGION_WRITE_MULTI, DEVICE_FEATURE, MIG_DATA_READ, MIG_DATA_WRITE = range(15, 19)
TYPE_MASK, REPLY, NO_REPLY, ERROR = 0xF, 1, 1 << 4, 1 << 5
CONFIG = 7  # region index of <linux/vfio.h>
READABLE, WRITABLE, MMAP, CAPS = 1, 2, 4, 8


class Refused(Exception):
    """An error reply."""

    def __init__(self, command, code):
        super().__init__(f"command {command}: {errno.errorcode.get(code, code)}")
        self.code = code


class Memory:
    """Memory of the client that the device may reach: a memfd, sealed or not, or (`shared` false)
    only through messages."""

    def __init__(self, address, size, sealed=True, shared=True):
        self.address, self.size, self.fd = address, size, -1
        if shared:
            self.fd = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.fd, size)
            if sealed:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self.bytes = mmap.mmap(self.fd, size)
        else:
            self.bytes = bytearray(size)
        self.next = 0
        self.messages = 0

    def take(self, size, align=256):
        """Address of `size` fresh bytes."""
        at = -(-self.next // align) * align
        assert at + size <= self.size, "test memory is too small"
        self.next = at + size
        return self.address + at

    def holds(self, address, size):
        return self.address <= address and address + size <= self.address + self.size

    def read(self, address, size):
        at = address - self.address
        return bytes(self.bytes[at:at + size])

    def write(self, address, data):
        at = address - self.address
        self.bytes[at:at + len(data)] = data

    def word(self, address):
        return struct.unpack("<I", self.read(address, 4))[0]


class Client:
    def __init__(self, place, timeout=120):
        """`place`: a path, or a connected socket."""
        given = isinstance(place, socket.socket)
        self.socket = place if given else socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        if not given:
            self.socket.connect(place)
        self.next_id = 100
        self.memories = []

    def close(self):
        self.socket.close()

    # Messages

    def send(self, command, payload=b"", fds=(), flags=0, size=None):
        self.next_id = (self.next_id + 1) & 0xFFFF
        header = struct.pack("<HHIII", self.next_id, command, 16 + len(payload) if size is None else size, flags, 0)
        self.send_raw(header + payload, fds)
        return self.next_id

    def send_raw(self, data, fds=()):
        if fds:
            sent = socket.send_fds(self.socket, [data], list(fds))
            data = data[sent:]
        self.socket.sendall(data)

    def receive_exactly(self, size, fds):
        data = b""
        while len(data) < size:
            part, ancillary, _, _ = self.socket.recvmsg(size - len(data), socket.CMSG_SPACE(8 * 4))
            for level, kind, raw in ancillary:
                assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
                fds.extend(array.array("i", raw[:len(raw) // 4 * 4]))
            if not part:
                raise EOFError("the server has left")
            data += part
        return data

    def receive(self):
        fds = []
        ident, command, size, flags, code = struct.unpack("<HHIII", self.receive_exactly(16, fds))
        return ident, command, flags, code, self.receive_exactly(size - 16, fds), fds

    def reply_to(self, ident, wanted):
        """The payload of the reply to one command; serves the server's commands meanwhile."""
        while True:
            got, command, flags, code, payload, fds = self.receive()
            if flags & TYPE_MASK != REPLY:
                self.serve(got, command, payload)
                continue
            assert (got, command) == (ident, wanted), (got, command, ident, wanted)
            if flags & ERROR:
                assert not payload, "an error reply with a payload"
                raise Refused(command, code)
            return payload, fds

    def call(self, command, payload=b"", fds=(), flags=0):
        return self.reply_to(self.send(command, payload, fds, flags), command)[0]

    def idle(self):
        """Serves what the server wants, if anything."""
        while select.select([self.socket], [], [], 0)[0]:
            ident, command, flags, _, payload, _ = self.receive()
            assert flags & TYPE_MASK == 0, "a reply to nothing"
            self.serve(ident, command, payload)

    def serve(self, ident, command, payload):
        assert command in (DMA_READ, DMA_WRITE), command
        address, count = struct.unpack_from("<QQ", payload)
        memory = next((m for m in self.memories if m.holds(address, count)), None)
        if memory is None:
            self.socket.sendall(struct.pack("<HHIII", ident, command, 16, REPLY | ERROR, errno.EFAULT))
            return
        memory.messages += 1
        answer = struct.pack("<QQ", address, count)
        if command == DMA_READ:
            answer += memory.read(address, count)
        else:
            memory.write(address, payload[16:])
        self.socket.sendall(struct.pack("<HHIII", ident, command, 16 + len(answer), REPLY, 0) + answer)

    # Commands

    def version(self, major=0, minor=1, capabilities=None):
        text = b"" if capabilities is None else json.dumps({"capabilities": capabilities}).encode() + b"\0"
        reply = self.call(VERSION, struct.pack("<HH", major, minor) + text)
        return struct.unpack_from("<HH", reply), json.loads(reply[4:].rstrip(b"\0") or b"{}").get("capabilities", {})

    def map(self, memory, rights=READABLE | WRITABLE):
        payload = struct.pack("<IIQQQ", 32, rights, 0, memory.address, memory.size)
        self.call(DMA_MAP, payload, [memory.fd] if memory.fd >= 0 else [])
        self.memories.append(memory)

    def unmap(self, memory):
        asked = struct.pack("<IIQQ", 24, 0, memory.address, memory.size)
        assert self.call(DMA_UNMAP, asked) == asked
        self.memories.remove(memory)

    def unmap_all(self):
        self.call(DMA_UNMAP, struct.pack("<IIQQ", 24, 2, 0, 0))  # VFIO_DMA_UNMAP_FLAG_ALL
        self.memories.clear()

    def device_info(self):
        size, flags, regions, irqs = struct.unpack("<IIII", self.call(GET_INFO, struct.pack("<IIII", 16, 0, 0, 0)))
        assert size == 16
        return flags, regions, irqs

    def region_info(self, index, room=4096):
        """flags, size, mmap: None or (fd, file offset, list of (offset, size))."""
        asked = struct.pack("<IIIIQQ", room, 0, index, 0, 0, 0)
        reply, fds = self.reply_to(self.send(GET_REGION_INFO, asked), GET_REGION_INFO)
        argsz, flags, got, cap, size, offset = struct.unpack_from("<IIIIQQ", reply)
        assert got == index
        if not flags & MMAP:
            assert not fds
            return flags, size, None if argsz <= room else argsz
        assert len(fds) == 1 and flags & CAPS and argsz == len(reply)
        ident, version, following, areas, _ = struct.unpack_from("<HHIII", reply, cap)
        assert (ident, version, following) == (1, 1, 0)  # VFIO_REGION_INFO_CAP_SPARSE_MMAP
        return flags, size, (fds[0], offset, [struct.unpack_from("<QQ", reply, cap + 16 + 16 * i) for i in range(areas)])

    def irq_info(self, index):
        size, flags, got, count = struct.unpack("<IIII", self.call(GET_IRQ_INFO, struct.pack("<IIII", 16, 0, index, 0)))
        assert (size, got) == (16, index)
        return flags, count

    def read(self, region, offset, size):
        asked = struct.pack("<QII", offset, region, size)
        reply = self.call(REGION_READ, asked)
        assert reply[:16] == asked and len(reply) == 16 + size
        return reply[16:]

    def write(self, region, offset, data):
        asked = struct.pack("<QII", offset, region, len(data))
        assert self.call(REGION_WRITE, asked + data) == asked

    def write_quietly(self, region, offset, data):
        """Without a reply; the next command with one comes after it."""
        self.send(REGION_WRITE, struct.pack("<QII", offset, region, len(data)) + data, flags=NO_REPLY)

    def write_multi(self, writes):
        payload = struct.pack("<Q", len(writes))
        for region, offset, data in writes:
            payload += struct.pack("<QII8s", offset, region, len(data), data)
        done, = struct.unpack("<Q", self.call(REGION_WRITE_MULTI, payload))
        assert done == len(writes)

    def reset(self):
        assert self.call(DEVICE_RESET) == b""
