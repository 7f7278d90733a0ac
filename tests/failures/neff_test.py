#!/usr/bin/env python3
"""Damaged NEFFs through the whole stack: the documented status, one clear line, nothing written
outside, and a machine that runs the next program. neff_test.py BIN"""
import gzip
import json
import os
import resource
import struct

from common import (BIN, HEADER_BYTES, VECTOR_ADD, VECTOR_ADD_TRANSFERS, FailureTest, archive, main,
                    tool, with_payload)

INVALID = ("NRT_INVALID", "(2)")                 # spec/neff.md 1.10
VERSION = ("NRT_UNSUPPORTED_NEFF_VERSION", "(10)")
RESOURCE = ("NRT_RESOURCE", "(4)")
ABORT = ("NRT_EXEC_HW_ERR_DMA_ABORT", "(1203)")


class DamagedNeff(FailureTest):
    def setUp(self):
        super().setUp()
        self.file = self.pack("good", VECTOR_ADD, VECTOR_ADD_TRANSFERS)
        self.good = self.file.read_bytes()
        self.up()
        self.work = self.directory / "work"
        self.work.mkdir()
        self.environment["TMPDIR"] = str(self.work)
        os.chdir(self.work)
        self.addCleanup(os.chdir, "/")

    def files(self):
        return sorted(f for f in self.directory.rglob("*") if self.runtime not in f.parents)

    def assert_good_run(self):
        result = self.exec(tool("vector_add"), self.file)
        self.assertEqual(result.code, 0, result)

    def refused(self, content, status, call="nrt_load", words=(), **variables):
        path = self.directory / "bad.neff"
        path.write_bytes(content)
        before = self.files()
        result = self.exec(tool("vector_add"), path, **variables)
        self.assertEqual(result.code, 1, result)
        self.assert_lines(result.err, call, *status)
        logged = [line for line in result.out.splitlines() if " ERROR " in line]
        self.assertTrue(logged, f"no line says why: {result}")
        self.assertLessEqual(len(logged), 3, result)  # the layers it passes name it, not more
        for word in words:
            self.assertIn(word, "\n".join(logged))
        self.assertEqual(before, self.files(), "something was written")

    def test_truncated(self):
        for size in (1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, len(self.good) // 2,
                     len(self.good) - 1):
            with self.subTest(size=size):
                self.refused(self.good[:size], INVALID)
        self.assert_good_run()

    def test_truncated_payload_with_right_size_and_hash(self):
        payload = self.good[HEADER_BYTES:]
        for size in (20, len(payload) // 2):
            with self.subTest(size=size):
                self.refused(with_payload(self.good, payload[:size]), INVALID)
        self.assert_good_run()

    def test_sizes_that_lie(self):
        for offset, value in ((8, 0), (8, 2**63), (8, 2**64 - 1), (16, 0), (16, 2**64 - 1),
                              (16, 2**64 - HEADER_BYTES)):
            with self.subTest(offset=offset, value=value):
                changed = bytearray(self.good)
                struct.pack_into("<Q", changed, offset, value)
                self.refused(changed, INVALID)
        self.assert_good_run()

    def test_versions(self):
        for offset, value in ((0, 9), (24, 3), (544, 1 << 40)):
            with self.subTest(offset=offset):
                changed = bytearray(self.good)
                struct.pack_into("<Q", changed, offset, value)
                self.refused(changed, VERSION)

    def test_wrong_hash(self):
        changed = bytearray(self.good)
        changed[0xAC] ^= 1
        self.refused(changed, INVALID, words=("hash",), NEURON_RT_VALIDATE_HASH="true")
        self.assert_good_run()

    def test_members_that_escape(self):
        outside = self.directory / "outside"
        depth = "../" * 12
        for name, content in ((f"{depth}{outside}".replace("//", "/"), b"x"), (str(outside), b"x"),
                              ("sg00/../../outside", b"x"),
                              ("link", {"type": b"2", "linkname": "/etc/passwd"}),
                              ("hard", {"type": b"1", "linkname": "kelf-0.json"}),
                              ("pipe", {"type": b"6"}), ("disk", {"type": b"4"})):
            with self.subTest(member=name):
                self.refused(with_payload(self.good, archive([(name, content)])), INVALID)
                self.assertFalse(outside.exists())
        self.assert_good_run()

    def test_files_that_escape_by_reference(self):
        for reference in ("../../../../etc/passwd", "/etc/passwd"):
            with self.subTest(reference=reference):
                payload = archive([("kelf-0.json", b'{"graphs": [{"definition": "%s"}]}'
                                    % reference.encode())])
                self.refused(with_payload(self.good, payload), INVALID)

    def test_bomb(self):
        self.assert_good_run()
        zeros = gzip.compress(bytes(1 << 26), 6) * 64  # one stream after another: 4 GiB out of 4 MB
        self.refused(with_payload(self.good, zeros), INVALID)  # an empty archive, with a tail
        member = bytearray(archive([("kelf-0.json", b"")])[:512])
        for size in ((1 << 32) - 512, (1 << 33) - 1):
            member[124:136] = b"%011o\0" % size
            member[148:156] = b" " * 8
            member[148:156] = b"%06o\0 " % sum(member)
            with self.subTest(size=size):
                self.refused(with_payload(self.good, bytes(member)), RESOURCE, words=("bomb",))
                self.refused(with_payload(self.good, gzip.compress(bytes(member)) + zeros),
                             RESOURCE, words=("bomb",))
        many = archive([("m", b"")])[:512] * 70000  # headers of empty members
        self.refused(with_payload(self.good, gzip.compress(many, 1)), RESOURCE, words=("bomb",))
        # Kilobytes; of all the processes of this test.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 600 << 10)
        self.assert_good_run()

    def test_deep_json(self):
        for member in (b"[" * 1000000, b'{"a":' * 100000):
            self.refused(with_payload(self.good, archive([("kelf-0.json", member)])), INVALID)
        self.assert_good_run()

    def repacked(self, member, change):
        """The good file with one member changed, whatever the packer says about it."""
        root = self.directory / "good.members"
        path = root / member
        before = path.read_text()
        path.write_text(change(before))
        packed = self.command(tool("neff"), "pack", root, "-o", self.directory / "changed.neff")
        path.write_text(before)
        self.assertEqual(packed.code, 0, packed)
        return (self.directory / "changed.neff").read_bytes()

    def test_variables_larger_than_the_device(self):
        for size, status in ((1 << 34, RESOURCE), (1 << 40, RESOURCE), (2**63 - 1, INVALID),
                             (-1, INVALID)):
            def add(text, size=size):
                definition = json.loads(text)
                definition["var"]["t"] = {"type": "tmp-buf", "var_id": 9, "size": size}
                return json.dumps(definition)
            with self.subTest(size=size):
                self.refused(self.repacked("sg00/def.json", add), status)
        self.assert_good_run()

    def test_transfers_outside_memory(self):
        # Behind a tensor; between the memories of two partitions, where no target answers.
        for member, old, new in (("sp", '"from_off": 512', '"from_off": 33554432'),
                                 ("sp", '"from_off": 512', '"from_off": 256000'),
                                 ("sp", '"to_off": 256', '"to_off": 256000'),
                                 ("sp", '"to_off": 256', '"to_off": -256')):
            with self.subTest(change=new):
                self.refused(self.repacked(f"sg00/{member}.json",
                                           lambda text, o=old, n=new: text.replace(o, n)), INVALID)
        self.assert_good_run()

    def test_descriptor_outside_memory(self):
        """No file can hold one; a runtime with a defect could build it."""
        bent = 'LD_PRELOAD="$0 $LD_PRELOAD" exec "$@"'
        for half in ("tx", "rx"):
            for address in ("0x7ffff0000000", "0xfffffffffff00"):
                with self.subTest(half=half, address=address):
                    result = self.exec("sh", "-c", bent, BIN / "client/libbend_descriptors.so",
                                       tool("vector_add"), self.file, BEND_HALF=half,
                                       BEND_LENGTH="256", BEND_COUNT="1", BEND_ADDRESS=address)
                    self.assertEqual(result.code, 1, result)
                    self.assert_lines(result.err, "nrt_execute", *ABORT)
                    self.assert_lines(result.out, "DMA", "abort")
                    self.assert_good_run()

    def test_instructions_that_fail(self):
        operand = ("REGISTER_MOVE dst=r0 src=1000000\n"
                   "TENSOR_TENSOR op=ADD dst=fp32@0+r0[1][64] src0=fp32@0[1][64]"
                   " src1=fp32@256[1][64] partitions=0..127\nHALT")
        for name, text, call, status in (
                ("operand", operand, "nrt_execute", ("NRT_EXEC_COMPLETED_WITH_ERR", "(1004)")),
                ("store", "WRITE data=0x1 size=4 dst=0x7ffff0000000\nHALT", "nrt_load", INVALID),
                ("fall", "NOP", "nrt_load", INVALID),
                ("branch", "NOP\nBRANCH target=-100\nHALT", "nrt_load", INVALID)):
            with self.subTest(name=name):
                result = self.exec(tool("vector_add"), self.pack(name, {"dve": text}))
                self.assertEqual(result.code, 1, result)
                self.assert_lines(result.err, call, *status)
                self.assert_lines(result.out, "ERROR", "record" if name != "fall" else "HALT")
                self.assert_good_run()


if __name__ == "__main__":
    main()
