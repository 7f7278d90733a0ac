# c = a + b, 1000 elements per partition: 15 turns of 64, then the 40 that are left.
# a at byte 0 of each partition, b at 4000, c at 8000; r0 is the byte offset of the turn.
.engine dve
.arch trn1
    REGISTER_MOVE $S[10]>=32 dst=r0 src=0
loop:
    TENSOR_TENSOR op=ADD dst=fp32@8000+r0[1][64] src0=fp32@0+r0[1][64] src1=fp32@4000+r0[1][64]
        partitions=0..127
    REGISTER_ALU op=ADD dst=r0 a=r0 b=256
    COMPARE_BRANCH cond=LTU a=r0 b=3840 target=loop
    TENSOR_TENSOR $S[20]++@complete op=ADD
        dst=fp32@8000+r0[1][40] src0=fp32@0+r0[1][40] src1=fp32@4000+r0[1][40] partitions=0..127
    HALT
