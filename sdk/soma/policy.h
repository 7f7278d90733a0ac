// Decisions of a Soma machine that you may make in its place: which DMA queue goes next, how a link
// serves those who want it, which route data take from chip to chip, which of several switches they
// cross. A class of yours in a shared library is registered by one of the macros at the end:
//
//   struct RowsFirst : soma::Routing {
//     RowsFirst(const soma::Topology& topology, const soma::Parameters& parameters);
//     std::vector<uint32_t> route(uint32_t from, uint32_t to) override;
//   };
//   SOMA_ROUTING(rows_first, RowsFirst)
//
// and "policies" of a platform file selects it by library and type (docs/blocks.md). Policies are
// called at the simulated time of the decision. They must decide by what they are told and by their
// own state only: then a run is repeatable. An answer that is not among the choices ends the
// machine with an error that names the policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "soma/parameters.h"

namespace soma {

constexpr uint32_t kPolicyAbi = 1;

// Which queue of a DMA engine starts its next packet. One object per engine.
class QueueArbiter {
 public:
  virtual ~QueueArbiter() = default;
  // One of the queues in `waiting` (bit q: queue q has a packet). `last`: the queue that was served
  // last. `service_class`: 16 numbers, 0 is the most urgent.
  virtual uint32_t next(uint32_t waiting, uint32_t last, const uint8_t* service_class) = 0;
  // Queue `queue` has started a packet of so many bytes.
  virtual void started(uint32_t /*queue*/, uint64_t /*bytes*/) {}
};

// When a direction of a link, or of a switch port, is through with a packet. One object each.
class LinkArbiter {
 public:
  virtual ~LinkArbiter() = default;
  // A packet that comes at `now` (picoseconds, never less than before): when it has passed, at
  // least `now`. `chip`: where the engine sits that moves it.
  virtual uint64_t serve(uint64_t now, uint64_t bytes, uint32_t chip) = 0;
};

// A direction of a link: `bytes` take `picoseconds`.
struct LinkRate {
  uint64_t bytes = 1;
  uint64_t picoseconds = 1;
};

// Chips by number, then switches; links and ports join them in both directions.
class Topology {
 public:
  virtual uint32_t chips() const = 0;
  virtual uint32_t vertices() const = 0;                                       // chips and switches
  virtual const std::vector<uint32_t>& neighbours(uint32_t vertex) const = 0;  // sorted
  virtual uint32_t level(uint32_t vertex) const = 0;                           // of a switch
  // The shape of a torus, outermost dimension first, and a chip's place in it; empty if it has
  // none.
  virtual const std::vector<uint32_t>& dimensions() const = 0;
  virtual const std::vector<uint32_t>& coordinates(uint32_t chip) const = 0;

 protected:
  ~Topology() = default;
};

// Which route data take. Asked once for each pair; a route never changes.
class Routing {
 public:
  virtual ~Routing() = default;
  // Vertices from chip `from` to chip `to`, both included, each joined to the next; empty: the
  // built-in route.
  virtual std::vector<uint32_t> route(uint32_t from, uint32_t to) = 0;
};

// Which of several switches that join two chips is crossed. Asked once for each pair.
class SwitchChoice {
 public:
  virtual ~SwitchChoice() = default;
  // An index into `switches` (vertices, two or more).
  virtual size_t choose(uint32_t from, uint32_t to, const std::vector<uint32_t>& switches) = 0;
};

// What a policy is made from.
struct PolicySetting {
  const Parameters& parameters;
  const Topology* topology = nullptr;  // Routing, SwitchChoice
  LinkRate rate;                       // LinkArbiter
};

// What the macros put into a library, under the name soma_policy_<type>.
struct PolicyType {
  uint32_t abi;
  const char* kind;  // "queue_arbiter", "link_arbiter", "routing", "switch_choice"
  void* (*create)(const PolicySetting& setting);  // an object of the kind's class
};

// Policies are constructed from what they ask for: (topology, parameters), (rate, parameters),
// (parameters), or nothing.
template <typename Base, typename Policy>
void* create_policy(const PolicySetting& s) {
  Base* made = nullptr;
  if constexpr (std::is_constructible_v<Policy, const Topology&, const Parameters&>) {
    made = new Policy(*s.topology, s.parameters);
  } else if constexpr (std::is_constructible_v<Policy, const LinkRate&, const Parameters&>) {
    made = new Policy(s.rate, s.parameters);
  } else if constexpr (std::is_constructible_v<Policy, const Parameters&>) {
    made = new Policy(s.parameters);
  } else {
    made = new Policy();
  }
  return made;
}

}  // namespace soma

#define SOMA_POLICY(kind, base, type, policy)                                                     \
  extern "C" __attribute__((visibility("default"))) const soma::PolicyType soma_policy_##type = { \
      soma::kPolicyAbi, kind, &soma::create_policy<base, policy>};
#define SOMA_QUEUE_ARBITER(type, policy) \
  SOMA_POLICY("queue_arbiter", soma::QueueArbiter, type, policy)
#define SOMA_LINK_ARBITER(type, policy) SOMA_POLICY("link_arbiter", soma::LinkArbiter, type, policy)
#define SOMA_ROUTING(type, policy) SOMA_POLICY("routing", soma::Routing, type, policy)
#define SOMA_SWITCH_CHOICE(type, policy) \
  SOMA_POLICY("switch_choice", soma::SwitchChoice, type, policy)
