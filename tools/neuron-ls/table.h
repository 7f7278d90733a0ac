// A table with borders of +, - and |, and headers of two lines (spec/tools.md 3.2).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace neuron_ls {

class Table {
 public:
  // `title`: both lines; the second may be empty.
  void add_column(std::string first, std::string second);
  // As many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  // A rule below the row added last; at the end of the table there is one anyway.
  void add_rule();
  std::string text() const;

 private:
  struct Column {
    std::string first;
    std::string second;
  };
  std::vector<size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace neuron_ls
