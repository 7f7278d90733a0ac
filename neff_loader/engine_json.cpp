// Engine JSON: dma[] elements and their transfers (spec/neff.md 3.2 to 3.6, 3.10).
#include <algorithm>
#include <map>

#include "arch/contract/address_map.h"
#include "arch/contract/descriptor.h"
#include "neff_loader/parse.h"

namespace neff {
namespace {

struct OpName {
  const char* name;
  DmaOp op;
};
constexpr OpName kOps[] = {{"copy", DmaOp::kCopy},
                           {"cast", DmaOp::kCast},
                           {"add", DmaOp::kAdd},
                           {"fma", DmaOp::kFma},
                           {"min", DmaOp::kMin},
                           {"max", DmaOp::kMax},
                           {"transpose", DmaOp::kTranspose}};

constexpr size_t kMaxSources = contract::DmaCompute::kMaxSources;  // spec/neff.md 3.3, E-12
constexpr uint64_t kMaxRingDescriptors = contract::ring::kMost;

bool element_wise(DmaOp op) {
  return op != DmaOp::kCopy && op != DmaOp::kTranspose;
}
bool computes(DmaOp op) {
  return element_wise(op) && op != DmaOp::kCast;
}

// Reads one side; `side` is "from" or "to".
class OperandReader {
 public:
  OperandReader(const Context& context, const Subgraph& subgraph)
      : context_(context), subgraph_(subgraph) {}

  DmaOperand read(const Fields& f, const std::string& side, DmaOp op) const {
    DmaOperand out;
    const std::optional<std::string> name = f.text(side.c_str());
    if (!name) {
      f.fail("E-05", "'" + side + "' is missing");
      return out;
    }
    const Variable* variable = subgraph_.find_variable(*name);
    if (variable == nullptr) {
      f.fail("E-06", "variable '" + *name + "' is not in def.json");
      return out;
    }
    out.variable = static_cast<uint32_t>(variable - subgraph_.variables.data());
    out.dtype = read_dtype(f, side + "_dtype");
    read_pattern(f, side, &out.pattern);
    if (context_.report.ok()) check_pattern(f, side, *variable, op, out);
    return out;
  }

 private:
  static DataType read_dtype(const Fields& f, const std::string& key) {
    const std::string name = f.text(key.c_str()).value_or("uint8");
    const std::optional<DataType> type = data_type(name);
    if (!type) f.fail("E-11", "unknown data type '" + name + "'");
    return type.value_or(DataType::kUint8);
  }

  static void read_pattern(const Fields& f, const std::string& side, AccessPattern* p) {
    const std::string offset = side + "_off";
    if (!f.has(offset.c_str())) f.warn("'" + offset + "' is missing, read as 0");
    p->offset = f.integer(offset.c_str(), 0);
    const std::vector<int64_t> sizes = f.integers((side + "_sizes").c_str());
    const std::vector<int64_t> steps = f.integers((side + "_steps").c_str());
    if (sizes.size() != steps.size() || sizes.empty() || sizes.size() > AccessPattern::kMaxDims) {
      return f.fail("E-07", side + "_sizes has " + std::to_string(sizes.size()) + " and " + side +
                                "_steps " + std::to_string(steps.size()) +
                                " elements; expected equal numbers, 1 to 4");
    }
    p->dims = static_cast<unsigned>(sizes.size());
    for (unsigned i = 0; i < p->dims; ++i) {
      p->sizes[i] = sizes[i];
      p->steps[i] = steps[i];
      if (sizes[i] <= 0) f.fail("E-08", side + "_sizes holds " + std::to_string(sizes[i]));
      if (side == "to" && steps[i] == 0 && sizes[i] > 1) {
        f.fail("E-08", "to_steps holds 0 where to_sizes is " + std::to_string(sizes[i]));
      }
    }
  }

