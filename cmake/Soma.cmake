# Build conventions shared by all rooms.
#
#   soma_library(name SOURCES a.cpp ... [DEPS lib ...] [COLD])     static library of a room
#       COLD: what runs once per command, rank or execution; compiling it better takes longer than
#       it runs. The others run per packet, per instruction or per byte
#   soma_test(name SOURCES a_test.cpp ... [DEPS lib ...] [LABELS label ...] [PER_CASE])
#       one GoogleTest binary; PER_CASE gives every TEST its own process, which anything that
#       elaborates SystemC needs (one elaboration per process). Labels: unit (always), preload
#       (needs the preloaded shim: kept out of sanitizer runs), slow (only ./dev test --all)
#   soma_fuzz(name SOURCES a_fuzz.cpp ... [DEPS lib ...] [HANDLERS path ...])
#       a libFuzzer target fuzz_<name>; in other builds a test that replays tests/fuzz/corpus/<name>.
#       ./dev fuzz prints how much of the handlers (files or directories) the corpus reaches

add_library(soma_options INTERFACE)
target_include_directories(soma_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(soma_options INTERFACE
  -Wall -Wextra -Werror $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_UNITY_BUILD)
  # Sources in batches look like headers to this check; the presets that compile each file alone
  # keep it.
  target_compile_options(soma_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(SOMA_SANITIZE)
  # Without the checks of every access (a third of the time to build): the address sanitizer finds
  # most of these itself, and the fuzzers have them all.
  set(SOMA_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize=null,alignment,vptr,object-size
                          -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SOMA_TSAN)
  # Fences order memory that other processes write; of those the sanitizer knows nothing anyway.
  set(SOMA_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
endif()
if(SOMA_FUZZ)
  set(SOMA_SANITIZE_FLAGS -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
                          -fprofile-instr-generate -fcoverage-mapping)
endif()
if(SOMA_SANITIZE_FLAGS)
  # Instrumented, gcc 12 takes standard headers (std::regex) for reading uninitialised values.
  target_compile_options(soma_options INTERFACE ${SOMA_SANITIZE_FLAGS} -Wno-uninitialized
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(soma_options INTERFACE ${SOMA_SANITIZE_FLAGS})
endif()

# Calls of small functions are most of what containers cost; inlining them compiles as fast.
set(SOMA_COLD_FLAGS "$<$<CONFIG:Release>:-O1;-finline-small-functions>")

# What nearly every file includes, compiled once per set of flags: a third of the build time. Only
# headers of the system, named with <>: the result holds no path of this tree, so that ccache serves
# any clone, and a change of ours does not rebuild everything. Files still include what they use.
set(SOMA_COMMON_HEADERS <algorithm> <array> <atomic> <cerrno> <chrono> <cstddef> <cstdint> <cstdio>
    <cstdlib> <cstring> <deque> <fstream> <functional> <map> <memory> <mutex> <optional> <set> <sstream>
    <string> <string_view> <thread> <tuple> <utility> <vector>)

# Targets reuse what fits their flags: soma_precompile(name KIND), KIND as below.
function(soma_precompile name kind)
  target_precompile_headers(${name} REUSE_FROM precompiled_${kind})
endfunction()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
function(soma_precompiled kind)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS;DEPS" ${ARGN})
  add_library(precompiled_${kind} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(precompiled_${kind} PRIVATE soma_options ${ARG_DEPS})
  target_compile_options(precompiled_${kind} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(precompiled_${kind} PRIVATE ${SOMA_COMMON_HEADERS} ${ARG_HEADERS})
endfunction()
find_package(GTest REQUIRED)
soma_precompiled(library)
# Not the JSON library: each file would instantiate its parser anew, a second for those that do
# without.
soma_precompiled(cold_library OPTIONS ${SOMA_COLD_FLAGS})
soma_precompiled(program OPTIONS ${SOMA_COLD_FLAGS} -fPIE)
soma_precompiled(test OPTIONS ${SOMA_COLD_FLAGS} -fPIE HEADERS <gtest/gtest.h> DEPS GTest::gtest)

function(soma_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC soma_options ${ARG_DEPS})
  if(ARG_COLD)
    target_compile_options(${name} PRIVATE ${SOMA_COLD_FLAGS})
    soma_precompile(${name} cold_library)
  else()
    soma_precompile(${name} library)
  endif()
endfunction()

include(GoogleTest)
add_custom_target(unit_tests)  # what the sanitizer builds of ./dev test need
function(soma_test name)
  cmake_parse_arguments(ARG "PER_CASE" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE soma_options GTest::gtest GTest::gmock GTest::gtest_main ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)  # fixtures share names
  # What is tested is optimised; the tests need not be, and a third of their build time is.
  target_compile_options(${name} PRIVATE ${SOMA_COLD_FLAGS})
  soma_precompile(${name} test)
  if(NOT "preload" IN_LIST ARG_LABELS AND NOT "slow" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
  if(ARG_PER_CASE)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES PROPERTIES LABELS unit TIMEOUT 300)
    if(ARG_LABELS)
      # gtest_discover_tests cannot pass a list on: ctest sets it when it knows the cases.
      set(labels ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
      file(CONFIGURE OUTPUT ${labels} @ONLY CONTENT [[
foreach(case IN LISTS @name@_TESTS)
  set_tests_properties("${case}" PROPERTIES LABELS "unit;@ARG_LABELS@")
endforeach()
]])
      set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels})
    endif()
  else()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "unit;${ARG_LABELS}" TIMEOUT 300)
  endif()
endfunction()

add_custom_target(fuzzers)
function(soma_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;HANDLERS" ${ARGN})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(SOMA_FUZZ)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers fuzz_${name})
    list(JOIN ARG_HANDLERS "\n" handlers)
    file(WRITE ${CMAKE_BINARY_DIR}/handlers/${name} "${handlers}\n")
  else()
    add_executable(fuzz_${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${corpus})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS unit TIMEOUT 300)
    add_dependencies(unit_tests fuzz_${name})
  endif()
  target_link_libraries(fuzz_${name} PRIVATE soma_options ${ARG_DEPS})
  target_compile_options(fuzz_${name} PRIVATE ${SOMA_COLD_FLAGS})
  soma_precompile(fuzz_${name} program)
endfunction()
