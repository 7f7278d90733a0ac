// neff.json: optional metadata of inputs and outputs (spec/neff.md 2.3, 2.9).
#include <algorithm>

#include "neff_loader/parse.h"

namespace neff {
namespace {

void refuse_cpu_nodes(const Fields& top) {
  const Json* nodes = top.array("x_nodes");
  if (nodes == nullptr) return;
  for (const Json& node : *nodes) {
    const Fields f(node, top.where() + " x_nodes", "V-14", &top.report());
    const std::string kind = f.text("kind").value_or("");
    if (kind == "input" || kind == "accelerator") continue;
    top.report().fail(violation("V-14", f.where(), "node of kind '" + kind + "' is not supported",
                                status::kInvalid, base::Fault::kUnsupported));
  }
}

// Only fills what the variables leave open.
void merge_tensor(const Json& item, const Fields& top, Neff* neff) {
  const Fields f(item, top.where() + " x_tensors", "V-13", &top.report());
  const std::string name = f.text("name").value_or("");
  const std::string usage = f.text("usage").value_or("in");
  const auto it = std::find_if(
      neff->tensors.begin(), neff->tensors.end(),
      [&](const TensorInfo& t) { return t.name == name && t.is_input == (usage == "in"); });
  if (it == neff->tensors.end())
    return f.warn("tensor '" + name + "' is no variable of the subgraph");
  const auto size = f.integer("size");
  if (size && static_cast<uint64_t>(*size) != it->size) {
    f.warn("tensor '" + name + "' has another size than its variable; the variable counts");
  }
  if (!it->dtype) it->dtype = data_type(f.text("dtype").value_or(""));
  if (it->shape.empty()) {
    for (int64_t n : f.integers("shape")) it->shape.push_back(n < 0 ? 0 : static_cast<uint64_t>(n));
  }
  if (it->format.empty()) it->format = f.text("format").value_or("");
  it->alias_of = f.text("alias_of").value_or("");
}

}  // namespace

void parse_graph(const Context& c, Neff* neff) {
  const Member* member = c.archive.find("neff.json");
  if (member == nullptr) return;
  const std::optional<Json> root = parse_json(*member, c.options.limits, &c.report);
  if (!root) return;
  const Fields top(*root, member->name, "V-13", &c.report);
  if (!root->contains("x_format")) return;  // another schema, not public
  refuse_cpu_nodes(top);
  const Json* tensors = top.array("x_tensors");
  if (tensors == nullptr) return;
  for (const Json& item : *tensors) merge_tensor(item, top, neff);
}

}  // namespace neff
