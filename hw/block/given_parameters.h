// The parameters of a block or policy as the platform file gives them, and which have been asked
// for.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "soma/parameters.h"

namespace hw {

class GivenParameters final : public soma::Parameters {
 public:
  // `values` outlive it.
  explicit GivenParameters(const std::map<std::string, std::string>& values) : values_(values) {}

  const char* find(const char* name) const override {
    asked_.insert(name);
    const auto at = values_.find(name);
    return at == values_.end() ? nullptr : at->second.c_str();
  }
  // Throws std::invalid_argument for a name that nobody has asked for.
  void check_all_asked() const {
    for (const auto& [name, value] : values_) {
      if (asked_.count(name) == 0) throw std::invalid_argument("has no parameter '" + name + "'");
    }
  }

 private:
  const std::map<std::string, std::string>& values_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace hw
