// Declarative registers: one static table per block type, built from the generated register map
// (contract::RegInfo) and a list of hooks; an instance holds only its values, made on first touch.
//
//   struct Counter : hw::RegBlock<Counter> { ... };
//   const hw::RegTable<Counter>& Counter::table() {
//     static const hw::RegTable<Counter> t("counter", contract::counter::kRegs, 0x100, {
//         {contract::counter::kStart, nullptr, &Counter::start},
//         {contract::counter::kValue, &Counter::value, nullptr}});
//     return t;
//   }
//
// The one behaviour of every block: naturally aligned 32-bit accesses reach a register. Any other
// size or alignment reads zeros and writes nothing; so do offsets without a register (and registers
// that this generation lacks), reads of write-only and writes of read-only registers. None of these
// is a bus error. All but reads of write-only registers are counted in the AccessLog with the
// block's instance, as are, by register, accesses to those whose effect is not modelled. Debug
// accesses run no write hook, tell read hooks that they are debug, and are not counted.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arch/contract/address_map.h"
#include "arch/contract/reg.h"
#include "base/span.h"
#include "hw/mem/bus.h"
#include "hw/stats.h"

namespace hw {

// Of an array register, `offset` is that of element 0 in the block, and hooks get the element.
template <typename Block>
struct RegHook {
  uint32_t offset;
  // Value read; `stored` is what plain storage would return.
  uint32_t (Block::*read)(uint32_t element, uint32_t stored, bool debug);
  // Called instead of storing; `value` is what software wrote, less the bits that hold nothing.
  void (Block::*write)(uint32_t element, uint32_t value);
};

template <typename Block>
class RegTable {
 public:
  static constexpr uint16_t kNone = 0xFFFF;

  struct Entry {
    const contract::RegInfo* info;
    uint32_t first;  // index of the value of element 0
    uint32_t (Block::*read)(uint32_t, uint32_t, bool) = nullptr;
    void (Block::*write)(uint32_t, uint32_t) = nullptr;
  };
  struct Word {
    uint16_t entry = kNone;
    uint16_t element = 0;
  };

  template <size_t N>
  RegTable(const char* name, const contract::RegInfo (&infos)[N], uint32_t window,
           std::initializer_list<RegHook<Block>> hooks)
      : name_(name), words_(window / 4) {
    for (const contract::RegInfo& info : infos) {
      const auto index = static_cast<uint16_t>(entries_.size());
      entries_.push_back({&info, values_, nullptr, nullptr});
      for (uint32_t k = 0; k < info.count; ++k) {
        const uint32_t at = (info.offset + k * info.stride) / 4;
        if (at < words_.size()) words_[at] = {index, static_cast<uint16_t>(k)};
      }
      values_ += info.count;
    }
    for (const RegHook<Block>& hook : hooks) {
      Entry& entry = hooked(hook.offset);
      entry.read = hook.read;
      entry.write = hook.write;
    }
  }

  const char* name() const { return name_; }
  uint32_t values() const { return values_; }
  Word word(uint64_t offset) const {
    return offset / 4 < words_.size() ? words_[offset / 4] : Word{};
  }
  const Entry& entry(uint16_t index) const { return entries_[index]; }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  // Hooks see the element, so they are named by the offset of element 0.
  Entry& hooked(uint32_t offset) {
    const Word found = word(offset);
    if (found.entry == kNone || entries_[found.entry].info->offset != offset ||
        entries_[found.entry].read != nullptr || entries_[found.entry].write != nullptr) {
      char text[160];
      std::snprintf(text, sizeof text,
                    "register table '%s': a hook for offset 0x%x; expected element 0 of a register "
                    "of the table, once",
                    name_, offset);
      throw std::logic_error(text);
    }
    return entries_[found.entry];
  }

  const char* name_;
  std::vector<Entry> entries_;
  std::vector<Word> words_;
  uint32_t values_ = 0;
};

// Base of one instance of a register block. Block::table() returns the static table.
template <typename Block>
class RegBlock : public BusTarget {
 public:
  explicit RegBlock(AccessLog& log) : log_(log) {}
  // Registers of other generations are unknown.
  RegBlock(AccessLog& log, contract::Gen gen)
      : log_(log), gens_(static_cast<uint8_t>(1u << static_cast<unsigned>(gen))) {}

