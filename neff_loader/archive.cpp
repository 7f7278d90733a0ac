#include "neff_loader/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>

#include "neff_loader/status.h"

namespace neff {
namespace {

using Handle = ::archive;

struct FreeRead {
  void operator()(Handle* a) const { archive_read_free(a); }
};
struct FreeWrite {
  void operator()(Handle* a) const { archive_write_free(a); }
};
struct FreeEntry {
  void operator()(archive_entry* e) const { archive_entry_free(e); }
};

base::Error archive_error(Handle* a) {
  const char* text = archive_error_string(a);
  return violation("V-10", "NEFF payload", text == nullptr ? "archive error" : text);
}

base::Error limit_error(const std::string& what) {
  return violation("R-01", "NEFF payload", what + "; the file looks like an archive bomb",
                   status::kResource, base::Fault::kResource);
}

// Bytes that may still be unpacked.
class Budget {
 public:
  Budget(uint64_t payload, const Limits& limits) {
    const uint64_t ratio = std::max<uint64_t>(limits.max_ratio, 1);
    const uint64_t by_ratio =
        payload > limits.max_total_bytes / ratio ? limits.max_total_bytes : payload * ratio;
    left_ = std::min(limits.max_total_bytes, std::max(limits.free_bytes, by_ratio));
  }

  bool covers(uint64_t bytes) const { return bytes <= left_; }
  void take(uint64_t bytes) { left_ -= bytes; }

 private:
  uint64_t left_;
};

// Reads in steps, so that memory follows the data that really exists and not the entry's claim.
base::Status read_data(Handle* a, uint64_t size, std::vector<uint8_t>* out) {
  constexpr uint64_t kStep = 1 << 20;
  while (out->size() < size) {
    const size_t old = out->size();
    const size_t want = static_cast<size_t>(std::min(kStep + old, size - old));
    out->resize(old + want);
    const la_ssize_t got = archive_read_data(a, out->data() + old, want);
    if (got < 0) return archive_error(a);
    out->resize(old + static_cast<size_t>(got));
    if (got == 0) return violation("V-10", "NEFF payload", "member is shorter than its entry says");
  }
  return {};
}

base::Status read_member(Handle* a, archive_entry* entry, Budget* budget, Archive* out) {
  const char* raw = archive_entry_pathname(entry);
  if (raw == nullptr) return violation("V-11", "NEFF payload", "member without a usable name");
  base::Result<std::string> name = safe_name(raw);
  if (!name) return name.error();
  const auto type = archive_entry_filetype(entry);
  if (archive_entry_hardlink(entry) != nullptr || (type != AE_IFREG && type != AE_IFDIR)) {
    return violation("V-11", *name, "member is neither a regular file nor a directory");
  }
  if (type == AE_IFDIR) return {};
  if (name->empty()) return violation("V-11", "NEFF payload", "file without a name");
  const la_int64_t size = archive_entry_size(entry);
  if (size < 0) return violation("V-10", *name, "negative size");
  if (!budget->covers(static_cast<uint64_t>(size))) {
    return limit_error("member " + *name + " of " + std::to_string(size) + " bytes is too large");
  }
  budget->take(static_cast<uint64_t>(size));
  Member member{*name, {}};
  if (base::Status s = read_data(a, static_cast<uint64_t>(size), &member.data); !s) return s;
  out->members.push_back(std::move(member));
  return {};
}

// Sorts names; of duplicates the last one wins (spec/neff.md 1.8 rule 4).
void index_members(Archive* archive) {
  std::vector<Member>& all = archive->members;
  std::vector<uint32_t>& order = archive->by_name;
  const auto sort_by_name = [&] {
    order.resize(all.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return all[a].name < all[b].name; });
  };
  sort_by_name();
  std::vector<bool> drop(all.size());
  bool any = false;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const std::string& name = all[order[i]].name;
    if (name != all[order[i + 1]].name) continue;
    drop[order[i]] = any = true;
    archive->warnings.push_back("member " + name + " occurs twice; the last one counts");
  }
  if (!any) return;
  std::vector<Member> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!drop[i]) kept.push_back(std::move(all[i]));
  }
  all = std::move(kept);
  sort_by_name();
}

}  // namespace

