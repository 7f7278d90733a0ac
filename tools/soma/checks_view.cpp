#include "tools/soma/checks_view.h"

#include "base/json.h"
#include "sim/report.h"

namespace soma {
namespace {

using nlohmann::json;

sim::CheckSite site_of(const json& site) {
  sim::CheckSite out;
  out.who = site.at("who").get<std::string>();
  out.dma = site.value("dma", "");
  out.operation = site.value("operation", "");
  out.record = site.value("record", 0u);
  out.line = site.value("line", "");
  return out;
}

sim::CheckRow row_of(const json& finding) {
  sim::CheckRow row;
  row.kind = finding.at("kind").get<std::string>();
  row.where = finding.at("where").get<std::string>();
  if (finding.contains("partitions")) finding["partitions"].get_to(row.partitions);
  if (finding.contains("bytes")) finding["bytes"].get_to(row.bytes);
  row.count = finding.at("count").get<uint64_t>();
  for (const json& site : finding.at("instructions")) row.sites.push_back(site_of(site));
  return row;
}

}  // namespace

base::Result<std::string> checks_text(const std::string& report) {
  try {
    const json root = json::parse(report);
    if (!root.contains("checks")) return std::string();
    const json& checks = root.at("checks");
    std::string out;
    for (const json& finding : checks.at("findings")) out += row_of(finding).text() + "\n";
    const auto more = checks.at("more").get<uint64_t>();
    if (more != 0) out += std::to_string(more) + " more findings\n";
    return out.empty() ? "The checks found nothing.\n" : out;
  } catch (const json::exception& error) {
    return base::Error{base::Fault::kConfig, 0, "report",
                       std::string("its checks are not those of a report: ") + error.what()};
  }
}

}  // namespace soma
