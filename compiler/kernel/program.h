// What a kernel is made of while it is written: tensors, allocations, and the recorded instructions
// and transfers with their order. Internal to this room; kernel.h is its face.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arch/contract/isa.h"
#include "base/error.h"
#include "compiler/kernel/arena.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/order.h"
#include "neff_loader/access_pattern.h"

namespace kernel {

namespace isa = contract::isa;

// Variables that no tensor may be called: the chip's memory, and the table of tensors that
// generated transfers name.
constexpr const char* kStateBuffer = "SB";
constexpr const char* kDgeTable = "DGE";

enum class Usage : uint8_t { kInput, kOutput, kConstant, kScratch };

struct Tensor {
  std::string name;
  Usage usage = Usage::kScratch;
  DType dtype = DType::kFloat32;
  View::Sizes shape;
  int64_t bytes = 0;
  uint64_t memory = 0;           // of footprints; an input may share it with an output
  std::vector<uint8_t> content;  // kConstant
};

// The transfers of one trigger.
struct Copy {
  struct Part {
    neff::AccessPattern from;
    neff::AccessPattern to;
  };
  // In place of `from`: one of the sources of a fold.
  struct Source {
    std::string variable;
    double scale = 1;
    neff::AccessPattern pattern;
  };
  std::string from;  // variables
  std::string to;
  DType from_dtype = DType::kFloat32;
  DType to_dtype = DType::kFloat32;
  std::vector<Part> parts;   // one of a fold, whose `from` is empty
  const char* op = nullptr;  // null: a copy or a conversion
  std::vector<Source> sources;
  std::array<int64_t, 4> shape{};  // of a transposition
  uint32_t number = 0;             // of its event, in its segment
};

struct QueueSet {
  std::string name;
  const char* type = "data";  // spec/neff.md 2.6.2
  bool alone = false;         // of one transfer, in a loop or branch
  uint32_t engine = 0;
  uint32_t agent = 0;
  bool store = false;        // of generated transfers: to HBM
  std::vector<Copy> copies;  // in the order of their triggers
  uint64_t descriptors = 0;  // of all of them, at least
  uint32_t generated = 0;    // transfers of a set of type dynamic
  uint32_t transfers() const { return static_cast<uint32_t>(copies.size()) + generated; }
};

// An instruction of an engine in the order of calls; the trigger of a transfer too.
struct Entry {
  isa::Instruction instruction;
  uint32_t engine = 0;
  uint32_t call = 0;  // index in Program::calls, from 1
  Event event;        // of the instruction, or of the transfer that it triggers
  std::vector<Event> waits;
  uint32_t segment = 0;  // of the program, in which events are counted
};

// Where loops and branches begin and end.
struct Turning {
  enum Kind : uint8_t { kNone, kFor, kWhile, kBranch, kElse, kEndLoop, kEndBranch };
  Kind kind = kNone;
  uint32_t level = 0;  // of the loops: 0 is the outermost; of an end: of its loop
  int64_t most = 0;    // turns
  // What every engine looks at before each turn, before the first one if it is a number of turns,
  // or to choose a branch.
  struct Cell {
    std::optional<isa::SideOperand> tensor;  // else:
    isa::TensorOperand tile;
    bool changes = false;                           // nobody goes on before all have looked
    isa::BranchCond unless = isa::BranchCond::kEq;  // it goes past what follows
    uint32_t value = 0;
  };
  std::optional<Cell> cell;
};

// How many bytes something begins further on in each turn of the loops around it, by level.
using Moves = std::map<uint32_t, int64_t>;

// Straight-line code of all engines. Behind each but the last nothing is under way any more, and
// semaphores are back at 0.
struct Segment {
  Turning turning;  // at its beginning
  std::vector<Moves>
      scales;         // register kFirstScaledRegister + i holds the sum of turns times bytes
  uint32_t call = 0;  // that begins it
};

// A loop or branch around what is being written.
struct Scope {
  uint32_t id = 0;
  Turning::Kind kind = Turning::kFor;
  uint32_t level = 0;  // of a loop
};

struct Call {
  Location at;
  const char* name;
};

// The collectives of a stream; the place of the first one, or of the first group, for messages.
struct StreamUse {
  uint32_t engine = 0;
  uint32_t operations = 0;
  Location first;
};

class Program {
 public:
  explicit Program(Kernel::Params given);

  bool ok() const { return !error_.has_value(); }
  const std::optional<base::Error>& error() const { return error_; }
  // Keeps the first.
  void fail(base::Fault fault, Location at, std::string what);

  // ---- Memory ----
  View add_tensor(Tensor tensor, Location at);
  View allocate(Space space, const View::Sizes& shape, DType dtype, const std::string& name,
                int64_t start_partition, Location at);
  void release(const View& tile, Location at);
  Arena& arena(Space space) { return space == Space::kPsum ? psum : sbuf; }
  const Arena& arena(Space space) const { return space == Space::kPsum ? psum : sbuf; }

