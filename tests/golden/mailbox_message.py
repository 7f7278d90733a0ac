"""Messages of the mailboxes (spec/hw-registers.md 7.5), for whatever in tests writes them."""


def crc32c(data):
    """Castagnoli, reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def message(sequence, command, payload):
    head = bytes([sequence, command]) + (len(payload) + 8).to_bytes(2, "little")
    crc = crc32c(head + bytes(4) + payload)
    return head + crc.to_bytes(4, "little") + payload


assert crc32c(b"123456789") == 0xE3069283
assert message(2, 1, 0x008006C84024.to_bytes(8, "little"))[4:8] == (0x70454FC8).to_bytes(4, "little")
