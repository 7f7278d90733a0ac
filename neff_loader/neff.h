// Object model of a NEFF and its loader. Source of truth: spec/neff.md (all of it).
//
// Pure: bytes in, objects out; nothing here touches a device or a file. Everything that
// spec/neff.md lets a loader check without a device is checked here, and Error.code is the
// NRT_STATUS that spec/neff.md 1.10 and 4.6 name; the rule's id ends the message. What is left to
// the runtime: memory, agreement between ranks (C-13), and the execution-time rules.
//
// Missing: files with CPU nodes or several accelerator nodes, argument tables of functions and
// coalesced collectives are refused with Fault::kUnsupported.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/contract/isa.h"
#include "base/error.h"
#include "base/span.h"
#include "neff_loader/access_pattern.h"
#include "neff_loader/archive.h"
#include "neff_loader/container.h"
#include "neff_loader/debug_info.h"
#include "neff_loader/dtype.h"

namespace neff {

using contract::isa::CollectiveType;
using contract::isa::Engine;
using contract::isa::Instruction;
using contract::isa::ReduceOp;

constexpr unsigned kEngines = contract::isa::kEngines;
// Of collectives on one core (spec/neff.md 4.4; spec/collectives.md 1.8).
constexpr uint32_t kMaxStreams = 4;

// ---- Architectures (x_arch, spec/neff.md 2.6.1) ----

enum class Arch : uint8_t { kInf1, kTrn1, kInf2, kTrn2, kTrn3 };

std::optional<Arch> parse_arch(std::string_view name);
const char* to_string(Arch arch);
unsigned core_version(Arch arch);      // NeuronCore v1..v4
const char* to_string(Engine engine);  // "pe", "act", "pool", "dve", "sp", the keys of def.json

// ---- Variables (spec/neff.md 2.6.3) ----

enum class VariableType : uint8_t {
  kStateBuffer,
  kInput,
  kOutput,
  kFile,
  kTmpBuf,
  kVirtual,
  kPointer,
  kDgeTable,
};
const char* to_string(VariableType type);

enum class FabricPath : uint8_t { kMain, kAlt };

struct Variable {
  std::string name;
  VariableType type = VariableType::kTmpBuf;
  uint32_t var_id = 0;
  uint64_t size = 0;       // bytes; 0 only for a state buffer that does not say
  uint64_t alignment = 0;  // 0, or a power of two
  FabricPath fabric_path = FabricPath::kMain;

  std::string file_name;           // kFile: archive path
  base::ConstByteSpan content;     // kFile: bytes to place at the start; the rest of `size` is zero
  uint64_t scratchpad_offset = 0;  // kVirtual: backing_variable_off
  std::string backing_buf;         // kVirtual: name of the scratchpad area, usually empty
  uint32_t referenced_var_id = 0;  // kPointer: 8 bytes, address of that variable
  std::vector<uint32_t> table_var_ids;  // kDgeTable: 16 bytes each: address, size

