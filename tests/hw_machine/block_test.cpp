// Blocks that others wrote, inside a machine: what they reach, what that costs, when the machine is
// at rest, what happens when they misbehave. One elaboration per process: each test has its own.
#define SC_INCLUDE_DYNAMIC_PROCESSES
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <deque>
#include <systemc>
#include <tlm>

#include "arch/contract/descriptor.h"
#include "hw/link/links.h"
#include "soma/block.h"
#include "tests/hw_machine/machine_bench.h"

namespace {

using hw::RunOutcome;
using hw_test::MachineBench;
namespace desc = contract::desc;
namespace sem = contract::sem;
namespace udma = contract::udma;

// A block with everything; what its thread and its target do is up to the test.
struct Probe : sc_core::sc_module {
  SC_HAS_PROCESS(Probe);
  tlm_utils::simple_target_socket<Probe> registers{"registers"};
  tlm_utils::simple_initiator_socket<Probe, 64> memory{"memory"};
  sc_core::sc_out<bool> line{"line"};

  explicit Probe(const sc_core::sc_module_name& name, soma::Host& h) : sc_module(name), host(h) {
    the = this;
    registers.register_b_transport(this, &Probe::b_transport);
    registers.register_transport_dbg(this, &Probe::transport_dbg);
    memory.register_invalidate_direct_mem_ptr(this, &Probe::invalidate);
    SC_THREAD(run);
  }

  void run() {
    for (;;) {
      wait(asked);
      while (!work.empty()) {
        const auto next = std::move(work.front());
        work.pop_front();
        next();
      }
    }
  }
  void b_transport(tlm::tlm_generic_payload& trans, sc_core::sc_time& delay) {
    EXPECT_EQ(delay, sc_core::SC_ZERO_TIME);
    calls.push_back({sc_core::sc_time_stamp().value(), trans.get_address(), trans.is_write()});
    if (before) before();
    if (refuse) return trans.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    transport_dbg(trans);
    delay += answers_after;
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& trans) {
    uint8_t* at = &content[trans.get_address()];
    if (trans.is_write()) {
      std::memcpy(at, trans.get_data_ptr(), trans.get_data_length());
    } else {
      std::memcpy(trans.get_data_ptr(), at, trans.get_data_length());
    }
    trans.set_response_status(tlm::TLM_OK_RESPONSE);
    return trans.get_data_length();
  }
  void invalidate(sc_dt::uint64, sc_dt::uint64) { ++invalidated; }

  // From its thread.
  tlm::tlm_response_status access(uint64_t address, void* data, size_t n, bool write,
                                  sc_core::sc_time delay = sc_core::SC_ZERO_TIME) {
    tlm::tlm_generic_payload trans;
    trans.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    trans.set_address(address);
    trans.set_data_ptr(static_cast<uint8_t*>(data));
    trans.set_data_length(static_cast<unsigned>(n));
    trans.set_streaming_width(static_cast<unsigned>(n));
    memory->b_transport(trans, delay);
    EXPECT_EQ(delay, sc_core::SC_ZERO_TIME);
    return trans.get_response_status();
  }

  struct Call {
    base::Ps at;
    uint64_t offset;
    bool write;
  };
  static Probe* the;
  soma::Host& host;
  sc_core::sc_event asked;
  std::deque<std::function<void()>> work;
  std::vector<Call> calls;
  std::function<void()> before;
  bool refuse = false;
  sc_core::sc_time answers_after;
  std::vector<uint8_t> content = std::vector<uint8_t>(0x20000);
  uint32_t invalidated = 0;
};
Probe* Probe::the = nullptr;

SOMA_BLOCK(probe, Probe)

struct BlockBench : MachineBench {
  static constexpr uint64_t kSize = 0x20000;
  using Change = std::function<void(hw::MachineParams&)>;
  static hw::BlockParams block() {
    hw::BlockParams p;
    p.name = "mine";
    p.type = &soma_block_probe;
    p.chips = {0};
    p.windows = {{"registers", contract::AddressMap{}.extension().device, kSize}};
    p.initiators = {{"memory", {16, 1000}, 4096, ~0u}};
    p.lines = {{"line", 1, 7}};
    return p;
  }
  explicit BlockBench(const Change& change = {}, uint32_t chips = 1)
      : MachineBench(contract::Gen::kV2, chips, [&](hw::MachineParams& p) {
          p.blocks = {block()};
          p.timing.hbm_stack = {32, 1000};
          if (change) change(p);
        }) {}

