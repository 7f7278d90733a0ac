# find_package(Soma): what programs, blocks and simulations are built with.
#
#   Soma::sdk       headers soma/*.h with SystemC, for blocks and policies
#   Soma::machine   the machine as a module (soma/machine.h)
#   Soma::kernel    the kernel builder (soma/kernel.h)
#   Soma::nrt, Soma::ndl   the runtime and driver libraries with their headers
#   soma_library_of_blocks(name source...)   a library of blocks or policies, lib<name>.so in the
#                                            build directory, as platform files name it
# SystemC objects link only with the C++ standard that SystemC itself was built with: 17.
get_filename_component(_soma "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Soma::sdk)
  add_library(Soma::sdk INTERFACE IMPORTED)
  set_target_properties(Soma::sdk PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_soma}/include"
    INTERFACE_LINK_LIBRARIES systemc
    INTERFACE_COMPILE_FEATURES cxx_std_17)

  function(_soma_shared name)
    cmake_parse_arguments(ARG "" "FILE" "LINK" ${ARGN})
    add_library(Soma::${name} SHARED IMPORTED)
    set_target_properties(Soma::${name} PROPERTIES
      IMPORTED_LOCATION "${_soma}/lib/${ARG_FILE}"
      INTERFACE_INCLUDE_DIRECTORIES "${_soma}/include"
      INTERFACE_LINK_LIBRARIES "${ARG_LINK}")
  endfunction()
  _soma_shared(machine FILE libsoma_machine.so LINK Soma::sdk)
  _soma_shared(kernel FILE libsoma_kernel.so)
  set_property(TARGET Soma::kernel PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_17)
  _soma_shared(nrt FILE libnrt.so)
  _soma_shared(ndl FILE libndl.so)
endif()

function(soma_library_of_blocks name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE Soma::sdk)
  set_target_properties(${name} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()
