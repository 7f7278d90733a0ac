// A block of your own in a Soma chip.
//
// A block is an ordinary sc_module in a shared library: target sockets for what others read and
// write, initiator sockets for what it reads and writes itself, sc_out<bool> ports that raise
// semaphores, threads, methods, clocks. This header registers it:
//
//   struct Checksum : sc_core::sc_module {
//     tlm_utils::simple_target_socket<Checksum> registers{"registers"};
//     tlm_utils::simple_initiator_socket<Checksum> memory{"memory"};
//     sc_core::sc_out<bool> done{"done"};
//     Checksum(const sc_core::sc_module_name& name, soma::Host& host);
//   };
//   SOMA_BLOCK(checksum, Checksum)
//
// and an entry in "blocks" of a platform file puts it into chips, by library, type, and the names
// of its sockets and ports (docs/blocks.md). A constructor that takes the name alone will do.
//
// Rules:
//   * b_transport comes from a thread of the kernel, with delay 0, at the time of the access. The
//     block may wait in it, or return a delay; both delay the access, and those behind it.
//   * b_transport of an initiator socket may only be called from a thread (IEEE 1666). It returns
//     when the access is over, with delay 0: a delay that it is given is waited for first.
//   * The machine is at rest when none of its own parts is at work and no block is inside a
//     transaction. A block that works between transactions says so with soma::Work; a block with
//     "background": true never keeps the machine from rest.
#pragma once

#include <cstdint>
#include <systemc>
#include <tlm>
#include <type_traits>

#include "soma/parameters.h"

namespace soma {

// Of these headers; a library of another one is refused.
constexpr uint32_t kAbi = 1;

// What the machine offers a block beside its sockets. Lives as long as the block.
class Host {
 public:
  virtual const Parameters& parameters() const = 0;
  // Platform-wide number of the chip that the block sits in.
  virtual uint32_t chip() const = 0;
  // Device address of the window of a target socket, 0 if it has none.
  virtual uint64_t window(const char* socket) const = 0;
  // Address of core `core`'s increment register for a semaphore: a write of 4 bytes adds them.
  virtual uint64_t semaphore(uint32_t core, uint32_t semaphore) const = 0;
  // Begin and end of work that keeps the machine from rest; they nest (see Work).
  virtual void begin_work() = 0;
  virtual void end_work() = 0;

 protected:
  ~Host() = default;
};

// The machine is not at rest while one of these exists.
class Work {
 public:
  explicit Work(Host& host) : host_(host) { host_.begin_work(); }
  ~Work() { host_.end_work(); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  Host& host_;
};

// What SOMA_BLOCK puts into a library, under the name soma_block_<type>.
struct BlockType {
  uint32_t abi;
  const char* systemc;  // version that the library was compiled against
  sc_core::sc_module* (*create)(const char* name, Host& host);
};

template <typename Block>
sc_core::sc_module* create_block(const char* name, Host& host) {
  if constexpr (std::is_constructible_v<Block, sc_core::sc_module_name, Host&>) {
    return new Block(name, host);
  } else {
    return new Block(name);
  }
}

}  // namespace soma

#define SOMA_BLOCK(type, block)                     \
  extern "C" __attribute__((visibility("default"))) \
  const soma::BlockType soma_block_##type = {soma::kAbi, SC_VERSION, &soma::create_block<block>};
