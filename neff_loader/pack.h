// Making NEFFs: from members in memory to the bytes of a file, and back (spec/neff.md 1.4, 1.8,
// 1.11).
//
//   std::vector<neff::Member> members = {
//       {"sg00/def.json", ...}, {"sg00/pool.json", ...}, {"sg00/pool.bin", *neff::assemble(text)}};
//   base::Result<std::vector<uint8_t>> file = neff::pack(std::move(members), {});
//
// Deterministic: equal members and options give equal bytes. A missing kelf-0.json, neff.json or
// info.json is written from the definitions; programs ("sg00/pool.s") are assembled when
// def.json's *_instr names the same file with another suffix ("pool.bin") and it is missing.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "arch/contract/isa_file.h"
#include "base/error.h"
#include "base/span.h"
#include "neff_loader/archive.h"
#include "neff_loader/container.h"

namespace neff {

struct PackOptions {
  std::string name = "network";
  std::string build_version = "emu-0.1";
  uint64_t pkg_version = 2;
  uint64_t version_major = 2;
  uint64_t version_minor = 0;
  uint64_t feature_bits = kFeatureEmulator;
  std::optional<uint32_t> lnc_size;             // default: number of subgraphs
  std::optional<std::array<uint8_t, 16>> uuid;  // default: version 4 form of a digest of the file
  bool gzip = true;
};

std::vector<uint8_t> text_bytes(std::string_view text);

// The bytes of an engine instruction file (spec/neff.md 5.5): `header` says engine, arch and flags,
// `functions` are rows of contract::isa::kFunctionEntryBytes, `symbols`[0] is the empty one. An
// empty section is left out.
std::vector<uint8_t> engine_file(contract::isa::EngineFileHeader header,
                                 base::ConstByteSpan records, base::ConstByteSpan functions,
                                 const std::vector<std::string>& symbols);

base::Result<std::vector<uint8_t>> pack(std::vector<Member> members, const PackOptions& options);

struct Unpacked {
  Header header;
  base::ConstByteSpan payload;  // points into the file; the unpacker stores it as neff.tgz
  Archive archive;
  std::vector<std::string> warnings;
};

// Without version and feature checks; also reads the layout of spec/neff.md 1.3 column C.
base::Result<Unpacked> unpack(base::ConstByteSpan file, const Limits& limits = {});

}  // namespace neff