  std::optional<DataType> dtype;  // x_dtype
  std::vector<uint64_t> shape;    // x_shape; empty: unknown
  std::string format;             // x_format
};

// ---- Queue sets (spec/neff.md 2.6.2, 3.8) ----

enum class QueueType : uint8_t { kIn, kOut, kData, kEmbeddingUpdate, kDynamic };

struct QueueSet {
  std::string name;
  QueueType type = QueueType::kData;
  unsigned num_queues = 1;  // 1..16: DMA engines that share the traffic
  std::optional<Engine> owner;
  std::vector<std::string> instances;
  std::vector<uint8_t> semaphore_set;
  std::optional<uint8_t> semaphore;
  FabricPath fabric_path = FabricPath::kMain;
};

// ---- DMA (spec/neff.md 3) ----

enum class DmaOp : uint8_t { kCopy, kCast, kAdd, kFma, kMin, kMax, kTranspose };
const char* to_string(DmaOp op);

struct DmaOperand {
  uint32_t variable = 0;  // index in Subgraph::variables
  AccessPattern pattern;
  DataType dtype = DataType::kUint8;
  double scale = 1.0;  // sources of kFma
};

struct DmaTransfer {
  DmaOp op = DmaOp::kCopy;
  std::vector<DmaOperand> sources;  // one for copy, cast and transpose
  DmaOperand destination;
  std::optional<DataType> constant_dtype;  // kMin, kMax: a constant takes part
  double constant = 0.0;
  std::array<uint64_t, 4> transpose_shape{};  // kTranspose, outermost first
  std::array<uint8_t, 4> transpose_perm{3, 1, 2, 0};
  unsigned transpose_element_size = 0;
  int64_t num_tiling_dimensions = 0;
};

// One element of an engine JSON's dma[] array: completes as a whole, on every queue of its set.
struct DmaElement {
  int64_t id = 0;
  uint32_t queue = 0;    // index in Subgraph::queues
  std::string instance;  // instance_name, or empty for the base ring
  std::string function;  // "" = entry program (spec/neff.md 3.10)
  bool section_start = false;
  std::optional<uint8_t> event;
  std::optional<uint8_t> semaphore;  // the element's, else the queue set's
  std::vector<uint8_t> remote_semaphores;
  std::vector<DmaTransfer> transfers;
};

// All elements that one trigger starts.
struct DmaBlock {
  std::string function;
  uint32_t queue = 0;
  std::string instance;
  std::string key;  // what a trigger names: the instance, else the queue set
  int64_t id = 0;
  std::vector<uint32_t> elements;  // indices in EngineProgram::dma, file order
};

// ---- Programs (spec/neff.md 5) ----

struct ProgramStep {
  uint32_t pc;  // record index in the file
  Instruction instruction;
};

struct Function {
  std::string name;
  uint32_t entry = 0;
  uint32_t length = 0;  // records
  uint32_t args_var_id = 0;
};

// A trigger or collective where it runs.
struct FlowStep {
  uint32_t step = 0;      // index in EngineProgram::steps
  uint32_t block = 0;     // index in EngineProgram::blocks, of a trigger
  bool repeated = false;  // may run another number of times than once here
};

struct EngineProgram {
  Engine engine = Engine::kSp;
  std::string json_file;  // archive paths; empty when not named
  std::string instr_file;
  std::vector<DmaElement> dma;   // file order
  std::vector<DmaBlock> blocks;  // order of first appearance
  // Below only for files in our encoding, see Neff::executable.
  base::ConstByteSpan records;
  std::vector<ProgramStep> steps;
  std::vector<Function> functions;
  std::vector<std::string> symbols;  // string table; PSEUDO_DMA_TRIGGER indexes it
  bool self_cleaning = false;
  std::vector<FlowStep> flow;  // see flow.h

  const std::string& symbol(uint32_t index) const { return symbols[index]; }
  // The block that the trigger `step` of this program starts where it first runs; null: never.
  const DmaBlock* triggered_block(const ProgramStep& step) const;
  const DmaBlock* find_block(std::string_view function, std::string_view queue_or_instance,
                             int64_t id) const;
  // Variable whose tensors are the arguments of a CALL; 0: those of its caller.
  uint32_t argument_table(const ProgramStep& call) const;
  // Name of the function that holds this record, "" outside of all.
  std::string_view function_at(uint32_t pc) const;
};

// ---- Collectives (spec/neff.md 4) ----

using RankList = std::vector<uint32_t>;

struct ReplicaGroups {
  std::vector<RankList> lists;
  std::vector<std::array<uint32_t, 2>> source_target_pairs;

