// What the checks of a machine (hw/check) have found, as rows of its report.
#pragma once

namespace hw::check {
class Checker;
}  // namespace hw::check

namespace sim {

class Report;

// Takes what has been found since the last call.
void collect_checks(hw::check::Checker& checker, Report& report);

}  // namespace sim
