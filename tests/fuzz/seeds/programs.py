"""Seeds of the fuzz target of programs: texts with control, calls, tables and collectives, and
pieces of every instruction.
"""
import random
import struct

from seeds.engines import ENGINES, GENERATIONS, instructions

TEXT, PIECES, BARRIER = 0, 1, 2
PE, ACT, POOL, DVE, SP = range(len(ENGINES))

LOOP = """REGISTER_MOVE dst=r1 src=8
again: REGISTER_ALU op=SUB dst=r1 a=r1 b=1
TENSOR_TENSOR $S[3]>=1 $S[4]++@complete op=ADD dst=fp32@512+r1[1][64] src0=fp32@0[1][64]
  src1=fp32@256[1][64] partitions=0..127
COMPARE_BRANCH cond=NE a=r1 b=0 target=again
BRANCH target=end
NOP
end: DRAIN
HALT $S[5]>=r2
"""
CALLS = """PSEUDO_DMA_TRIGGER $S[1]>=1 q block_id=0
CALL name=f args_table_var_id=6
SWITCH_QUEUE_INSTANCE q instance=i
PSEUDO_DMA_TRIGGER q block_id=2
CALL $S[3]>=1 $S[4]++@complete name=g
HALT
.function f
TENSOR_LOAD dst=r2 src=uint32@arg0:8[4][1]
PSEUDO_DMA_TRIGGER q block_id=1
RETURN
.endfunction
.function g args_table_var_id=5
CALL name=h
COMPARE_BRANCH cond=EQ a=r2 b=0 target=done
TENSOR_STORE dst=int32@arg2:16+r3*4[4][1] src=r2 bounds=SKIP
done: RETURN
.endfunction
.function h
NOP
RETURN
.endfunction
"""
GENERATED = """DMA_MEMCPY d mode=HWDGE dst=fp32@sbuf:0[4,262144][8,16] src=fp32@t0:0[4,32][8,16]
  semaphore=3
DMA_MEMCPY d mode=HWDGE dst=fp32@t1:0+r1*128[4][8] src=fp32@t2:0[4][8] semaphore=3 bounds=SKIP
DMA_TRANSPOSE d mode=HWDGE dst=bf16@sbuf:0[2,262144][16,32] src=bf16@t0:0[2,64][32,16] semaphore=3
EVENT_SEMAPHORE $S[3]>=48
HALT
"""
CONTROL = """GET_GLOBAL_RANK_ID dst=r5
GET_CUR_PROCESSING_RANK_ID dst=r6 group_id=0 channel_id=1 iteration=r7
ALL_ENGINE_BARRIER semaphore=40
REGISTER_ALU64 op=MUL dst=r8 a=r10 b=12
HALT
"""
COLLECTIVE = """PSEUDO_TRIGGER_COLLECTIVE_2 $S[15]>=1 $S[16]++@complete ctype=ALL_REDUCE op=ADD
  dtype=float32 cc_dim=0 src0_var_id=3 src0_var_offset=0 src0_shape_reg=0 src0_pattern=[1][1024]
PSEUDO_EXTENSION group_id=0 channel_id=0 stream_id=1 dst_var_id=4 dst_var_offset=0 dst_shape_reg=0
  dst_pattern=[1][1024]
EVENT_SEMAPHORE $S[16]>=1
HALT
"""


def program_seeds():
    texts = (('loop', DVE, LOOP), ('calls', SP, CALLS), ('generated', ACT, GENERATED),
             ('control', POOL, CONTROL), ('collective', POOL, COLLECTIVE))
    for number, (name, engine, text) in enumerate(texts):
        generation = 1 + number % (GENERATIONS - 1)
        yield name, struct.pack('<4B', TEXT, generation, engine, 0) + text.encode()
    rng = random.Random(5)
    known = list(instructions())
    for generation in range(GENERATIONS):
        for engine, name in enumerate(ENGINES):
            numbers = [n for n, (_, _, engines) in enumerate(known) if engine in engines]
            mode = PIECES if engine % 2 == 0 else PIECES | BARRIER
            head = struct.pack('<4B', mode, generation, engine, 3 * engine)
            steps = (struct.pack('<4B', rng.randrange(6), rng.choice(numbers), rng.randrange(256),
                                 0) for _ in range(6))
            yield f'{name.lower()}_{generation + 2}', head + b''.join(steps)