  void check_pattern(const Fields& f, const std::string& side, const Variable& v, DmaOp op,
                     const DmaOperand& operand) const {
    const AccessPattern& p = operand.pattern;
    if (!p.checked_bytes()) return f.fail("E-08", side + "_sizes multiply to more than 2^62 bytes");
    const bool inside = v.type == VariableType::kStateBuffer
                            ? in_state_buffer(p, sbuf_partition_bytes(subgraph_.core_version))
                            : in_bounds(p, v.size);
    if (!inside) f.fail("E-09", "'" + side + "' leaves variable " + v.name);
    const unsigned element = data_type_bytes(operand.dtype);
    if (element_wise(op) && (p.sizes[0] % element != 0 || (element > 1 && p.steps[0] != 1))) {
      f.fail("E-11", side + "_sizes[0] is no run of whole " +
                         std::string(to_string(operand.dtype)) + " elements");
    }
    if (p.innermost_passes() > contract::kDmaPerNc * kMaxRingDescriptors) {
      f.report().fail("R-02", f.where(), side + " has too many runs for 16 rings",
                      status::kResource);
    }
  }

  const Context& context_;
  const Subgraph& subgraph_;
};

void read_fma(const Fields& f, DmaTransfer* t) {
  if (t->op != DmaOp::kFma) {
    if (f.has("scale") || f.has("scale_dtype")) f.warn("'scale' has no meaning here (E-13)");
    return;
  }
  const std::string type = f.text("scale_dtype").value_or("float32");
  if (type != "float32") f.fail("E-13", "scale_dtype '" + type + "' is not float32");
}

void read_constant(const Fields& f, DmaTransfer* t) {
  if (t->op != DmaOp::kMin && t->op != DmaOp::kMax) return;
  const std::optional<std::string> type = f.text("constant_dtype");
  if (!type) return;
  t->constant_dtype = data_type(*type);
  if (*type != "float32" && *type != "int32" && *type != "uint32") {
    f.fail("E-14", "constant_dtype '" + *type + "' is not float32, int32 or uint32");
  }
  const std::optional<double> value = f.number("constant");
  if (!value) f.fail("E-14", "constant_dtype without 'constant'");
  t->constant = value.value_or(0.0);
}

void read_transpose(const Fields& f, DmaTransfer* t) {
  const AccessPattern& from = t->sources[0].pattern;
  const int64_t element = f.integer_in("transpose_element_size", 1, 8, "E-15").value_or(1);
  t->transpose_element_size = static_cast<unsigned>(element);
  std::vector<int64_t> shape = f.integers("transpose_shape");
  // [1, 1, R, C] with C * size = from_sizes[0] (spec/neff.md 3.4.1)
  if (!f.has("transpose_shape")) {
    shape = {1, 1, static_cast<int64_t>(from.innermost_passes()), from.sizes[0] / element};
  }
  if (shape.size() != 4) return f.fail("E-15", "transpose_shape does not have 4 elements");
  unsigned __int128 bytes = static_cast<uint64_t>(element);
  for (size_t i = 0; i < 4; ++i) {
    if (shape[i] <= 0 || shape[i] > INT32_MAX)
      return f.fail("E-15", "transpose_shape out of range");
    t->transpose_shape[i] = static_cast<uint64_t>(shape[i]);
    bytes *= t->transpose_shape[i];
  }
  if (bytes != from.bytes()) f.fail("E-15", "transpose_shape does not cover the source");
  const std::vector<int64_t> perm = f.integers("x_perm");
  if (!f.has("x_perm")) return;
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != std::vector<int64_t>{0, 1, 2, 3}) return f.fail("E-15", "x_perm is no permutation");
  for (size_t i = 0; i < 4; ++i) t->transpose_perm[i] = static_cast<uint8_t>(perm[i]);
}

void read_sources(const Fields& f, const OperandReader& reader, const Context& c, DmaTransfer* t) {
  const Json* array = f.array("from_arr");
  const double scale = f.number("scale").value_or(1.0);
  if (array == nullptr) {
    if (computes(t->op) && !f.has("from")) f.fail("E-05", "neither 'from' nor 'from_arr'");
    t->sources.push_back(reader.read(f, "from", t->op));
    t->sources.back().scale = scale;
    return;
  }
  if (!element_wise(t->op)) return f.fail("E-05", "'from_arr' on an operation with one source");
  if (array->empty() || array->size() > kMaxSources ||
      (t->op == DmaOp::kCast && array->size() > 1)) {
    return f.fail("E-12", "from_arr has " + std::to_string(array->size()) + " sources");
  }
  for (size_t i = 0; i < array->size() && c.report.ok(); ++i) {
    const Fields source((*array)[i], f.where() + " from_arr " + std::to_string(i), "E-05",
                        &c.report);
    t->sources.push_back(reader.read(source, "from", t->op));
    t->sources.back().scale = source.number("scale").value_or(scale);
  }
}

// Rule E-10.
void check_amounts(const Fields& f, const DmaTransfer& t) {
  const auto amount = [&](const DmaOperand& o) {
    return element_wise(t.op) ? o.pattern.bytes() / std::max(1u, data_type_bytes(o.dtype))
                              : o.pattern.bytes();
  };
  const uint64_t to = amount(t.destination);
  for (const DmaOperand& source : t.sources) {
    if (amount(source) == to) continue;
    f.fail("E-10", "source has " + std::to_string(amount(source)) + " and destination " +
                       std::to_string(to) + (element_wise(t.op) ? " elements" : " bytes"));
  }
}

void refuse_on_inf1(const Fields& f, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (f.has(key)) f.fail("E-18", std::string("'") + key + "' on inf1");
  }
}

