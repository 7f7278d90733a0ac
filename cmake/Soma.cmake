# Build conventions shared by all rooms.
#
#   soma_library(name SOURCES a.cpp ... [DEPS lib ...])     static library of a room
#   soma_test(name SOURCES a_test.cpp ... [DEPS lib ...] [PER_CASE])
#       one GoogleTest binary; PER_CASE gives every TEST its own process, which anything that
#       elaborates SystemC needs (one elaboration per process)

add_library(soma_options INTERFACE)
target_include_directories(soma_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(soma_options INTERFACE
  -Wall -Wextra -Werror $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(SOMA_SANITIZE)
  set(SOMA_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SOMA_TSAN)
  set(SOMA_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
endif()
if(SOMA_SANITIZE_FLAGS)
  target_compile_options(soma_options INTERFACE ${SOMA_SANITIZE_FLAGS})
  target_link_options(soma_options INTERFACE ${SOMA_SANITIZE_FLAGS})
endif()

function(soma_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC soma_options ${ARG_DEPS})
endfunction()

find_package(GTest REQUIRED)
include(GoogleTest)
function(soma_test name)
  cmake_parse_arguments(ARG "PER_CASE" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE soma_options GTest::gtest GTest::gmock GTest::gtest_main ${ARG_DEPS})
  if(ARG_PER_CASE)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit)
  else()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS unit)
  endif()
endfunction()
