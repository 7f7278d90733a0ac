// Words of the firmware, registers that do not exist, accesses that no driver makes, and the legacy
// mailbox (spec/hw-registers.md 0.2, 7.1, 7.5).
#include <string.h>

#include "check.h"
#include "registers.h"
#include "suites.h"
#include "udma.h"

static void check_words(const struct device* d) {
  const uint32_t routing = reg_read(d, MISC_ROUTING_ID);
  ok(routing < 64, "1.5: routing id %u is below 64", routing);
  const uint32_t serial = reg_read(d, MISC_SERIAL_LOW);
  ok(serial != 0 && serial != NOT_READY, "7.2: serial number %08x%08x",
     reg_read(d, MISC_SERIAL_HIGH), serial);
  ok_equal(reg_read(d, MISC_RESET), 0, "7.2: no reset is requested");
  ok_equal(reg_read(d, MISC_STATUS) & MISC_STATUS_BUSY, 0, "7.2: the device is usable");
  bool healthy = true;
  for (uint32_t i = 0; i < 5; ++i) healthy &= reg_read(d, MISC_SRAM_ECC + 4 * i) == 0;
  ok(healthy, "7.1: no memory error is counted");
  ok((reg_read(d, MISC_POWER) & 0xFFFF) <= 10000, "7.1: utilisation is at most 10000");
  say("firmware API version %u", reg_read(d, MISC_API_VERSION));
}

static void check_unknown(const struct device* d) {
  const uint32_t unknown[] = {HOLE, HOLE + 0x1234, NC_NOTIFY(0) - 0x5000,
                              udma_unit(d, 5) + UNIT_HOLE, MISC + 0x5000};
  for (unsigned i = 0; i < sizeof unknown / sizeof unknown[0]; ++i) {
    reg_write(d, unknown[i], 0xFFFFFFFF);
    ok_equal(reg_read(d, unknown[i]), 0, "0.2: unknown register 0x%08x reads 0, ignores writes",
             unknown[i]);
  }
}

// Only naturally aligned 32-bit accesses are defined. Others may do anything to the words that they
// touch, and nothing else.
static void check_odd_accesses(const struct device* d) {
  const uint32_t base = MISC_RUNTIME;
  const uint32_t before = 0x11111111, after = 0x44444444;
  volatile uint8_t* at = d->registers + base;
  reg_write(d, base, before);
  reg_write(d, base + 12, after);
  (void)at[5];
  (void)*(volatile uint16_t*)(at + 6);
  (void)*(volatile uint16_t*)(at + 5);
  (void)*(volatile uint32_t*)(at + 6);
  (void)*(volatile uint64_t*)(at + 4);
  at[5] = 0xA5;
  *(volatile uint16_t*)(at + 6) = 0xA5A5;
  *(volatile uint16_t*)(at + 7) = 0xA5A5;
  *(volatile uint32_t*)(at + 6) = 0xA5A5A5A5;
  *(volatile uint64_t*)(at + 4) = 0xA5A5A5A5A5A5A5A5;
  ok_equal(reg_read(d, base), before, "0.2: odd accesses leave the word before them alone");
  ok_equal(reg_read(d, base + 12), after, "0.2: odd accesses leave the word after them alone");
  reg_write(d, base + 4, 0x22222222);
  reg_write(d, base + 8, 0x33333333);
  ok(reg_read(d, base + 4) == 0x22222222 && reg_read(d, base + 8) == 0x33333333,
     "0.2: words work after odd accesses");
  const uint32_t doorbell = udma_unit(d, 6) + M2S_QUEUE(2) + Q_DOORBELL;
  *(volatile uint8_t*)(d->registers + doorbell) = 1;
  *(volatile uint16_t*)(d->registers + doorbell + 1) = 1;
  ok_equal(reg_read(d, doorbell + 4), POINTER(0, 1),
           "0.2: a doorbell that is no word rings nothing");
}

void check_registers(struct device* d) {
  check_words(d);
  check_unknown(d);
  check_odd_accesses(d);
}

// --- The legacy mailbox ---

#define ERROR_NONE 0
#define ERROR_FAILED 1
#define ERROR_UNKNOWN 2
#define COMMAND_READ 1
#define COMMAND_METRIC 2
#define ANSWER_MS 5000  // the driver waits for a second, on a host that has nothing else to do

