#include "tools/neuron-ls/table.h"

#include <algorithm>

namespace neuron_ls {
namespace {

std::string rule(const std::vector<size_t>& widths) {
  std::string line = "+";
  for (const size_t width : widths) line += std::string(width + 2, '-') + "+";
  return line + "\n";
}

std::string centred(const std::string& text, size_t width) {
  const size_t left = (width - text.size()) / 2;
  return std::string(left, ' ') + text + std::string(width - text.size() - left, ' ');
}

std::string left_aligned(const std::string& text, size_t width) {
  return text + std::string(width - text.size(), ' ');
}

}  // namespace

void Table::add_column(std::string first, std::string second) {
  columns_.push_back({std::move(first), std::move(second)});
}

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() {
  rows_.emplace_back();
}

std::vector<size_t> Table::widths() const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) {
    widths.push_back(std::max(column.first.size(), column.second.size()));
  }
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Table::text() const {
  const std::vector<size_t> width = widths();
  const std::string line = rule(width);
  std::string first = "|";
  std::string second = "|";
  for (size_t i = 0; i < columns_.size(); ++i) {
    first += " " + centred(columns_[i].first, width[i]) + " |";
    second += " " + centred(columns_[i].second, width[i]) + " |";
  }
  std::string out = line + first + "\n" + second + "\n" + line;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].empty()) {
      out += r + 1 < rows_.size() ? line : "";
      continue;
    }
    out += "|";
    for (size_t i = 0; i < width.size(); ++i) {
      out += " " + left_aligned(rows_[r][i], width[i]) + " |";
    }
    out += "\n";
  }
  return out + line;
}

}  // namespace neuron_ls
