# Instruction set: one table, generated types, codec and operand descriptions.
set(isa_table ${CMAKE_SOURCE_DIR}/data/isa/instructions.json)
set(isa_script ${CMAKE_SOURCE_DIR}/scripts/gen/isa.py)
set(isa_dir ${CMAKE_BINARY_DIR}/generated/contract)
set(isa_outputs ${isa_dir}/isa_types.h ${isa_dir}/isa_codec.h ${isa_dir}/isa_operands.h)
add_custom_command(OUTPUT ${isa_outputs}
  COMMAND python3 ${isa_script} ${isa_table} ${isa_dir}
  DEPENDS ${isa_table} ${isa_script} VERBATIM)
add_custom_target(contract_isa DEPENDS ${isa_outputs})
add_dependencies(contract contract_isa)