  Probe& probe() { return *Probe::the; }
  uint64_t window() { return map().extension().device; }
  uint64_t window_bar() { return map().extension().bar0; }
  hw::Fabric& fabric() { return machine.chip(0).fabric(); }
  // Has the block's thread do something and runs to rest; returns when it was through.
  base::Ps in_block(std::function<void()> what) {
    base::Ps end = 0;
    probe().work.emplace_back([this, what = std::move(what), &end] {
      const soma::Work working(probe().host);
      what();
      end = sc_core::sc_time_stamp().value();
    });
    run_task([this] {
      probe().asked.notify();
      machine.executor().delay(1);
    });
    EXPECT_NE(end, 0u);
    return end;
  }
  uint32_t semaphore(uint32_t core, uint32_t n) {
    uint32_t value = 0;
    EXPECT_TRUE(fabric().read32(map().nc_semaphores(core) + sem::kRead + n * 4, value));
    return value;
  }
};

TEST(Block, ReadsAndWritesMemoryAndPaysForIt) {
  BlockBench b;
  std::vector<uint8_t> data(8192);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7);
  std::vector<uint8_t> back(8192);
  base::Ps written = 0;
  const uint64_t at = b.map().hbm_base(1) + 0x5000;
  const base::Ps end = b.in_block([&] {
    EXPECT_EQ(b.probe().access(at, data.data(), data.size(), true), tlm::TLM_OK_RESPONSE);
    written = sc_core::sc_time_stamp().value();
    EXPECT_EQ(b.probe().access(at, back.data(), back.size(), false), tlm::TLM_OK_RESPONSE);
  });
  EXPECT_EQ(data, back);
  EXPECT_EQ(std::memcmp(b.fabric().direct(at, 8192), data.data(), 8192), 0);
  // Two packets of 4096 bytes at 16 B/ns, each beginning a picosecond after the one before.
  EXPECT_EQ(written, 2 * (256'000 + 1));
  EXPECT_EQ(end, 4 * (256'000 + 1));
  EXPECT_EQ(b.machine.chip(0).blocks()[0]->resources()[0]->total_bytes(), 16384u);
  EXPECT_EQ(b.fabric().hbm_resource(1).total_bytes(), 16384u);
}

// Two users of one stack of 32 B/ns: the second packet of 4096 bytes queues behind the first.
TEST(Block, QueuesBehindOthersOnItsWay) {
  BlockBench b([](hw::MachineParams& p) { p.blocks[0].initiators[0].rate = {1000, 1000}; });
  std::vector<uint8_t> data(4096);
  const base::Ps end = b.in_block([&] {
    b.fabric().hbm_resource(0).reserve({b.machine.queue().now(), 99, hw::Phase::kStart},
                                       32'000);  // 1 us
    b.probe().access(0x1000, data.data(), data.size(), false);
  });
  EXPECT_EQ(end, 1'000'000 + 128'000u);
}

TEST(Block, DelaysThatComeInAreWaitedFor) {
  BlockBench b;
  uint32_t word = 5;
  const base::Ps end = b.in_block(
      [&] { b.probe().access(0x1000, &word, 4, true, sc_core::sc_time(3, sc_core::SC_US)); });
  EXPECT_EQ(end, 3'000'000 + 250 + 1u);
}

TEST(Block, RaisesSemaphoresByLineAndByAddress) {
  BlockBench b;
  b.in_block([&] {
    for (int k = 0; k < 3; ++k) {
      b.probe().line.write(true);
      wait(sc_core::sc_time(1, sc_core::SC_NS));
      b.probe().line.write(false);
      wait(sc_core::sc_time(1, sc_core::SC_NS));
    }
    uint32_t five = 5;
    EXPECT_EQ(b.probe().access(b.probe().host.semaphore(0, 9), &five, 4, true),
              tlm::TLM_OK_RESPONSE);
  });
  EXPECT_EQ(b.semaphore(1, 7), 3u);
  EXPECT_EQ(b.semaphore(0, 9), 5u);
  EXPECT_EQ(b.probe().host.window("registers"), b.window());
  EXPECT_EQ(b.probe().host.window("memory"), 0u);
}

TEST(Block, WrongAccessesAreResponses) {
  BlockBench b;
  std::vector<uint8_t> data(64);
  b.in_block([&] {
    Probe& p = b.probe();
    EXPECT_EQ(p.access(0x7'0000'0000, data.data(), 4, false), tlm::TLM_ADDRESS_ERROR_RESPONSE);
    EXPECT_EQ(p.access(b.map().hbm_base(0) + b.map().hbm_size() - 8, data.data(), 64, false),
              tlm::TLM_ADDRESS_ERROR_RESPONSE);
    EXPECT_EQ(p.access(b.map().nc_semaphores(0) + sem::kRead, data.data(), 3, false),
              tlm::TLM_ADDRESS_ERROR_RESPONSE);
    tlm::tlm_generic_payload trans;
    trans.set_command(tlm::TLM_READ_COMMAND);
    trans.set_data_ptr(data.data());
    trans.set_data_length(8);
    trans.set_streaming_width(4);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    p.memory->b_transport(trans, delay);
    EXPECT_EQ(trans.get_response_status(), tlm::TLM_BURST_ERROR_RESPONSE);
    trans.set_streaming_width(8);
    trans.set_byte_enable_ptr(data.data());
    p.memory->b_transport(trans, delay);
    EXPECT_EQ(trans.get_response_status(), tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
  });
}

TEST(Block, DirectPointers) {
  BlockBench b;
  const auto ask = [&](uint64_t address, tlm::tlm_dmi& dmi) {
    tlm::tlm_generic_payload trans;
    trans.set_address(address);
    return b.probe().memory->get_direct_mem_ptr(trans, dmi);
  };
  tlm::tlm_dmi dmi;
  ASSERT_TRUE(ask(b.map().hbm_base(1) + 64, dmi));
  EXPECT_TRUE(dmi.is_read_write_allowed());
  EXPECT_EQ(dmi.get_dmi_ptr(), b.fabric().direct(dmi.get_start_address(), 1));
  EXPECT_GE(dmi.get_end_address(), b.map().hbm_base(1) + b.map().hbm_size() - 1);
  EXPECT_EQ(dmi.get_read_latency(), sc_core::sc_time(250, sc_core::SC_PS));
  EXPECT_TRUE(ask(b.map().nc(0).device, dmi)) << "SBUF";
  EXPECT_TRUE(ask(b.map().nc(1).device + contract::tpb::kPsum, dmi)) << "PSUM";
  EXPECT_FALSE(ask(b.map().nc_semaphores(0), dmi));
  EXPECT_FALSE(ask(b.host_address(0), dmi));
  EXPECT_EQ(b.probe().invalidated, 0u);
  b.machine.device(0).reset();
  EXPECT_EQ(b.probe().invalidated, 1u);
}

TEST(Block, NoPointersWherePayloadIsNotThere) {
  BlockBench b([](hw::MachineParams& p) { p.timing_only = true; });
  tlm::tlm_generic_payload trans;
  tlm::tlm_dmi dmi;
  trans.set_address(0x1000);
  EXPECT_FALSE(b.probe().memory->get_direct_mem_ptr(trans, dmi));
  b.fabric().hbm(0).elided().add(0x1000, 4096);
  uint32_t word = 0;
  b.in_block([&] { b.probe().access(0x1800, &word, 4, false); });
  EXPECT_EQ(b.machine.counters().elided_reads, 1u);
  b.in_block([&] {
    b.probe().access(0x1800, &word, 4, true);
    b.probe().access(0x1800, &word, 4, false);
  });
  EXPECT_EQ(b.machine.counters().elided_reads, 1u) << "what a block writes is real";
}

// From a driver task, whose load takes as long as the block does.
TEST(Block, ServesTheCpu) {
  BlockBench b;
  b.probe().answers_after = sc_core::sc_time(40, sc_core::SC_NS);
  b.probe().before = [] { sc_core::wait(sc_core::sc_time(60, sc_core::SC_NS)); };
  base::Ps end = 0;
  EXPECT_EQ(b.run_task([&] {
    b.machine.executor().delay(base::ns(5));
    b.put(b.window_bar() + 0x10, 0x1234'5678);
    EXPECT_EQ(b.get(b.window_bar() + 0x10), 0x1234'5678u);
    end = b.machine.executor().now();
  }),
            RunOutcome::kQuiescent);
  EXPECT_EQ(end, 205'000u);
  ASSERT_EQ(b.probe().calls.size(), 2u);
  EXPECT_EQ(b.probe().calls[0].at, 5'000u);
  EXPECT_EQ(b.probe().calls[1].at, 105'000u);
  EXPECT_EQ(b.machine.now(), base::us(10)) << "to the grid";
}

// From outside of the simulation: a host that does not live in simulated time.
TEST(Block, ServesHostsOutside) {
  BlockBench b;
  b.probe().before = [] { sc_core::wait(sc_core::sc_time(1, sc_core::SC_US)); };
  b.put(b.window_bar() + 4, 77);
  EXPECT_EQ(b.get(b.window_bar() + 4), 77u);
  b.probe().refuse = true;
  EXPECT_EQ(b.get(b.window_bar() + 4), 0u);
  EXPECT_EQ(b.machine.access_log().total(hw::AccessLog::Kind::kUnknown), 1u);
}

void start_copy(BlockBench& b, uint64_t to, uint64_t from, uint32_t bytes,
                uint32_t word_bytes = 0) {
  const uint64_t unit = b.map().udma(0).bar0;
  const contract::Descriptor tx = desc::tx_copy(from, bytes, 1);
  std::memcpy(b.fabric().direct(0x30'0000, 16), &tx, 16);
  const uint32_t each = word_bytes != 0 ? word_bytes : bytes;
  uint32_t n = 0;
  for (; n * each < bytes; ++n) {
    const contract::Descriptor rx = desc::rx(word_bytes != 0 ? to : to + n * each, each, 1);
    std::memcpy(b.fabric().direct(0x31'0000 + n * 16, 16), &rx, 16);
  }
  for (const uint64_t half : {contract::kS2mOffset, uint64_t{0}}) {
    const uint64_t q = unit + half + udma::kM2sQ;
    b.put(q + udma::kM2sQRingBaseLo, half == 0 ? 0x30'0000 : 0x31'0000);
    b.put(q + udma::kM2sQRingLength, 64);
    b.put(q + udma::kM2sQCfg, 0x303'0000);
    b.put(q + udma::kM2sQTailInc, half == 0 ? 1 : n);
  }
}

TEST(Block, DmaReadsItAndEndsWhenItAnswers) {
  BlockBench b;
  for (size_t i = 0; i < 4096; ++i) b.probe().content[i] = static_cast<uint8_t>(i * 3);
  b.probe().answers_after = sc_core::sc_time(5, sc_core::SC_US);
  start_copy(b, 0x20'0000, b.window(), 4096);
  b.probe().before = [&] { EXPECT_EQ(sc_core::sc_time_stamp().value(), b.machine.queue().now()); };
  // 770 ns until the descriptors are there, 4096 B at 17 B/ns, 1 ns for the buffer; then the block
  // takes its time, and the engine sees the answer a picosecond later.
  const base::Ps asked = 770'000 + 4096 * 1000 / 17 + 1000;
  EXPECT_EQ(b.machine.run_to_quiescence(asked + base::us(5)), RunOutcome::kSliceExpired);
  EXPECT_EQ(*b.fabric().direct(0x20'0001, 1), 0);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(std::memcmp(b.fabric().direct(0x20'0000, 4096), b.probe().content.data(), 4096), 0);
  ASSERT_EQ(b.probe().calls.size(), 1u);
  EXPECT_FALSE(b.probe().calls[0].write);
  EXPECT_GE(b.probe().calls[0].at, asked);
  EXPECT_LE(b.probe().calls[0].at, asked + 2);
}

TEST(Block, DmaWritesItInOrderAndASignalComesAfterIt) {
  BlockBench b;
  for (size_t i = 0; i < 64; ++i) *b.fabric().direct(0x10'0000 + i, 1) = static_cast<uint8_t>(i);
  // Sixteen words into one register, as into a FIFO.
  start_copy(b, b.window() + 8, 0x10'0000, 64, 4);
  std::vector<uint32_t> seen;
  b.probe().before = [&] { seen.push_back(base::load<uint32_t>(&b.probe().content[8])); };
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  ASSERT_EQ(seen.size(), 16u);
  for (uint32_t k = 1; k < 16; ++k) {
    EXPECT_EQ(seen[k], base::load<uint32_t>(b.fabric().direct(0x10'0000 + (k - 1) * 4, 4)));
  }
}

TEST(Block, ARefusalIsADmaError) {
  BlockBench b;
  b.probe().refuse = true;
  start_copy(b, b.window(), 0x10'0000, 64);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.counters().dma_errors, 1u);
  const uint64_t cause = b.map().udma(0).bar0 + udma::kSecondaryIrq + udma::kSecondaryIrqStride;
  EXPECT_EQ(b.get(cause) & hw::s2m_cause::kDataWrite, hw::s2m_cause::kDataWrite);
}

// A device reset while a block has not answered: nothing of the packet is left, and what comes late
// is dropped.
TEST(Block, AResetDropsWhatIsOutside) {
  BlockBench b;
  b.probe().answers_after = sc_core::sc_time(50, sc_core::SC_US);
  start_copy(b, 0x20'0000, b.window(), 64);
  EXPECT_EQ(b.machine.run_to_quiescence(base::us(10)), RunOutcome::kSliceExpired);
  ASSERT_EQ(b.probe().calls.size(), 1u);
  b.machine.chip(0).dma().reset();
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.counters().packets, 0u);
  b.probe().answers_after = sc_core::SC_ZERO_TIME;
  b.probe().content[0] = 0x5A;
  start_copy(b, 0x20'0000, b.window(), 64);
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(*b.fabric().direct(0x20'0000, 1), 0x5A);
}

// What others have ticking neither stops nor delays rest; what works does.
TEST(Block, RestIsWhatIsCounted) {
  BlockBench b;
  sc_core::sc_spawn([] {
    for (;;) sc_core::wait(sc_core::sc_time(700, sc_core::SC_PS));
  });
  EXPECT_EQ(b.run(), RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), 0u);
  EXPECT_EQ(b.run_task([&] { b.machine.executor().delay(base::us(3)); }), RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), base::us(10));
  base::Ps worked = 0;
  b.probe().work.emplace_back([&] {
    const soma::Work working(b.probe().host);
    sc_core::wait(sc_core::sc_time(25, sc_core::SC_US));
    worked = sc_core::sc_time_stamp().value();
  });
  EXPECT_EQ(b.run_task([&] {
    b.probe().asked.notify();
    b.machine.executor().delay(1);
  }),
            RunOutcome::kQuiescent);
  EXPECT_EQ(worked, base::us(35));
  EXPECT_EQ(b.machine.now(), base::us(40));
}

TEST(Block, BackgroundNeverKeepsFromRest) {
  BlockBench b([](hw::MachineParams& p) { p.blocks[0].background = true; });
  uint64_t reads = 0;
  b.probe().work.emplace_back([&] {
    const soma::Work working(b.probe().host);
    std::vector<uint8_t> data(64);
    for (;;) {
      b.probe().access(0x1000, data.data(), data.size(), false);
      ++reads;
    }
  });
  EXPECT_EQ(b.run_task([&] {
    b.probe().asked.notify();
    b.machine.executor().delay(base::us(1));
  }),
            RunOutcome::kQuiescent);
  EXPECT_EQ(b.machine.now(), base::us(10));
  EXPECT_EQ(reads, base::us(10) / (4000 + 1));
}

TEST(Block, WhatItThrowsEndsTheMachineByName) {
  BlockBench b;
  b.probe().before = [] { throw std::runtime_error("out of sorts"); };
  EXPECT_EQ(b.run_task([&] { b.put(b.window_bar(), 1); }), RunOutcome::kError);
  ASSERT_TRUE(b.machine.error());
  EXPECT_EQ(b.machine.error()->where, "d0.mine.registers");
  EXPECT_EQ(b.machine.error()->what, "out of sorts");
}

TEST(Block, HasToFitItsDescription) {
  const auto message = [](const std::function<void(hw::BlockParams&)>& change) {
    try {
      BlockBench b([&](hw::MachineParams& p) { change(p.blocks[0]); });
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  // One elaboration per process, so one of them.
  EXPECT_EQ(message([](hw::BlockParams& p) { p.windows[0].socket = "regs"; }).substr(0, 50),
            "block d0.mine has no target socket 'regs'; it has ");
}

TEST(Block, ADownLinkHoldsItBackUntilItIsUp) {
  BlockBench b([](hw::MachineParams& p) { p.links = {{0, 1, {32, 1000}}}; }, 2);
  hw::Links& links = *b.machine.links();
  ASSERT_TRUE(links.set_up(0, 1, false));
  uint32_t word = 42;
  bool through = false;
  b.probe().work.emplace_back([&] {
    EXPECT_EQ(b.probe().access(b.map().peer_address(1, 0x1000), &word, 4, true),
              tlm::TLM_OK_RESPONSE);
    through = true;
  });
  b.run_task([&] {
    b.probe().asked.notify();
    b.machine.executor().delay(1);
  });
  EXPECT_FALSE(through);
  EXPECT_EQ(b.machine.who_waits().back(), "d0.mine.memory waits for a chip that does not answer");
  ASSERT_TRUE(links.set_up(0, 1, true));
  EXPECT_EQ(b.run_task([&] { b.machine.executor().delay(base::us(1)); }), RunOutcome::kQuiescent);
  EXPECT_TRUE(through);
  EXPECT_EQ(base::load<uint32_t>(b.machine.chip(1).fabric().direct(0x1000, 4)), 42u);
}

}  // namespace

// SystemC protects a page of the stack of each of its threads; the leak checker faults when it
// reads there.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