  // What the log calls this block: "d0.dma5".
  virtual std::string instance() const { return Block::table().name(); }

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override {
    const RegTable<Block>& table = Block::table();
    if (!write) std::memset(data, 0, size);
    if (size != 4 || offset % 4 != 0) {
      if (!debug) log_.count(instance(), AccessLog::Kind::kPartial, hex(offset), write);
      return true;
    }
    const auto word = table.word(offset);
    if (word.entry == RegTable<Block>::kNone || (table.entry(word.entry).info->gens & gens_) == 0) {
      if (!debug) log_.count(instance(), AccessLog::Kind::kUnknown, hex(offset), write);
      return true;
    }
    const auto& entry = table.entry(word.entry);
    if (!entry.info->supported() && !debug) {
      log_.count(table.name(), AccessLog::Kind::kUnsupported, entry.info->name, write);
    }
    if (write) {
      if (debug && entry.write != nullptr) return true;
      write_reg(entry, word.element, base::load<uint32_t>(data), debug);
    } else {
      base::store(data, read_reg(entry, word.element, debug));
    }
    return true;
  }

  // Stored value of a register by its element-0 offset, without hooks.
  uint32_t value(uint32_t offset, uint32_t element = 0) const {
    const auto& entry = Block::table().entry(Block::table().word(offset).entry);
    return values_ == nullptr ? entry.info->reset : values_[entry.first + element];
  }
  void set_value(uint32_t offset, uint32_t value, uint32_t element = 0) {
    const auto& entry = Block::table().entry(Block::table().word(offset).entry);
    values()[entry.first + element] = value;
  }
  // All registers to their reset values.
  void reset_registers() { values_.reset(); }

 protected:
  ~RegBlock() override = default;
  AccessLog& access_log() { return log_; }

 private:
  using Entry = typename RegTable<Block>::Entry;

  uint32_t read_reg(const Entry& entry, uint32_t element, bool debug) {
    if (entry.info->access == contract::Access::kWriteOnly && entry.read == nullptr) return 0;
    const uint32_t stored = values_ == nullptr ? entry.info->reset : values_[entry.first + element];
    if (entry.read != nullptr) {
      return (static_cast<Block*>(this)->*entry.read)(element, stored, debug);
    }
    if (entry.info->access == contract::Access::kReadClear && !debug) {
      values()[entry.first + element] = 0;
    }
    return stored;
  }
  void write_reg(const Entry& entry, uint32_t element, uint32_t value, bool debug) {
    using contract::Access;
    const Access access = entry.info->access;
    if (access == Access::kReadOnly || access == Access::kReadClear) {
      if (!debug) log_.count(instance(), AccessLog::Kind::kDenied, entry.info->name, true);
      return;
    }
    value &= entry.info->writable;
    if (entry.write != nullptr) {
      (static_cast<Block*>(this)->*entry.write)(element, value);
      return;
    }
    uint32_t& stored = values()[entry.first + element];
    if (access == Access::kWrite0Clear) {
      stored &= value | ~entry.info->writable;
    } else {
      stored = (stored & ~entry.info->writable) | value;
    }
  }
  uint32_t* values() {
    if (values_ == nullptr) {
      const RegTable<Block>& table = Block::table();
      values_ = std::make_unique<uint32_t[]>(table.values());
      for (const Entry& e : table.entries()) {
        for (uint32_t k = 0; k < e.info->count; ++k) values_[e.first + k] = e.info->reset;
      }
    }
    return values_.get();
  }
  static std::string hex(uint64_t offset) {
    static const char digits[] = "0123456789abcdef";
    std::string text = "0x";
    for (int shift = 16; shift >= 0; shift -= 4) text += digits[(offset >> shift) & 15];
    return text;
  }

  AccessLog& log_;
  uint8_t gens_ = 0xFF;
  std::unique_ptr<uint32_t[]> values_;
};

}  // namespace hw
