# Loads a and b, and stores c when the Vector engine has added them.
.engine sp
.arch trn1
    PSEUDO_DMA_TRIGGER qSyncIn0 block_id=1
    PSEUDO_DMA_TRIGGER qSyncIn0 block_id=2
    PSEUDO_DMA_TRIGGER $S[20]>=1 qSyncOut0 block_id=3
    EVENT_SEMAPHORE $S[11]>=16
    HALT
