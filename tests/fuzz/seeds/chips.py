"""The chips of the bench of registers and descriptors."""

V2, V3, V4 = 0, 1, 2
