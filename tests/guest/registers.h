// Registers of a v2 device (Trainium1, Inferentia2) as offsets in its register BAR; where v3 and v4
// have them elsewhere, struct layout (device.h) says so. All numbers are from the hardware
// interface specification; the section is beside each group.
#pragma once

#include <stdint.h>

// 1.1, 1.2
#define VENDOR_ID 0x1D0F
#define DEVICE_TRAINIUM1 0x7164
#define DEVICE_INFERENTIA2 0x7264
#define DEVICE_TRAINIUM2 0x7364
#define DEVICE_TRAINIUM3 0x7564
#define DEVICE_TRAINIUM3_OTHER 0x7565
#define REVISION_QEMU 0xFF

// 2.2, 2.3: device addresses
#define HOST_WINDOW (1ull << 44)
#define BAR0_DEVICE_BASE 0x0FFFC0000000ull  // device address = BAR offset + this
#define HBM0 0x000000000000ull
#define HBM1 0x001000000000ull
#define HBM_RESERVED 0x01000000ull         // the first 16 MiB of each stack belong to the firmware
#define UNMAPPED_DEVICE 0x000800000000ull  // between the two stacks

// 2.3: BAR offsets
#define NC_EVENTS(i) (0x02700000u + (i)*0x04000000u)
#define NC_ENGINES(i) (0x02600000u + (i)*0x04000000u)  // docs/hardware-contract.md 3
#define TOPSP(i) (0x10000000u + (i)*0x400000u)
#define APB 0x30000000u
#define NC_NOTIFY(i) ((i) == 0 ? 0x30535000u : 0x30C35000u)
#define TOPSP_NOTIFY(i) (0x30E04000u + (i)*0x40000u)
#define BROADCAST(nc) (0x31000000u + (nc)*0x40000u)  // docs/hardware-contract.md 6
#define QEMU_RESET 0x30647010u
#define MISC 0x30FA0000u
#define PC_HOLE (HOST_WINDOW | 0xFE000000ull)  // a PC has no memory below its firmware
#define NCS 2
#define TOPSPS 6
#define HOLE 0x20000000u  // no block of 2.3 is near

// 7.1: misc RAM
#define MISC_API_VERSION (MISC + 0x000)
#define MISC_ROUTING_ID (MISC + 0x024)
#define MISC_SERIAL_LOW (MISC + 0x038)
#define MISC_SERIAL_HIGH (MISC + 0x03C)
#define MISC_SRAM_ECC (MISC + 0x040)
#define MISC_POWER (MISC + 0x054)
#define MISC_RUNTIME (MISC + 0x0C0)
#define MISC_DATA (MISC + 0x100)
#define MISC_ELECTION (MISC + 0x180)
#define MISC_RESET_MAP (MISC + 0x1D8)
#define MISC_RESET (MISC + 0x1EC)
#define MISC_REQUEST_HIGH (MISC + 0x1F0)
#define MISC_REQUEST_LOW (MISC + 0x1F4)
#define MISC_RESPONSE_HIGH (MISC + 0x1F8)
#define MISC_RESPONSE_LOW (MISC + 0x1FC)
#define MISC_TRIGGER (MISC + 0x800)
#define MISC_STATUS (MISC + 0x808)
#define MISC_STATUS_BUSY (1u << 3)
#define NOT_READY 0xDEADBEEFu  // 7.3
#define RESET_DEVICE 1u        // 8.1
#define RESET_NCS 2u
#define RESET_MAP_NC1 0x3802u