  // The list that holds `rank`, or null.
  const RankList* list_of(uint32_t rank) const;
};

struct CollectiveConfig {
  std::vector<ReplicaGroups> groups;  // index = group_id
  uint32_t participants = 0;          // world size the file was built for; 0 = any
  uint32_t streams = 1;
  uint32_t ops = 0;
};

// A tensor in SBUF: rows of so many bytes at equal distances of partitions.
struct SbufTensor {
  uint64_t row_bytes = 0;
  uint32_t partitions = 1;
  uint32_t step = 1;  // in partitions
};

// One PTC2 of an engine program.
struct CollectiveOp {
  Engine engine = Engine::kSp;
  uint32_t pc = 0;
  CollectiveType type = CollectiveType::kAllReduce;
  ReduceOp reduce = ReduceOp::kNone;
  DataType dtype = DataType::kFloat32;
  unsigned cc_dim = 0;
  uint32_t group_id = 0;
  uint32_t channel_id = 0;
  uint32_t stream_id = 0;
  uint32_t priority = 0;  // 0 (most urgent) to 3
  uint32_t source = 0;    // index in Subgraph::variables
  uint64_t source_offset = 0;
  uint64_t source_bytes = 0;
  uint32_t destination = 0;
  uint64_t destination_offset = 0;
  uint64_t destination_bytes = 0;
  std::optional<SbufTensor> source_sbuf;  // both or none
  std::optional<SbufTensor> destination_sbuf;
  std::optional<uint32_t> second_source;  // permutes and send-receive with reduction; source_bytes
  uint64_t second_source_offset = 0;
  uint32_t root = 0;  // broadcast, reduce: index in the rank list
  // V forms: uint32 tensor of metadata_rows() x ranks (spec/collectives.md 1.4), else empty.
  std::optional<uint32_t> metadata;
  bool receive_counts_known = false;
  bool receive_displacements = false;

  uint32_t metadata_rows() const;
  bool has_pairs() const;  // that the file names: not those of implicit permutes
};

// ---- Subgraphs and files ----

struct Subgraph {
  std::string name;                         // "sg00"
  std::string directory;                    // where relative file names start
  std::optional<Arch> arch;                 // x_arch
  std::vector<Variable> variables;          // ascending var_id
  std::vector<uint32_t> variables_by_name;  // indices
  std::vector<QueueSet> queues;             // ascending name
  std::vector<EngineProgram> programs;      // engines that the file names, PE..SP
  CollectiveConfig cc;
  std::vector<CollectiveOp> collectives;  // by engine, then program order
  uint64_t scratchpad_bytes = 0;          // spec/neff.md 3.13
  unsigned core_version = 0;              // 2..4; 0 when nothing in the file says

  const Variable* find_variable(std::string_view name) const;
  const Variable* find_variable(uint32_t var_id) const;
  const EngineProgram* program(Engine engine) const;
  const QueueSet* find_queue(std::string_view name) const;
  // Of the tensors that engines generate transfers for: the first dge-table.
  const Variable* dge_table() const;
};

struct TensorInfo {
  std::string name;
  bool is_input = true;
  uint64_t size = 0;
  std::optional<DataType> dtype;  // unknown: report uint8 with shape {size}
  std::vector<uint64_t> shape;
  std::string format;
  std::string alias_of;
};

struct Neff {
  Header header;
  // In our encoding and marked so (spec/neff.md 5.6). False: "foreign", for inspection only;
  // executing it is NRT_INVALID.
  bool executable = false;
  std::vector<Subgraph> subgraphs;  // element i runs on physical core i of the logical core
  std::vector<TensorInfo> tensors;  // inputs, then outputs, each by var_id of the first subgraph
  std::vector<std::string> warnings;
  std::optional<DebugInfo> debug_info;     // where instructions come from
  std::shared_ptr<const Archive> archive;  // owns what the spans above point to

  bool has_collectives() const;
};

struct LoadOptions {
  bool verify_hash = false;  // NEURON_RT_VALIDATE_HASH
  uint64_t supported_features = kDefaultFeatureMask;
  Limits limits;
  unsigned target_core_version = 0;  // 2..4; 0 = do not check (V-17)
  bool allow_legacy = false;         // NEURON_RT_ALLOW_LEGACY_NEFF
  unsigned target_lnc = 0;           // 0 = do not check (V-15)
  unsigned available_cores = 0;      // 0 = do not check (V-16)
};

// Parses and validates everything. The result does not refer to `file`.
base::Result<Neff> load(base::ConstByteSpan file, const LoadOptions& options = {});

// What nrt_load and nrt_load_collectives add: rules C-10, C-11, C-12, C-14, C-16.
struct CollectiveContext {
  bool present = false;  // nrt_load_collectives
  uint32_t rank = 0;
  uint32_t world_size = 1;
};
base::Status check_context(const Neff& neff, const CollectiveContext& context);

}  // namespace neff
