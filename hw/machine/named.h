// Names of parts in SystemC's object hierarchy. Most parts are plain objects that come into being
// on first touch, so their names do too: "d0.nc1.act", "d0.dma5", "link.d0-d1" are objects whose
// kind() says what they are, below the modules of their chip, core, or of the links.
#pragma once

#include <memory>
#include <string>
#include <systemc>

namespace hw {

class Named final : public sc_core::sc_object {
 public:
  Named(const char* name, const char* kind) : sc_object(name), kind_(kind) {}
  const char* kind() const override { return kind_; }

 private:
  const char* kind_;
};

// A module that holds names.
class NamedGroup final : public sc_core::sc_module {
 public:
  NamedGroup(const sc_core::sc_module_name& name, const char* kind)
      : sc_module(name), kind_(kind) {}
  const char* kind() const override { return kind_; }

 private:
  const char* kind_;
};

// A name below a module; also after elaboration.
inline std::unique_ptr<Named> name_below(sc_core::sc_module& parent, const std::string& name,
                                         const char* kind) {
  sc_core::sc_simcontext* context = sc_core::sc_get_curr_simcontext();
  context->hierarchy_push(&parent);
  auto named = std::make_unique<Named>(name.c_str(), kind);
  context->hierarchy_pop();
  return named;
}

}  // namespace hw
