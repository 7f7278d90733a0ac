// The smallest machine that runs lowered collectives: byte arrays, semaphores, rings, CC programs.
// Adversarial: it picks the next CC-core or DMA packet at random among everything that the hardware
// contract allows, packets of one queue pass each other unless a barrier or a semaphore write
// intervenes, and addresses outside declared memory fail the test.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/collectives/ccl.h"
#include "tests/collectives/reference_fold.h"

namespace ccl {

// What a rank has at RankResources::weights: the weights, and a word that counts its completions.
constexpr uint64_t kCompletions = sizeof weight_rows();
inline std::vector<uint8_t> constants() {
  constexpr auto words = weight_rows();
  std::vector<uint8_t> bytes(kCompletions + sizeof(uint32_t), 0);
  std::memcpy(bytes.data(), words.data(), sizeof words);
  return bytes;
}

class ReferenceMachine {
 public:
  ReferenceMachine(contract::Gen gen, uint32_t seed) : map_{gen}, random_(seed) {}

  // Declares memory of a chip at a device address.
  void add_memory(uint32_t chip, uint64_t address, std::vector<uint8_t> bytes);
  std::vector<uint8_t>& memory(uint32_t chip, uint64_t address);

  // Loads one rank; the program starts `executions` times, one after the other.
  // Other CC-cores than the first start when they are triggered with `triggers`.
  void load(const RankResources& resources, const Lowered& lowered, uint32_t executions,
            const std::array<uint32_t, kMaxCcCores>& triggers = {});

  // Runs until nothing can move. False with `error` set on a contract violation or a deadlock.
  bool run();
  std::string error;

  uint32_t semaphore(uint32_t chip, uint64_t window, uint32_t index) const;
  bool all_semaphores_zero() const;
  uint64_t bytes_moved() const { return bytes_moved_; }
  std::vector<uint32_t> notifications;  // payloads, in order of appearance

 private:
  struct Packet {
    std::vector<contract::Descriptor> sources;
    bool compute = false;
    contract::DmaCompute op;
    std::vector<contract::Descriptor> destinations;  // copies of the result
    bool dmb = false;
    bool signal = false;
  };
  struct Queue {
    uint32_t chip = 0;
    std::vector<contract::Descriptor> m2s, s2m;
    uint64_t m2s_head = 0, m2s_tail = 0, s2m_head = 0, s2m_tail = 0;
    std::vector<Packet> pending;
    BlockRing room;  // of a queue of blocks, which has no prebuilt rings
  };
  struct Thread {
    uint32_t pc = 0;
    uint32_t registers[contract::cc_program::kRegisters] = {};
    bool live = true;
  };
  struct Core {  // a CC-core of a rank
    RankResources resources;
    uint32_t slot = 0;
    CcProgram program;
    uint32_t trigger = 0;         // word that starts the program
    uint32_t remaining = 0;       // triggers, with the one that runs
    std::vector<Thread> threads;  // of the program that runs
    size_t current = 0;           // goes on until it has to wait

    uint64_t window() const { return resources.cc_window(slot); }
  };

  bool step_core(Core* core);
  bool step_thread(Core* core, size_t thread);
  bool control(Core* core, size_t thread, const contract::cc_program::Record& record);
  bool block(Core* core, Thread* thread, const contract::cc_program::Record& record);
  void feed(uint32_t chip, uint64_t queue, std::vector<Packet> packets);
  void done(Core* core, const contract::cc_program::Record& record);
  bool step_queue(Queue* queue);
  void doorbell(uint32_t chip, uint64_t address, uint32_t value);
  void fetch(Queue* queue);
  bool fetch_one(Queue* queue);
  void check_signal(const Queue& queue, const Packet& packet);
  void execute(Queue* queue, const Packet& packet);
  void send(const Queue& queue, const Packet& packet);
  bool is_signal(uint32_t chip, uint64_t address) const;
  void write_word(uint32_t chip, uint64_t address, uint32_t value);
  uint8_t* at(uint32_t chip, uint64_t address, uint64_t bytes);
  void fail(const std::string& what);

  contract::AddressMap map_;
  std::mt19937 random_;
  std::map<std::pair<uint32_t, uint64_t>, std::vector<uint8_t>> memory_;
  std::map<std::tuple<uint32_t, uint64_t, uint32_t>, uint32_t> semaphores_;
  std::map<std::pair<uint32_t, uint64_t>, Queue> queues_;  // by chip and M2S register address
  std::map<std::pair<uint32_t, uint64_t>, std::vector<uint64_t>> broadcast_;
  std::vector<Core> cores_;
  uint64_t bytes_moved_ = 0;
};

}  // namespace ccl
