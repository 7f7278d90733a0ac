# The second half, stored after the first core has stored its own: its 16 queues each increment S[30].
.engine sp
.arch trn2
0  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1
1  PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2
2  EVENT_SEMAPHORE $S[30]>=16
3  PSEUDO_DMA_TRIGGER $S[20]>=1 qSyncOut0 block_id=3
4  EVENT_SEMAPHORE $S[11]>=16
5  HALT
