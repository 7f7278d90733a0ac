// Untrusted bytes into everything that reads a NEFF. The first byte picks what the rest is: a whole
// file, a payload, one member of an otherwise good file, an engine file, or program text.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "neff_loader/asm.h"
#include "neff_loader/neff.h"
#include "neff_loader/pack.h"

namespace {

using Bytes = std::vector<uint8_t>;

constexpr char kDefinition[] = R"({"x_arch": "trn1", "pool": "pool.json", "pool_instr": "pool.bin",
 "dma_queue": {"q": {"type": "in", "semaphore": 1, "queue_instances": ["i"]}},
 "var": {"S": {"type": "state-buffer", "var_id": 0},
         "x": {"type": "input", "var_id": 1, "size": 64},
         "y": {"type": "output", "var_id": 2, "size": 64},
         "f": {"type": "file", "var_id": 3, "size": 64, "file_name": "w.npy"}},
 "x_cc": {"replica_groups": [[[0, 1]]], "participants": 2}})";
constexpr char kEngine[] = R"({"dma": [{"id": 1, "queue": "q", "desc": {
 "from": "x", "from_off": 0, "from_sizes": [64], "from_steps": [1],
 "to": "S", "to_off": 0, "to_sizes": [16, 4], "to_steps": [1, 262144]}}]})";
constexpr char kProgram[] = ".engine pool\n.arch trn1\nPSEUDO_DMA_TRIGGER q block_id=1\nHALT\n";

neff::LoadOptions small_limits() {
  neff::LoadOptions options;
  options.limits.max_total_bytes = options.limits.free_bytes = 1 << 22;
  options.limits.max_members = 100;
  return options;
}

void load(const Bytes& file) {
  const auto neff = neff::load(file, small_limits());
  if (!neff) return;
  for (uint32_t rank : {0u, 1u}) {
    const base::Status status = neff::check_context(*neff, {true, rank, 2});
    if (!status && status.error().what.empty()) std::abort();
  }
  for (const neff::Subgraph& sg : neff->subgraphs) {
    for (const neff::EngineProgram& p : sg.programs) {
      for (const neff::DmaElement& e : p.dma) {
        for (const neff::DmaTransfer& t : e.transfers) {
          neff::PieceCursor cursor(t.sources[0].pattern, t.destination.pattern);
          neff::Piece piece{};
          for (int i = 0; i < 100 && cursor.next(&piece); ++i) {
            const neff::Variable& from = sg.variables[t.sources[0].variable];
            const bool inside = from.type == neff::VariableType::kStateBuffer ||
                                piece.from + piece.bytes <= from.size;
            if (t.op == neff::DmaOp::kCopy && !inside) std::abort();
          }
        }
      }
    }
  }
}

Bytes file_of(const Bytes& payload, uint64_t features) {
  neff::Header h;
  h.data_size = payload.size();
  h.feature_bits = features;
  const auto header = neff::serialize(h);
  Bytes file(header.size() + payload.size());
  std::copy(header.begin(), header.end(), file.begin());
  std::copy(payload.begin(), payload.end(), file.begin() + neff::kHeaderBytes);
  return file;
}

void load_with_member(const std::string& name, const Bytes& content) {
  std::vector<neff::Member> members = {
      {"kelf-0.json", neff::text_bytes(R"({"graphs": [{"definition": "sg00/def.json"}]})")},
      {"sg00/def.json", neff::text_bytes(kDefinition)},
      {"sg00/pool.json", neff::text_bytes(kEngine)},
      {"sg00/pool.bin", *neff::assemble(kProgram)},
      {"sg00/w.npy", {}},
      {"neff.json", neff::text_bytes(R"({"x_format": "emu-neff-graph"})")}};
  for (neff::Member& m : members) {
    if (m.name == name) m.data = content;
  }
  const auto payload = neff::write_archive(members, false);
  if (payload) load(file_of(*payload, neff::kFeatureEmulator));
}

void round_trip(const Bytes& file) {
  const auto text = neff::disassemble(file);
  if (!text) return;
  const auto again = neff::assemble(*text);
  if (!again) std::abort();  // whatever disassembles, assembles
  const auto third = neff::disassemble(*again);
  if (!third || *third != *text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes rest(data + 1, data + size);
  switch (data[0] % 10) {
    case 0:
      load(rest);
      break;
    case 1:
      load(file_of(rest, 0));
      break;
    case 2:
      load_with_member("sg00/def.json", rest);
      break;
    case 3:
      load_with_member("sg00/pool.json", rest);
      break;
    case 4:
      load_with_member("sg00/pool.bin", rest);
      break;
    case 5:
      load_with_member("sg00/w.npy", rest);
      break;
    case 6:
      load_with_member("kelf-0.json", rest);
      break;
    case 7:
      load_with_member("neff.json", rest);
      break;
    case 8:
      round_trip(rest);
      break;
    default: {
      const auto file = neff::assemble({reinterpret_cast<const char*>(rest.data()), rest.size()});
      if (file) round_trip(*file);
    }
  }
  return 0;
}
