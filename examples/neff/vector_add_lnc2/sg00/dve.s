# The first half of c = a + b, when all 16 queues have delivered both inputs.
.engine dve
.arch trn2
0  TENSOR_TENSOR $S[10]>=32 $S[20]++@complete op=ADD
     dst=fp32@512[1][64] src0=fp32@0[1][64] src1=fp32@256[1][64] partitions=0..63
2  HALT
