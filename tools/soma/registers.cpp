// `soma describe --registers`: the generated register tables of a platform's generation, where
// their blocks stand, and the windows that are known but not modelled.
#include <fmt/core.h>

#include <iterator>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "base/json.h"
#include "contract/regs/cc.h"
#include "contract/regs/engine.h"
#include "contract/regs/errtrig.h"
#include "contract/regs/misc.h"
#include "contract/regs/nq.h"
#include "contract/regs/pe_v2.h"
#include "contract/regs/pe_v3.h"
#include "contract/regs/sdma.h"
#include "contract/regs/sem.h"
#include "contract/regs/udma.h"
#include "tools/soma/options.h"

namespace soma {
namespace {

using contract::AddressMap;
using contract::RegInfo;
using nlohmann::ordered_json;

// Where the instances of a block stand.
struct RegisterPlace {
  std::string owner;
  std::vector<contract::Window> windows;
};

struct Block {
  const char* name;
  const char* title;
  const char* source;
  const RegInfo* first;
  const RegInfo* last;
  std::vector<RegisterPlace> places;
};

template <size_t N>
Block block(const char* name, const char* title, const char* source, const RegInfo (&regs)[N],
            std::vector<RegisterPlace> places) {
  return {name, title, source, std::begin(regs), std::end(regs), std::move(places)};
}

// `at(k)` for k of `count`, moved on by `offset`.
template <typename At>
RegisterPlace place(const char* owner, uint32_t count, At at, uint64_t offset = 0) {
  RegisterPlace p{owner, {}};
  for (uint32_t k = 0; k < count; ++k) {
    contract::Window window = at(k);
    window.device += offset;
    window.bar0 += offset;
    p.windows.push_back(window);
  }
  return p;
}

std::vector<Block> blocks(const AddressMap& map) {
  namespace c = contract;
  const auto nc = [&](uint32_t n) { return map.nc(n); };
  const auto cc = [&](uint32_t t) { return map.topsp(t); };
  const auto sdma = [&](uint32_t e) { return map.sdma(e); };
  std::vector<Block> all;
  all.push_back(
      block("udma", c::udma::kTitle, c::udma::kSource, c::udma::kRegs,
            {place("DMA engine", map.dma_engines(), [&](uint32_t e) { return map.udma(e); })}));
  all.push_back(block("sdma", c::sdma::kTitle, c::sdma::kSource, c::sdma::kRegs,
                      {place("DMA engine", map.dma_engines(), sdma)}));
  if (!map.v2()) {
    all.push_back(block("errtrig", c::errtrig::kTitle, c::errtrig::kSource, c::errtrig::kRegs,
                        {place("DMA engine", map.compute_engines(),
                               [&](uint32_t e) { return map.error_trigger(e); })}));
  }
  all.push_back(block("sem", c::sem::kTitle, c::sem::kSource, c::sem::kRegs,
                      {place("NeuronCore", map.ncs(), nc, c::tpb::kSemaphores),
                       place("CC-core", map.topsps(), cc)}));
  all.push_back(block("nq", c::nq::kTitle, c::nq::kSource, c::nq::kRegs,
                      {place("NeuronCore", map.ncs(), [&](uint32_t n) { return map.nc_nq(n); }),
                       place("CC-core", map.topsps(), [&](uint32_t t) { return map.topsp_nq(t); }),
                       place("DMA engine (trace)", map.dma_engines(), sdma, c::kSdmaTraceNq)}));
  Block engine = block("engine", c::engine::kTitle, c::engine::kSource, c::engine::kRegs, {});
  for (uint32_t e = 0; e < c::kEnginesPerNc; ++e) {
    constexpr const char* kNames[c::kEnginesPerNc] = {"PE", "ACT", "POOL", "DVE", "SP"};
    engine.places.push_back(
        place(kNames[e], map.ncs(), nc, c::tpb::kEngine + e * c::tpb::kEngineStride));
  }
  all.push_back(std::move(engine));
  all.push_back(block("cc", c::cc::kTitle, c::cc::kSource, c::cc::kRegs,
                      {place("CC-core", map.topsps(), cc)}));
  const RegisterPlace pe =
      place("NeuronCore", map.ncs(), [&](uint32_t n) { return map.pe_counters(n); });
  all.push_back(map.v2() ? block("pe", c::pe_v2::kTitle, c::pe_v2::kSource, c::pe_v2::kRegs, {pe})
                         : block("pe", c::pe_v3::kTitle, c::pe_v3::kSource, c::pe_v3::kRegs, {pe}));
  all.push_back(block("misc", c::misc::kTitle, c::misc::kSource, c::misc::kRegs,
                      {place("device", 1, [&](uint32_t) { return map.misc_ram(); })}));
  return all;
}

// Known windows that read 0 and ignore writes.
std::vector<RegisterPlace> inert_windows(const AddressMap& map) {
  if (map.v2()) return {};
  return {place("pre-processing block", map.preprocs(), [&](uint32_t p) { return map.preproc(p); }),
          place("CC-core without an index", map.spare_topsps(),
                [&](uint32_t s) { return map.spare_topsp(s); })};
}

const char* to_string(contract::Access access) {
  switch (access) {
    case contract::Access::kReadWrite:
      return "rw";
    case contract::Access::kReadOnly:
      return "ro";
    case contract::Access::kWriteOnly:
      return "wo";
    case contract::Access::kReadClear:
      return "rc";
    case contract::Access::kWrite0Clear:
      return "w0c";
  }
  return "";
}

const char* to_string(contract::RegKind kind) {
  switch (kind) {
    case contract::RegKind::kFunction:
      return "function";
    case contract::RegKind::kStorage:
      return "storage";
    case contract::RegKind::kUnsupported:
      return "unsupported";
  }
  return "";
}

std::string hex(uint64_t value, int digits) {
  return fmt::format("0x{:0{}x}", value, digits);
}

std::vector<const RegInfo*> rows_of(const Block& block, const AddressMap& map, bool unsupported) {
  std::vector<const RegInfo*> rows;
  for (const RegInfo* r = block.first; r != block.last; ++r) {
    if (r->in(static_cast<uint8_t>(map.gen)) && !(unsupported && r->supported())) rows.push_back(r);
  }
  return rows;
}

ordered_json to_json(const RegisterPlace& place) {
  ordered_json windows = ordered_json::array();
  for (const contract::Window& window : place.windows) {
    windows.push_back(
        {{"device", hex(window.device, 12)},
         {"bar0", window.bar0 == 0 && window.device != 0 ? "" : hex(window.bar0, 8)}});
  }
  return {{"owner", place.owner}, {"windows", std::move(windows)}};
}

void print_json(const AddressMap& map, bool unsupported) {
  ordered_json out;
  out["schema"] = "registers/1";
  out["generation"] = static_cast<int>(map.gen);
  out["blocks"] = ordered_json::array();
  for (const Block& b : blocks(map)) {
    ordered_json places = ordered_json::array();
    for (const RegisterPlace& p : b.places) places.push_back(to_json(p));
    ordered_json rows = ordered_json::array();
    for (const RegInfo* r : rows_of(b, map, unsupported)) {
      rows.push_back({{"name", r->name},
                      {"offset", hex(r->offset, 5)},
                      {"count", r->count},
                      {"stride", hex(r->stride, 1)},
                      {"access", to_string(r->access)},
                      {"reset", hex(r->reset, 8)},
                      {"writable", hex(r->writable, 8)},
                      {"kind", to_string(r->kind)},
                      {"meaning", r->doc}});
    }
    if (rows.empty()) continue;
    out["blocks"].push_back({{"block", b.name},
                             {"title", b.title},
                             {"source", b.source},
                             {"places", std::move(places)},
                             {"registers", std::move(rows)}});
  }
  out["unsupported_windows"] = ordered_json::array();
  for (const RegisterPlace& p : inert_windows(map))
    out["unsupported_windows"].push_back(to_json(p));
  fmt::print("{}\n", base::json_text(out, 1));
}

void print_place(const RegisterPlace& place) {
  const contract::Window& first = place.windows.front();
  const bool in_bar = first.bar0 != 0 || first.device == 0;
  fmt::print("  {} x {}: first at device {}{}\n", place.windows.size(), place.owner,
             hex(first.device, 12), in_bar ? ", BAR0 " + hex(first.bar0, 8) : ", not in BAR0");
}

void print_text(const std::string& platform, const AddressMap& map, bool unsupported) {
  fmt::print(
      "Registers of {} (generation v{}){}\n"
      "access: rw, ro, wo (reads 0), rc (reading clears), w0c (writing 0 clears)\n"
      "kind: function (modelled), storage (holds what is written), unsupported (storage; its "
      "effect "
      "is not modelled)\n"
      "Everything else in a block reads 0 and ignores writes.\n",
      platform, static_cast<int>(map.gen), unsupported ? ", known but not modelled" : "");
  for (const Block& b : blocks(map)) {
    const auto rows = rows_of(b, map, unsupported);
    if (rows.empty()) continue;
    fmt::print("\n{}: {} [{}]\n", b.name, b.title, b.source);
    for (const RegisterPlace& p : b.places) print_place(p);
    for (const RegInfo* r : rows) {
      const std::string repeat =
          r->count > 1 ? fmt::format("{} x {}", r->count, hex(r->stride, 1)) : "";
      const std::string line =
          fmt::format("  {} {:<13} {:<26} {:<3} {} {:<11} {}", hex(r->offset, 5), repeat, r->name,
                      to_string(r->access), hex(r->reset, 8), to_string(r->kind), r->doc);
      fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }
  const auto windows = inert_windows(map);
  if (windows.empty()) return;
  fmt::print("\nWindows that read 0 and ignore writes:\n");
  for (const RegisterPlace& p : windows) print_place(p);
}

}  // namespace

void describe_registers(const config::Platform& platform, bool unsupported, bool json) {
  const AddressMap map{static_cast<contract::Gen>(platform.generation)};
  if (json) {
    print_json(map, unsupported);
  } else {
    print_text(platform.name, map, unsupported);
  }
}

}  // namespace soma