DmaTransfer read_transfer(const Context& c, const Subgraph& sg, const Fields& f) {
  DmaTransfer t;
  if (sg.arch == Arch::kInf1) {
    refuse_on_inf1(f, {"op", "from_dtype", "to_dtype", "from_arr", "scale", "scale_dtype",
                       "constant", "constant_dtype", "transpose_shape", "transpose_element_size"});
  }
  const std::string name = f.text("op").value_or("copy");
  const auto* known = std::find_if(std::begin(kOps), std::end(kOps),
                                   [&](const OpName& o) { return name == o.name; });
  if (known == std::end(kOps)) {
    f.fail("E-04", "unknown op '" + name + "'");
    return t;
  }
  t.op = known->op;
  t.num_tiling_dimensions = f.integer("num_tiling_dimensions", 0);
  const OperandReader reader(c, sg);
  t.destination = reader.read(f, "to", t.op);
  if (c.report.ok()) read_sources(f, reader, c, &t);
  if (!c.report.ok()) return t;
  read_fma(f, &t);
  read_constant(f, &t);
  if (t.op == DmaOp::kTranspose) read_transpose(f, &t);
  check_amounts(f, t);
  return t;
}

// Rule E-02; sets queue and instance.
void read_queue(const Fields& f, const Subgraph& sg, DmaElement* e) {
  const std::string instance = f.text("instance_name").value_or("");
  const std::string queue = f.text("queue").value_or("");
  if (instance.empty() && queue.empty())
    return f.fail("E-02", "neither 'queue' nor 'instance_name'");
  for (size_t i = 0; i < sg.queues.size(); ++i) {
    const std::vector<std::string>& instances = sg.queues[i].instances;
    const bool match = instance.empty() ? sg.queues[i].name == queue
                                        : std::find(instances.begin(), instances.end(), instance) !=
                                              instances.end();
    if (!match) continue;
    e->queue = static_cast<uint32_t>(i);
    e->instance = instance;
    return;
  }
  f.fail("E-02", instance.empty() ? "unknown queue '" + queue + "'"
                                  : "unknown queue instance '" + instance + "'");
}