  // ---- Operands ----
  struct Operand {
    const char* name;
    const View* view;
    bool write;
    bool product = false;  // fills PSUM
  };
  // Whether the call may use these; else it has become the kernel's error.
  bool check(const Call& call, const std::vector<Operand>& operands);
  // The pattern as an instruction has it. With `folded`: the dimensions behind the first `kept`
  // free ones are not merged with these, and `folded` is how many there are in the result.
  isa::TensorOperand tensor(const Call& call, const Operand& operand, size_t kept = 0,
                            size_t* folded = nullptr);
  // Of an MX operand `data`, as many partitions as it uses.
  isa::TensorOperand scales(const Call& call, const Operand& operand, const View& data);
  isa::ScalarOperand scalar(const Call& call, const char* name, const Scalar& scalar, Op op,
                            int64_t lanes);
  static bool is_tile(const Scalar& scalar) { return scalar.kind_ == Scalar::kTile; }
  static bool is_zero(const Scalar& scalar) {
    return scalar.kind_ == Scalar::kImmediate && scalar.value_ == 0;
  }
  uint32_t bits_of(const Call& call, double value, DType dtype);

  // ---- Recording ----
  void add(const Call& call, uint32_t engine, const isa::Instruction& instruction);
  void add_copy(const Call& call, const View& dst, const View& src, uint32_t engine);
  void add_fold(const Call& call, const View& dst, const std::vector<View>& srcs, const Fold& fold,
                uint32_t engine);
  void add_transpose(const Call& call, const View& dst, const View& src, uint32_t engine);
  // `index`: of rows of src, or of dst if `scatter`; null: none.
  struct Generated {
    const View& dst;
    const View& src;
    const View* index = nullptr;
    bool scatter = false;
    bool ordered = false;
    bool transpose = false;
  };
  void add_generated(const Call& call, const Generated& what, const Transfer& how);
  // False, with an error, if there cannot be one here.
  bool begin_for(const Call& call, const Trips& trips);
  bool begin_while(const Call& call, const Condition& condition, int64_t most);
  bool begin_branch(const Call& call, const Condition& condition);
  void begin_else(const Call& call);
  void end_scope(const Call& call);
  // The innermost one; 0: none.
  uint32_t scope() const { return scopes_.empty() ? 0 : scopes_.back().id; }
  // An instruction of the sequencer with one element of a tensor or tile, from or to a register.
  void add_cell(const Call& call, Engine engine, const View& cell, uint8_t number, bool write);
  bool is_register(const Call& call, int number, bool pair = false);
  // b of an operation on registers.
  bool value(const Call& call, const Scalar& b, bool pair, isa::Value* to);
  struct Collective {
    isa::CollectiveType type;
    isa::ReduceOp reduce;
    const View& dst;
    const View& src;
  };
  void add_collective(const Call& call, const Collective& what, const Group& group,
                      const Stream& stream);
  // Nothing but the end of the engines, and clean semaphores.
  void close(Location at);

  const Kernel::Params params;
  bool closed = false;
  Arena sbuf;
  Arena psum;
  std::vector<Tensor> tensors;
  std::vector<Call> calls;
  std::vector<Entry> entries;  // by segment
  std::vector<Segment> segments{Segment()};
  std::vector<QueueSet> queues;
  std::vector<uint32_t> table;  // tensors that generated transfers name
  std::vector<Group> groups;    // distinct
  std::array<StreamUse, Order::kStreams> streams;
  // In the tensor engine's array, by first row and column of their tile.
  struct Weights {
    int64_t rows = 0;
    int64_t columns = 0;
    DType dtype = DType::kFloat32;
    int slices = 1;
    bool mx = false;
  };
  std::map<std::pair<int64_t, int64_t>, Weights> weights;