const Member* Archive::find(std::string_view name) const {
  const auto it = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [&](uint32_t i, std::string_view wanted) { return members[i].name < wanted; });
  return it != by_name.end() && members[*it].name == name ? &members[*it] : nullptr;
}

std::string directory_of(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

base::Result<std::string> safe_name(std::string_view name) {
  const auto bad = [&](const char* why) {
    return violation("V-11", std::string(name), std::string("unsafe member name: ") + why);
  };
  if (!name.empty() && name[0] == '/') return bad("absolute path");
  if (name.find('\\') != std::string_view::npos) return bad("backslash");
  std::string out;
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, slash);
    name.remove_prefix(std::min(slash + 1, name.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") return bad("leads out of the archive");
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

base::Result<std::string> member_path(const std::string& directory, const std::string& name) {
  base::Result<std::string> path = safe_name(name);
  if (!path || directory.empty()) return path;
  return directory + "/" + *path;
}

base::Result<Archive> read_archive(base::ConstByteSpan payload, bool gzip, const Limits& limits) {
  std::unique_ptr<Handle, FreeRead> a(archive_read_new());
  archive_read_support_format_tar(a.get());
  if (gzip) archive_read_support_filter_gzip(a.get());
  if (archive_read_open_memory(a.get(), payload.data(), payload.size()) != ARCHIVE_OK) {
    return archive_error(a.get());
  }
  Archive out;
  Budget budget(payload.size(), limits);
  uint64_t entries = 0;
  archive_entry* entry = nullptr;
  for (;;) {
    const int r = archive_read_next_header(a.get(), &entry);
    if (r == ARCHIVE_EOF) break;
    if (r < ARCHIVE_WARN) return archive_error(a.get());
    if (++entries > limits.max_members) {
      return limit_error("more than " + std::to_string(limits.max_members) + " members");
    }
    if (base::Status s = read_member(a.get(), entry, &budget, &out); !s) return s.error();
  }
  index_members(&out);
  return out;
}

base::Result<std::vector<uint8_t>> write_archive(const std::vector<Member>& members, bool gzip) {
  std::unique_ptr<Handle, FreeWrite> a(archive_write_new());
  archive_write_set_format_pax_restricted(a.get());
  if (gzip) {
    archive_write_add_filter_gzip(a.get());
    archive_write_set_filter_option(a.get(), "gzip", "timestamp", nullptr);
  }
  std::vector<uint8_t> out;
  const auto append = [](Handle*, void* to, const void* data, size_t size) -> la_ssize_t {
    const auto* bytes = static_cast<const uint8_t*>(data);
    static_cast<std::vector<uint8_t>*>(to)->insert(static_cast<std::vector<uint8_t>*>(to)->end(),
                                                   bytes, bytes + size);
    return static_cast<la_ssize_t>(size);
  };
  archive_write_set_bytes_in_last_block(a.get(), 1);
  if (archive_write_open(a.get(), &out, nullptr, append, nullptr) != ARCHIVE_OK) {
    return archive_error(a.get());
  }
  std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
  for (const Member& m : members) {
    archive_entry_clear(entry.get());
    archive_entry_set_pathname(entry.get(), m.name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), 0, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(m.data.size()));
    const bool ok = archive_write_header(a.get(), entry.get()) == ARCHIVE_OK &&
                    (m.data.empty() || archive_write_data(a.get(), m.data.data(), m.data.size()) ==
                                           static_cast<la_ssize_t>(m.data.size()));
    if (!ok) return archive_error(a.get());
  }
  if (archive_write_close(a.get()) != ARCHIVE_OK) return archive_error(a.get());
  return out;
}

}  // namespace neff
