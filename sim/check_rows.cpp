#include "sim/check_rows.h"

#include <utility>
#include <vector>

#include "hw/check/checker.h"
#include "sim/report.h"

namespace sim {
namespace {

using hw::check::Finding;
using hw::check::Site;
CheckSite row_of(const Site& site) {
  return {site.who, site.by, site.operation, site.pc, site.line};
}

}  // namespace

void collect_checks(hw::check::Checker& checker, Report& report) {
  uint64_t more = 0;
  std::vector<CheckRow> rows;
  for (const Finding& finding : checker.take(&more)) {
    CheckRow& row = rows.emplace_back();
    row.kind = name(finding.kind);
    row.where = finding.where;
    row.count = finding.count;
    const hw::check::Area& area = finding.area;
    if (finding.rows) row.partitions = {area.first, area.end - 1};
    if (area.until > area.begin) row.bytes = {area.begin, area.until - 1};
    row.sites.push_back(row_of(finding.first));
    if (!finding.second.who.empty()) row.sites.push_back(row_of(finding.second));
  }
  report.set_checks(std::move(rows), more);
}

}  // namespace sim
