// Header of an engine instruction file (the *_instr members of a NEFF), 128 bytes, little-endian.
// Source of truth: spec/neff.md 5.5; table and string layouts are this project's own:
//   function table: 16 bytes each: name symbol, entry record, record count, argument table var_id
//   string table:   NUL-terminated strings; symbol i is the i-th; symbol 0 is the empty string
//   relocations:    none are defined in version 1.0 (operands name variables by var_id)
#pragma once

#include "arch/contract/isa_fields.h"

namespace contract {
namespace isa {

constexpr size_t kFileHeaderBytes = 128;
constexpr size_t kFunctionEntryBytes = 16;
constexpr uint8_t kFileMagic[8] = {'E', 'M', 'U', 'N', 'C', 'E', 'N', 'G'};
constexpr uint16_t kFileVersionMajor = 1;
constexpr uint16_t kFileVersionMinor = 0;
constexpr uint16_t kFileSelfCleaning = 1;  // the program leaves semaphores and events at zero

enum class FileError : uint8_t {
  kNone = 0,
  kTruncated,
  kBadMagic,
  kBadVersion,
  kBadEngine,
  kBadArch,
  kBadRecordSize,
  kReservedNotZero,
  kOutOfBounds,  // a table does not lie in the file
  kRelocations,
};

constexpr const char* to_string(FileError error) {
  switch (error) {
    case FileError::kNone:
      return "ok";
    case FileError::kTruncated:
      return "shorter than its header";
    case FileError::kBadMagic:
      return "no engine file magic";
    case FileError::kBadVersion:
      return "unknown format version";
    case FileError::kBadEngine:
      return "unknown engine id";
    case FileError::kBadArch:
      return "unknown architecture";
    case FileError::kBadRecordSize:
      return "record size is not 64";
    case FileError::kReservedNotZero:
      return "reserved header bytes or flags are not zero";
    case FileError::kOutOfBounds:
      return "a table lies outside the file";
    case FileError::kRelocations:
      return "relocations are not defined in this version";
  }
  return "unknown";
}

struct EngineFileHeader {
  uint16_t version_major = kFileVersionMajor;
  uint16_t version_minor = kFileVersionMinor;
  uint8_t engine = 0;
  uint8_t arch = 2;  // NeuronCore version: 2, 3, 4
  uint16_t flags = 0;
  uint32_t record_size = kRecordBytes;
  uint32_t record_count = 0;
  uint64_t records_offset = kFileHeaderBytes;
  uint64_t functions_offset = 0;
  uint64_t function_count = 0;
  uint64_t strings_offset = 0;
  uint64_t strings_bytes = 0;
  uint64_t relocations_offset = 0;
  uint64_t relocation_count = 0;
};

namespace detail {

// `count` items of `bytes` at `offset` lie behind the header and inside `size`; no overflow.
constexpr bool inside(uint64_t offset, uint64_t count, uint64_t bytes, uint64_t size) {
  if (count == 0) return true;
  return offset >= kFileHeaderBytes && offset <= size && count <= (size - offset) / bytes;
}

}  // namespace detail

// Parses and checks everything that the header says against the file's `size`.
constexpr FileError parse(const uint8_t* file, size_t size, EngineFileHeader* out) {
  if (size < kFileHeaderBytes) return FileError::kTruncated;
  for (size_t i = 0; i < sizeof kFileMagic; ++i) {
    if (file[i] != kFileMagic[i]) return FileError::kBadMagic;
  }
  out->version_major = load16(file + 8);
  out->version_minor = load16(file + 10);
  out->engine = file[12];
  out->arch = file[13];
  out->flags = load16(file + 14);
  out->record_size = load32(file + 16);
  out->record_count = load32(file + 20);
  out->records_offset = load64(file + 24);
  out->functions_offset = load64(file + 32);
  out->function_count = load64(file + 40);
  out->strings_offset = load64(file + 48);
  out->strings_bytes = load64(file + 56);
  out->relocations_offset = load64(file + 64);
  out->relocation_count = load64(file + 72);
  if (out->version_major != kFileVersionMajor) return FileError::kBadVersion;
  if (out->engine >= kEngines) return FileError::kBadEngine;
  if (out->arch < 2 || out->arch > 4) return FileError::kBadArch;
  if (out->record_size != kRecordBytes) return FileError::kBadRecordSize;
  if ((out->flags & ~kFileSelfCleaning) != 0) return FileError::kReservedNotZero;
  for (size_t i = 80; i < kFileHeaderBytes; ++i) {
    if (file[i] != 0) return FileError::kReservedNotZero;
  }
  if (out->relocation_count != 0) return FileError::kRelocations;
  const bool ok =
      detail::inside(out->records_offset, out->record_count, kRecordBytes, size) &&
      detail::inside(out->functions_offset, out->function_count, kFunctionEntryBytes, size) &&
      detail::inside(out->strings_offset, out->strings_bytes, 1, size);
  return ok ? FileError::kNone : FileError::kOutOfBounds;
}

// Writes the 128 bytes of the header.
constexpr void store(const EngineFileHeader& in, uint8_t* file) {
  for (size_t i = 0; i < kFileHeaderBytes; ++i) file[i] = 0;
  for (size_t i = 0; i < sizeof kFileMagic; ++i) file[i] = kFileMagic[i];
  store16(file + 8, in.version_major);
  store16(file + 10, in.version_minor);
  file[12] = in.engine;
  file[13] = in.arch;
  store16(file + 14, in.flags);
  store32(file + 16, in.record_size);
  store32(file + 20, in.record_count);
  store64(file + 24, in.records_offset);
  store64(file + 32, in.functions_offset);
  store64(file + 40, in.function_count);
  store64(file + 48, in.strings_offset);
  store64(file + 56, in.strings_bytes);
  store64(file + 64, in.relocations_offset);
  store64(file + 72, in.relocation_count);
}

}  // namespace isa
}  // namespace contract
