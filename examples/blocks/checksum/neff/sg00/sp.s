# The input goes to partition 0 of the core's SBUF, the checksum engine adds it up, and its result
# goes out. The engine stands at the begin of the region for attached blocks.
.engine sp
.arch trn1
0  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1
1  WRITE $S[10]>=16 dst=0x0fffe0000000 data=0x00000fffc0000000 size=8
2  WRITE dst=0x0fffe0000008 data=0x00000fffc0010000 size=8
3  WRITE dst=0x0fffe0000010,0x0fffe0000014 data=65536,1 size=4,4
4  PSEUDO_DMA_TRIGGER $S[40]>=1 qSyncOut0 block_id=2
5  EVENT_SEMAPHORE $S[11]>=16 $S[40]-=1@complete
6  HALT
