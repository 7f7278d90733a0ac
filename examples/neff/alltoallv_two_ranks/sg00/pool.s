# y gets blocks of x of both ranks, as long and where the rows of m say: send counts, send
# displacements, receive counts (written), receive displacements.
.engine pool
.arch trn1
0  PSEUDO_TRIGGER_COLLECTIVE_2 $S[15]++@complete ctype=ALL_TO_ALL_V dtype=uint32 cc_dim=0
     src0_var_id=1 src0_var_offset=0 src0_shape_reg=0 src0_pattern=[1][1024]
1  PSEUDO_EXTENSION group_id=0 channel_id=0 stream_id=0
     dst_var_id=2 dst_var_offset=0 dst_shape_reg=0 dst_pattern=[1][1024]
     metadata_var_id=3 recv_counts_known=0 has_rdispls=1
2  EVENT_SEMAPHORE $S[15]>=1
3  HALT
