// The parsing steps of load(), one per kind of member. Internal to this room.
#pragma once

#include "neff_loader/json_fields.h"
#include "neff_loader/neff.h"

namespace neff {

// What every step needs to know about the file.
struct Context {
  const Archive& archive;
  const Header& header;
  const LoadOptions& options;
  Report& report;
  bool executable;
};

// Rules D-*: queues, variables, x_cc, names of engine files.
void parse_definition(const Context& context, const Member& definition, Subgraph* subgraph);

// Rules D-07: finds and checks the data of a kFile variable.
void load_constant(const Context& context, const Fields& fields, const std::string& directory,
                   Variable* variable);

// Rules E-01 to E-18: dma[] of an engine JSON. The program's functions are parsed before.
void parse_engine_json(const Context& context, const Member& member, const Subgraph& subgraph,
                       EngineProgram* program);

// Rules B-*: an engine instruction file.
void parse_engine_file(const Context& context, const Member& member, const Subgraph& subgraph,
                       EngineProgram* program);

// E-20, B-04 and the static part of C-*: what programs refer to.
void check_references(const Context& context, Subgraph* subgraph);

// neff.json, if there: data types and shapes of tensors; refuses CPU nodes.
void parse_graph(const Context& context, Neff* neff);

}  // namespace neff
