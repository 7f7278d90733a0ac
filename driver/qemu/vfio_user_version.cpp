#include "driver/qemu/vfio_user_version.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "driver/qemu/guest_memory.h"

namespace driver::qemu::vfio {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMaxTransfer = "max_data_xfer_size";
constexpr size_t kMaxJson = 4096;  // the capabilities of the document take a tenth of it

base::Error refuse(const std::string& what) {
  return {base::Fault::kUsage, EINVAL, "vfio-user version", what};
}

// The object of capabilities, empty if there is none.
base::Result<Json> capabilities(base::ConstByteSpan data) {
  if (data.empty()) return Json::object();
  if (data.size() > kMaxJson) {
    return refuse("version data of " + std::to_string(data.size()) + " bytes, at most " +
                  std::to_string(kMaxJson) + " are taken");
  }
  if (data[data.size() - 1] != 0) return refuse("version data without a NUL at its end");
  const Json json =
      base::parse_ordered_json({reinterpret_cast<const char*>(data.data()), data.size() - 1});
  if (json.is_discarded() || !json.is_object()) return refuse("version data is no JSON object");
  const auto found = json.find("capabilities");
  if (found == json.end()) return Json::object();
  if (!found->is_object()) return refuse("capabilities are no JSON object");
  return Json(*found);
}

// A whole number of at least `least`, as 64 bits; nothing if it is not proposed.
base::Result<std::optional<uint64_t>> number(const Json& from, const char* name, uint64_t least) {
  const auto found = from.find(name);
  if (found == from.end()) return std::optional<uint64_t>();
  if (!found->is_number_unsigned() || found->get<uint64_t>() < least) {
    return refuse(std::string(name) + " is no whole number of at least " + std::to_string(least));
  }
  return std::optional<uint64_t>(found->get<uint64_t>());
}

// Checks the client's and adds ours where it named one.
base::Status answer(const Json& theirs, Negotiated& result, Json& ours) {
  struct Limit {
    const char* name;
    uint64_t least;
    uint64_t ours;
  };
  constexpr Limit kLimits[] = {{"max_msg_fds", 0, kDefaultMaxFds},
                               {kMaxTransfer, 1, kDefaultMaxTransfer},
                               {"max_dma_maps", 1, GuestMemory::kMaxRegions},
                               {"pgsizes", 1, kPageSize}};
  for (const Limit& limit : kLimits) {
    const auto value = number(theirs, limit.name, limit.least);
    if (!value) return value.error();
    if (!value->has_value()) continue;
    ours[limit.name] = limit.ours;
  }
  const auto transfer = number(theirs, kMaxTransfer, 1);
  if (transfer && transfer->has_value()) {
    result.max_transfer =
        static_cast<uint32_t>(std::min<uint64_t>(**transfer, kDefaultMaxTransfer));
  }
  const auto multiple = theirs.find("write_multiple");
  if (multiple != theirs.end()) {
    if (!multiple->is_boolean()) return refuse("write_multiple is neither true nor false");
    result.write_multiple = multiple->get<bool>();
    if (result.write_multiple) ours["write_multiple"] = true;
  }
  return {};
}

}  // namespace

base::Result<Negotiated> negotiate(base::ConstByteSpan proposal) {
  if (proposal.size() < sizeof(Version)) return refuse("a message without a version");
  const auto version = base::load<Version>(proposal.data());
  if (version.major != kVersionMajor) {
    return refuse("major version " + std::to_string(version.major) + "; this server speaks " +
                  std::to_string(kVersionMajor));
  }
  const auto theirs = capabilities(proposal.sub(sizeof version, proposal.size() - sizeof version));
  if (!theirs) return theirs.error();
  Negotiated result;
  result.minor = std::min(version.minor, kVersionMinor);
  Json ours = Json::object();
  if (const base::Status good = answer(*theirs, result, ours); !good) return good.error();
  const std::string text = base::json_text(Json{{"capabilities", std::move(ours)}});
  result.reply.resize(sizeof version + text.size() + 1);
  base::store(result.reply.data(), Version{kVersionMajor, result.minor});
  std::copy(text.begin(), text.end(), result.reply.begin() + sizeof version);
  return result;
}

}  // namespace driver::qemu::vfio
