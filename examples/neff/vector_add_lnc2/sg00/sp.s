# Loads the first half of a and b, and stores that of c when the Vector engine has added them; the
# store tells the other core, too.
.engine sp
.arch trn2
0  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1
1  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2
2  PSEUDO_DMA_TRIGGER $S[20]>=1 qSyncOut0 block_id=3
3  EVENT_SEMAPHORE $S[11]>=16
4  HALT
