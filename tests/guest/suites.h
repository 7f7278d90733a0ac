// The parts of the test. Each leaves the device as a driver could: idle, or reset.
#pragma once

#include "device.h"

void check_pci(struct device* device);        // identity, BARs, decode switches
void check_registers(struct device* device);  // firmware words, unknown registers, odd accesses
void check_mailbox(struct device* device);
void check_reset(struct device* device);  // device, NeuronCore, simulator's register
void check_copies(struct device* device);
void check_queues(struct device* device);  // doorbells, barriers, resets, shapes
void check_dma_errors(struct device* device);
void check_semaphores(struct device* device);
void check_notifications(struct device* device);
void check_after_boot(struct device* device);  // after leave_busy and a reset of the guest
void check_removal(struct device* device);     // removes and finds it again
void leave_busy(struct device* device);        // transfers under way, for a reset of the guest
void measure(struct device* device);
// Every device of any generation: probe, reset, copies through every stack. Opens them itself.
void check_each(void);
// The election of an ultraserver among the guests of its four nodes. Opens its devices itself.
void check_election(void);

// company.c: another processor, if there is one, uses the device and `memory` (80 bytes) until it
// leaves. What it reads is right if the device is always there: not reset, its BARs enabled.
void company_comes(const struct device* device, volatile uint32_t* memory, bool always_there);
void company_leaves(void);

// A reset request with its handshake (spec/hw-registers.md 8.1, 8.2); false if it was not served in
// time.
bool reset_device(const struct device* device);