 private:
  friend class View;
  bool alive(const View& view) const;
  std::string describe(const View& view) const;
  isa::TensorOperand pattern(const Call& call, const Operand& operand, size_t kept, size_t* folded);
  bool runs(const Call& call, uint32_t engine, const isa::Instruction& instruction);
  Footprint footprint(const View& view) const;
  bool add_indices(const Call& call, uint32_t engine, isa::Instruction* instruction,
                   std::vector<std::optional<Footprint>>* whole);
  static bool same_place(const View* a, const View* b);
  void add_moved(const Call& call, const View& dst, const View& src, uint32_t engine);
  QueueSet* queue_set(const Call& call, uint32_t engine, const View& dst, const View& src);
  QueueSet* add_queue_set(QueueSet set, const Call& call);
  bool pattern(const View& view, neff::AccessPattern* p) const;
  isa::SideOperand side(const Call& call, const char* name, const View& view, uint32_t engine,
                        bool rows_apart, bool merge);
  isa::Instruction generated(const Call& call, const Generated& what, const Transfer& how);
  std::string variable(const View& view) const {
    return view.space_ == Space::kHbm ? tensors[view.buffer_].name : kStateBuffer;
  }
  bool apart(const Call& call, const View& dst, const View& src);
  bool stays(const Call& call, const char* name, const View& view);
  bool takes(const Call& call, const Collective& what, const Group& group);
  bool takes(const Call& call, const Group& group);
  bool contiguous(const Call& call, const char* name, const View& view);
  void trigger(const Call& call, const View& dst, const View& src, uint32_t engine, Copy copy,
               const std::vector<MemoryAccess>& accesses);
  void record(const Call& call, uint32_t engine, QueueSet* queue, const isa::Instruction& in,
              const std::vector<MemoryAccess>& accesses);
  uint64_t memory_of(const Tensor& tensor);
  bool changes(const Tensor& tensor) const;
  uint32_t begin_call(const Call& call);
  void push(Entry entry);
  void begin_segment(const Call& call, Turning turning);
  bool enter(const Call& call, Turning turning, int64_t most);
  bool look_at(const Call& call, const Condition& condition, Turning* turning);
  bool cell(const Call& call, const char* name, const View& view, Turning::Cell* to);
  const Scope* find_scope(uint32_t id) const;
  bool moving(const View& view) const {
    return !view.moves_.empty() || view.displacement_.positions != 0;
  }
  uint8_t scaled(const Call& call, const Moves& moves);
  Moves moves_of(const View& view) const;
  uint8_t displace(const Call& call, uint32_t engine, const View& view, size_t temporary);
  void control(const Call& call, uint32_t engine, const isa::Instruction& in);
  void add_one(const Call& call, uint32_t engine, const isa::Instruction& instruction);
  static uint64_t least_descriptors(const Copy& copy);
  bool fits_rings(const Call& call, QueueSet* queue, const Copy& copy);
  bool lower(const Call& call, const View& dst, const View& src, Copy* copy);

  Order order_;
  std::vector<View> indirections_;  // operands of the call at work that go by indices
  std::vector<View> displaced_;     // and those that move, or begin where a register says
  std::vector<Scope> scopes_;
  uint32_t last_scope_ = 0;
  std::set<std::string> names_;
  std::map<std::string, uint64_t> shared_;  // names of outputs to their memories
  size_t world_ = 0;                        // ranks of every group
  Location world_at_;                       // where the first one was
  std::optional<base::Error> error_;
};

// "file.cpp:12"
std::string to_string(const Location& at);
// With a question mark for what is not printable ASCII: JSON takes no other bytes than UTF-8.
std::string printable(std::string text);

unsigned bytes_of(DType dtype);
isa::DataType data_type(DType dtype);
bool is_integer(DType dtype);
const char* engine_name(uint32_t engine);

// The file; the program is closed.
base::Result<std::vector<uint8_t>> make_neff(const Program& program);

// Memories of footprints: HBM tensors from kFirstTensor on.
constexpr uint64_t kSbufMemory = 0;
constexpr uint64_t kPsumMemory = 1;
constexpr uint64_t kFirstTensor = 2;

// Registers of the builder: sums of turns and bytes, temporaries of one instruction, and for each
// level of loops its turn and its number of turns.
constexpr uint8_t kFirstOwnRegister = 32;
constexpr uint8_t kFirstScaledRegister = kFirstOwnRegister;
constexpr size_t kMostScaledRegisters = 19;
constexpr uint8_t kFirstTemporary = 51;
constexpr size_t kTemporaries = 5;
constexpr uint32_t kMostLevels = 4;
constexpr uint8_t turn_register(uint32_t level) {
  return static_cast<uint8_t>(isa::kRegisters - 2 - 2 * level);
}
constexpr uint8_t trips_register(uint32_t level) {
  return static_cast<uint8_t>(turn_register(level) + 1);
}
static_assert(kFirstScaledRegister + kMostScaledRegisters == kFirstTemporary &&
              kFirstTemporary + kTemporaries == turn_register(kMostLevels - 1));

// Semaphores: of what engines and streams complete.
constexpr uint8_t agent_semaphore(uint32_t agent) {
  return static_cast<uint8_t>(agent);
}
constexpr uint8_t kBarrierSemaphore = Order::kFirstQueueSet;  // and the next four
constexpr uint8_t kFirstTransferSemaphore = 16;
static_assert(kBarrierSemaphore + isa::kEngines <= kFirstTransferSemaphore);
constexpr unsigned kMostDmaEngines = 16;
constexpr unsigned kMostQueueSets = 14;

}  // namespace kernel
