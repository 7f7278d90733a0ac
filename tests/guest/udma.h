// Driving a DMA engine: initialisation, rings, doorbells, completion (spec/hw-registers.md 3.10 to
// 3.12).
//
// A transfer takes a descriptor of the source (TX, the M2S half of a queue) and one of the
// destination (RX, its S2M half). Both rings are in memory; a doorbell says how many descriptors
// were added. Nothing is written back when they are done: the driver adds a last pair of
// descriptors, which copies a marker word to where the driver waits for it.
#pragma once

#include "device.h"

struct descriptor {
  uint32_t w0;  // length, ring id, packet bits
  uint32_t w1;  // TX: operation
  uint64_t address;
};

struct half {
  volatile struct descriptor* ring;
  uint64_t ring_device;
  uint32_t length;   // descriptors
  uint32_t index;    // where the next one goes
  uint32_t ring_id;  // of the current lap: 1, 2, 3, 0, 1...
  uint32_t added;    // since the last doorbell
};

struct queue {
  const struct device* device;
  uint32_t unit;  // BAR offset of the engine
  unsigned engine, number;
  struct half tx, rx;
  struct memory words;  // the marker, and where it is copied to
};

// BAR offset of an engine: 16 for each NeuronCore, then those for host copies.
uint32_t udma_unit(const struct device* device, unsigned engine);
// `again`: it was initialised before since the program started (spec/hw-registers.md 3.10, step 2).
void udma_init_engine(const struct device* device, unsigned engine, bool again);
// Rings of `length` descriptors in host memory.
void queue_init(struct queue* queue, const struct device* device, unsigned engine, unsigned number,
                uint32_t length);
// The register writes of section 3.11 for both halves; pointers start over.
void queue_restart(struct queue* queue);
void queue_reset_half(struct queue* queue, bool tx);

// Add descriptors; `flags` are FIRST, LAST and DMB.
void tx_add(struct queue* queue, uint64_t from, uint32_t bytes, uint32_t flags, uint32_t operation);
void rx_add(struct queue* queue, uint64_t to, uint32_t bytes);
// A packet of one source and one destination.
void copy_add(struct queue* queue, uint64_t to, uint64_t from, uint32_t bytes);
// Any number of bytes in packets of at most 64 KiB.
void copy_add_all(struct queue* queue, uint64_t to, uint64_t from, uint64_t bytes);
// A 4-byte write of `value` (which stays in `word`) to a register, by its BAR offset.
void signal_add(struct queue* queue, struct memory word, uint32_t value, uint32_t bar_offset);

void doorbell_rx(struct queue* queue);
void doorbell_tx(struct queue* queue);
// Adds a write barrier and the marker. Room for one more descriptor is needed.
void marker_add(struct queue* queue);
bool marker_wait(struct queue* queue, unsigned ms);
// Marker, both doorbells, S2M first as drivers do, and wait.
bool queue_run(struct queue* queue);

// measure.c: writes 16 MiB from the device address on.
void measure_driver_copy(struct queue* queue, uint64_t hbm);

uint32_t queue_read(const struct queue* queue, bool tx, uint32_t offset);
void queue_write(const struct queue* queue, bool tx, uint32_t offset, uint32_t value);

#define PATIENCE_MS 15000u  // for work; a busy host may be slow