// 3.2, 3.3: UDMA unit
#define M2S_STATE 0x00200u
#define M2S_CHANGE_STATE 0x00204u
#define S2M_STATE 0x20200u
#define S2M_CHANGE_STATE 0x20204u
#define M2S_QUEUE(q) (0x01000u + (q)*0x1000u)
#define S2M_QUEUE(q) (0x21000u + (q)*0x1000u)
#define UNIT_HOLE 0x00F00u  // between the last M2S register and the queues
// 3.4: queue
#define Q_CONFIG 0x20u
#define Q_STATUS 0x24u
#define Q_BASE_LOW 0x28u
#define Q_BASE_HIGH 0x2Cu
#define Q_LENGTH 0x30u
#define Q_HEAD 0x34u
#define Q_DOORBELL 0x38u
#define Q_TAIL 0x3Cu
#define Q_RATE_LIMIT 0x74u
#define Q_M2S_COMPLETION 0xA0u
#define Q_S2M_COMPLETION 0x54u
#define Q_M2S_CONTROL 0xB0u
#define Q_S2M_CONTROL 0x64u
#define CONFIG_DISABLED 0x03000000u
#define CONFIG_ENABLED 0x03030000u
#define CONTROL_RESET 0x100u
#define POINTER(index, ring_id) ((uint32_t)(index) | (uint32_t)(ring_id) << 30)
// 3.7
#define STATE_NORMAL 1u
#define STATE_ABORT 4u
#define STATE_ABORTED(v) \
  (((v)&3) == 2 || ((v) >> 4 & 3) == 2 || ((v) >> 8 & 3) == 2 || ((v) >> 12 & 3) == 2)
// 3.9: secondary interrupt groups
#define GROUP_M2S 0x3A000u
#define GROUP_S2M 0x3A040u
#define GROUP_MASK 0x10u
#define GROUP_ABORT_MASK 0x30u
#define CAUSE_M2S_DATA_READ (1u << 8)
#define CAUSE_M2S_RING_READ (1u << 11)
#define CAUSE_M2S_RING_ID (1u << 17)
#define CAUSE_S2M_DATA_WRITE (1u << 1)
#define CAUSE_S2M_RING_READ (1u << 9)
#define CAUSE_S2M_RING_ID (1u << 11)

// 3.5: descriptors
#define RING_ID_SHIFT 24
#define FIRST (1u << 26)
#define LAST (1u << 27)
#define DMB (1u << 30)
#define OP_COPY 0x01080003u
#define OP_COPY_BARRIER 0x05080003u
#define MAX_DESCRIPTOR 0x10000u
#define MARKER 0xABCDEF01u  // 3.12

// 4: events and semaphores, offsets in their block
#define EVENT(i) (0x0000u + 4u * (i))
#define SEM_READ(i) (0x1000u + 4u * (i))
#define SEM_SET(i) (0x1400u + 4u * (i))
#define SEM_INC(i) (0x1800u + 4u * (i))
#define SEM_DEC(i) (0x1C00u + 4u * (i))
#define SEM_GAP 0x400u

// 5.2: notification queues
#define NQ_SET(k) (0x100u + (k)*0x28u)
#define NQ_BASE_LOW 0x0u
#define NQ_BASE_HIGH 0x4u
#define NQ_SIZE 0x8u
#define NQ_HEAD 0xCu

// docs/hardware-contract.md 3 to 5 (and data/regs/cc.json, engine.json): what the specification
// leaves open.
#define ENGINE(e) ((e)*0x10000u)
#define ENGINE_CONTROL 0x00u
#define ENGINE_STATUS 0x04u
#define ENGINE_ERROR_CODE 0x0Cu
#define ENGINE_PROGRAM_LOW 0x18u
#define ENGINE_PROGRAM_HIGH 0x1Cu
#define ENGINE_PROGRAM_COUNT 0x20u
#define ENGINE_START 1u
#define ENGINE_RESET 4u
#define ENGINE_STATE_IDLE 0u
#define ENGINE_STATE_ERROR 3u
#define ENGINE_ERROR_INSTRUCTION 1u
#define CC_TRIGGER 0x2000u
#define CC_CONTROL 0x2004u
#define CC_STATUS 0x2008u
#define CC_ERROR_CODE 0x2010u
#define CC_OPERATION(i) (0x4000u + 8u * (i))
#define CC_PROGRAM 0x10000u
#define CC_RUN 1u
#define CC_RESET 4u
#define CC_STATE_RESET 0u
#define CC_STATE_IDLE 1u
#define CC_STATE_ERROR 5u
#define CC_ERROR_OPERATION 4u
#define CC_OP_NOTIFY 10u
#define CC_OP_DONE 13u
#define NOTIFY_TYPE_NOTIFY 1u
#define NOTIFY_TYPE_ERROR 3u
#define NOTIFY_PHASE (1u << 31)
