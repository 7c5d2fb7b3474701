# SPDX-License-Identifier: Apache-2.0
# Builds the programs of tests/fuzz by clang++ and lets ctest run each for a few seconds.
include(ExternalProject)

if(NOT DHYAN_FUZZ MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DHYAN_FUZZ is \"${DHYAN_FUZZ}\"; it must be AUTO, ON or OFF.")
endif()
file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
if(DHYAN_FUZZ STREQUAL "OFF" OR DHYAN_SANITIZE OR NOT fuzzers)
  return()
endif()

find_program(DHYAN_CLANG clang++)
mark_as_advanced(DHYAN_CLANG)
set(works FALSE)
if(DHYAN_CLANG)
  set(probe ${PROJECT_BINARY_DIR}/fuzz_probe)
  file(WRITE ${probe}.cpp "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
  execute_process(COMMAND ${DHYAN_CLANG} -fsanitize=fuzzer,address,undefined ${probe}.cpp -o ${probe} RESULT_VARIABLE status
                  OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(works TRUE)
  endif()
endif()
if(NOT works)
  if(DHYAN_FUZZ STREQUAL "ON")
    message(FATAL_ERROR "DHYAN_FUZZ=ON needs clang++ with libFuzzer (Debian: clang, libclang-rt-14-dev).")
  endif()
  message(STATUS "No clang++ with libFuzzer: the file readers are not fuzzed (`scripts/setup developer` installs it)")
  return()
endif()

set(tree ${PROJECT_BINARY_DIR}/fuzz)
ExternalProject_Add(dhyan_fuzzers
  SOURCE_DIR ${PROJECT_SOURCE_DIR}/tests/fuzz
  BINARY_DIR ${tree}
  PREFIX ${tree}/external
  DEPENDS dhyan
  BUILD_ALWAYS ON
  INSTALL_COMMAND ""
  LOG_CONFIGURE ON LOG_BUILD ON LOG_OUTPUT_ON_FAILURE ON
  CMAKE_ARGS -DCMAKE_CXX_COMPILER=${DHYAN_CLANG} -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
             -DDHYAN_LIBRARY=$<TARGET_FILE:dhyan>)
foreach(fuzzer IN LISTS fuzzers)
  get_filename_component(name ${fuzzer} NAME_WE)
  # New inputs are written to the first folder; the kept ones seed it.
  set(found ${tree}/found/${name})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  file(MAKE_DIRECTORY ${found})
  if(NOT EXISTS ${corpus})
    set(corpus)
  endif()
  add_test(NAME fuzz.${name} COMMAND ${tree}/${name} -max_total_time=4 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
           -artifact_prefix=${tree}/${name}- ${found} ${corpus})
endforeach()