void read_completion(const Context& c, const Fields& f, const Subgraph& sg, DmaElement* e) {
  const QueueSet& queue = sg.queues[e->queue];
  if (const auto n = f.integer_in("event", 0, 255, "E-16")) e->event = static_cast<uint8_t>(*n);
  e->semaphore = queue.semaphore;
  if (const auto n = f.integer_in("semaphore", 0, 255, "E-16"))
    e->semaphore = static_cast<uint8_t>(*n);
  const std::vector<uint8_t>& pool = queue.semaphore_set;
  if (e->semaphore && !pool.empty() &&
      std::find(pool.begin(), pool.end(), *e->semaphore) == pool.end()) {
    f.warn("semaphore " + std::to_string(*e->semaphore) + " is not in the queue's semaphore_set");
  }
  for (int64_t n : f.integers("remote_semaphores")) {
    if (n < 0 || n > 255) f.fail("E-16", "remote_semaphores holds " + std::to_string(n));
    e->remote_semaphores.push_back(static_cast<uint8_t>(n));
  }
  const bool pair = c.header.lnc() == 2 && (sg.core_version == 0 || sg.core_version >= 3);
  if (!e->remote_semaphores.empty() && !pair) {
    f.fail("E-17", "remote_semaphores need LNC 2 on trn2 or later");
  }
}

DmaElement read_element(const Context& c, const Subgraph& sg, const Fields& f) {
  DmaElement e;
  if (!f.has("id") || !f.has("desc")) f.fail("E-01", "dma element without 'id' or 'desc'");
  if (sg.arch == Arch::kInf1) {
    refuse_on_inf1(f, {"instance_name", "function_start", "section_start_desc"});
  }
  e.id = f.integer("id", 0);
  read_queue(f, sg, &e);
  if (!c.report.ok()) return e;
  e.section_start = f.boolean("section_start_desc");
  read_completion(c, f, sg, &e);
  const Json* desc = f.find("desc");
  if (desc == nullptr) return e;
  const Json single = desc->is_array() ? Json() : Json::array({*desc});
  size_t index = 0;
  for (const Json& item : desc->is_array() ? *desc : single) {
    const Fields transfer(item, f.where() + " desc " + std::to_string(index++), "E-01", &c.report);
    e.transfers.push_back(read_transfer(c, sg, transfer));
    if (!c.report.ok()) return e;
  }
  return e;
}

void check_function(const Context& c, const Fields& f, const EngineProgram& p,
                    const std::string& name) {
  if (!c.executable) return;  // a foreign program's functions are not known
  for (const Function& known : p.functions) {
    if (known.name == name) return;
  }
  f.fail("E-03",
         "function_start names '" + name + "', which " + p.instr_file + " does not declare");
}

void add_to_block(EngineProgram* p, const Subgraph& sg, std::map<std::string, size_t>* index) {
  const auto element = static_cast<uint32_t>(p->dma.size() - 1);
  const DmaElement& e = p->dma.back();
  const std::string key = e.instance.empty() ? sg.queues[e.queue].name : e.instance;
  const std::string full = e.function + '\n' + key + '\n' + std::to_string(e.id);
  const auto [it, fresh] = index->emplace(full, p->blocks.size());
  if (fresh) p->blocks.push_back({e.function, e.queue, e.instance, key, e.id, {}});
  p->blocks[it->second].elements.push_back(element);
}

}  // namespace

const char* to_string(DmaOp op) {
  for (const OpName& o : kOps) {
    if (o.op == op) return o.name;
  }
  return "unknown";
}

void parse_engine_json(const Context& c, const Member& member, const Subgraph& sg,
                       EngineProgram* p) {
  const std::optional<Json> root = parse_json(member, c.options.limits, &c.report);
  if (!root) return;
  const Fields top(*root, member.name, "E-01", &c.report);
  const Json* dma = top.array("dma");
  if (dma == nullptr) return;
  std::map<std::string, std::string> current;  // queue set or instance -> function
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < dma->size() && c.report.ok(); ++i) {
    const Fields f((*dma)[i], member.name + " dma " + std::to_string(i), "E-01", &c.report);
    DmaElement e = read_element(c, sg, f);
    if (!c.report.ok()) return;
    std::string& function = current[e.instance.empty() ? sg.queues[e.queue].name : e.instance];
    const std::string start = f.text("function_start").value_or("");
    if (!start.empty()) {
      check_function(c, f, *p, start);
      function = start;
    }
    e.function = function;
    p->dma.push_back(std::move(e));
    add_to_block(p, sg, &index);
  }
}

}  // namespace neff
