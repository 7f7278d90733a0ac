#include "runtime/load/collective_options.h"

#include <algorithm>

#include "runtime/collectives/schedule/select.h"
#include "runtime/nrt/environment.h"
#include "runtime/nrt/status.h"

namespace nrt {
namespace {

// A comma list gives one value per stream; values that are none leave the default.
std::vector<std::optional<uint32_t>> packet_sizes(const std::string& list) {
  std::vector<std::optional<uint32_t>> sizes;
  for (size_t at = 0; at != std::string::npos;) {
    const size_t comma = list.find(',', at);
    const auto bytes = parse_number(list.substr(at, comma - at));
    const bool legal = bytes && *bytes >= 64 && *bytes <= contract::desc::kMaxLength;
    sizes.push_back(legal ? std::optional(static_cast<uint32_t>(*bytes)) : std::nullopt);
    at = comma == std::string::npos ? comma : comma + 1;
  }
  return sizes;
}

}  // namespace

base::Result<CollectiveOptions> CollectiveOptions::from_environment() {
  CollectiveOptions options;
  options.packet_bytes_ =
      packet_sizes(environment("NEURON_RT_DBG_CC_DMA_PACKET_SIZE").value_or(""));
  const std::string strict = environment("NCCOM_CC_STRICT").value_or("0");
  if (strict != "0" && strict != "1") {
    return error(NRT_INVALID, "NCCOM_CC_STRICT is '" + strict + "'; it can be 0 or 1");
  }
  options.strict_ = strict == "1";
  std::string text = environment("NCCOM_CC_ALGO").value_or("");
  if (const auto table = environment("NCCOM_CC_TABLE")) {
    text += (text.empty() ? "table:" : ",table:") + *table;
  }
  if (text.empty()) return options;
  auto overrides = ccl::load_overrides(text);
  if (!overrides) return overrides.error();
  options.overrides_ = std::make_shared<const ccl::Overrides>(std::move(*overrides));
  return options;
}

ccl::PlanOptions CollectiveOptions::of_stream(uint32_t stream) const {
  ccl::PlanOptions options;
  options.overrides = overrides_;
  options.schedule.strict = strict_;
  const size_t last = packet_bytes_.size() - 1;
  options.packet_bytes =
      packet_bytes_[std::min<size_t>(stream, last)].value_or(options.packet_bytes);
  return options;
}

}  // namespace nrt