static uint32_t crc32c(const uint8_t* data, size_t bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

struct mailbox {
  const struct device* device;
  struct memory request, response;
  uint8_t sequence;  // 1 to 255
};

static void put16(uint8_t* at, uint32_t value) {
  at[0] = (uint8_t)value;
  at[1] = (uint8_t)(value >> 8);
}

// Makes a request and waits for its answer, whose error is returned; -1 without an answer.
static int mailbox_send(struct mailbox* m, uint8_t command, const void* payload, uint32_t bytes,
                        uint32_t crc_flaw, int patience_ms) {
  uint8_t* request = m->request.at;
  m->sequence = m->sequence == 255 ? 1 : (uint8_t)(m->sequence + 1);
  request[0] = m->sequence;
  request[1] = command;
  put16(request + 2, bytes + 8);
  memset(request + 4, 0, 4);
  if (bytes != 0) memcpy(request + 8, payload, bytes);
  const uint32_t crc = crc32c(request, bytes + 8) ^ crc_flaw;
  memcpy(request + 4, &crc, 4);
  memset(m->response.at, 0, 4);
  reg_write(m->device, MISC_REQUEST_LOW, (uint32_t)m->request.device);
  reg_write(m->device, MISC_REQUEST_HIGH, (uint32_t)(m->request.device >> 32));
  reg_write(m->device, MISC_RESPONSE_LOW, (uint32_t)m->response.device);
  reg_write(m->device, MISC_RESPONSE_HIGH, (uint32_t)(m->response.device >> 32));
  reg_write(m->device, MISC_TRIGGER, 1);
  const volatile uint8_t* response = m->response.at;
  for (int ms = 0; response[0] != m->sequence; ++ms) {
    if (ms >= patience_ms) return -1;
    sleep_ms(1);
  }
  return response[1];
}

static uint32_t answer_bytes(const struct mailbox* m) {
  return (uint32_t)(m->response.at[2] | m->response.at[3] << 8);
}

static void check_read(struct mailbox* m) {
  const uint32_t words[] = {MISC_ROUTING_ID, MISC_SERIAL_LOW, MISC_SERIAL_HIGH};
  uint64_t addresses[3];
  for (int i = 0; i < 3; ++i) addresses[i] = BAR0_DEVICE_BASE + words[i];
  ok_equal((uint64_t)mailbox_send(m, COMMAND_READ, addresses, sizeof addresses, 0, ANSWER_MS),
           ERROR_NONE, "7.5: READ of three words succeeds");
  ok_equal(answer_bytes(m), 4 + 3 * 4, "7.5: the answer has a header and three words");
  uint32_t values[3];
  memcpy(values, m->response.at + 4, sizeof values);
  for (int i = 0; i < 3; ++i)
    ok_equal(values[i], reg_read(m->device, words[i]), "7.5: READ of misc RAM 0x%03x agrees",
             words[i] - MISC);
}

// More than fits into one chunk of anything.
static void check_long_read(struct mailbox* m) {
  enum { N = 1000 };
  static uint64_t addresses[N];
  for (int i = 0; i < N; ++i) addresses[i] = BAR0_DEVICE_BASE + MISC_DATA + 4 * (uint32_t)(i % 32);
  for (uint32_t i = 0; i < 32; ++i) reg_write(m->device, MISC_DATA + 4 * i, 0x1000 + i);
  ok_equal((uint64_t)mailbox_send(m, COMMAND_READ, addresses, sizeof addresses, 0, ANSWER_MS),
           ERROR_NONE, "7.5: READ of %d words succeeds", N);
  bool good = answer_bytes(m) == 4 + N * 4;
  for (int i = 0; good && i < N; ++i) {
    uint32_t value;
    memcpy(&value, m->response.at + 4 + 4 * i, 4);
    good = value == 0x1000u + (uint32_t)(i % 32);
  }
  ok(good, "7.5: READ of %d words agrees", N);
}

static void check_metric(struct mailbox* m) {
  uint8_t metric[128];
  fill(metric, sizeof metric, 5);
  for (uint32_t i = 0; i < 32; ++i) {  // the driver puts it there as well
    uint32_t word;
    memcpy(&word, metric + 4 * i, 4);
    reg_write(m->device, MISC_DATA + 4 * i, word);
  }
  ok_equal((uint64_t)mailbox_send(m, COMMAND_METRIC, metric, sizeof metric, 0, ANSWER_MS),
           ERROR_NONE, "7.5: POST METRIC succeeds");
  ok(answer_bytes(m) >= 4 && answer_bytes(m) <= 8 + sizeof metric,
     "7.5: the answer to POST METRIC is no larger than the request");
  ok(same(m->device->registers + MISC_DATA, metric, sizeof metric),
     "7.5: the metric is in misc RAM 0x100");
}

static void check_bad_requests(struct mailbox* m) {
  const uint64_t address = BAR0_DEVICE_BASE + MISC_ROUTING_ID;
  ok_equal((uint64_t)mailbox_send(m, COMMAND_READ, &address, 8, 1, ANSWER_MS), ERROR_FAILED,
           "7.5: a wrong CRC is answered with error 1");
  ok_equal((uint64_t)mailbox_send(m, 0x77, &address, 8, 0, ANSWER_MS), ERROR_UNKNOWN,
           "7.5: an unknown command is answered with error 2");
  ok(mailbox_send(m, COMMAND_READ, &address, 5, 0, ANSWER_MS) > ERROR_NONE,
     "7.5: a READ of no whole number of addresses fails");
  const struct memory good = m->request;
  m->request.device = UNMAPPED_DEVICE;
  (void)mailbox_send(m, COMMAND_READ, &address, 0, 0, 50);
  m->request = good;
  ok_equal((uint64_t)mailbox_send(m, COMMAND_READ, &address, 8, 0, ANSWER_MS), ERROR_NONE,
           "7.5: after a request that was nowhere the next one works");
}

void check_mailbox(struct device* d) {
  struct mailbox m = {.device = d, .sequence = 1};  // the first number used is 2
  m.request = memory_get(65536);
  m.response = memory_get(65536);
  ok_equal(crc32c((const uint8_t*)"123456789", 9), 0xE3069283, "7.5: this program's CRC-32C");
  check_read(&m);
  check_long_read(&m);
  check_metric(&m);
  check_bad_requests(&m);
  m.sequence = 254;
  check_read(&m);
  check_read(&m);  // 255 -> 1
  ok_equal(m.sequence, 1, "7.5: sequence numbers skip 0");
}
