# y = sum of x over both ranks, by way of two buffers in the scratchpad.
.engine pool
.arch trn1
0  PSEUDO_DMA_TRIGGER qPoolIn0 block_id=1
1  PSEUDO_TRIGGER_COLLECTIVE_2 $S[10]>=1 $S[15]++@complete ctype=ALL_REDUCE op=ADD dtype=float32 cc_dim=0
     src0_var_id=3 src0_var_offset=0 src0_shape_reg=0 src0_pattern=[1][1024]
2  PSEUDO_EXTENSION group_id=0 channel_id=0 stream_id=0
     dst_var_id=4 dst_var_offset=0 dst_shape_reg=0 dst_pattern=[1][1024]
3  PSEUDO_DMA_TRIGGER $S[15]>=1 qPoolOut0 block_id=2
4  EVENT_SEMAPHORE $S[11]>=1
5  HALT
