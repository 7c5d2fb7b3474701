# SPDX-License-Identifier: Apache-2.0
# How everything here is compiled.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(DHYAN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(DHYAN_CCACHE_PROGRAM ccache)
  mark_as_advanced(DHYAN_CCACHE_PROGRAM)
  if(DHYAN_CCACHE_PROGRAM)
    set(CMAKE_C_COMPILER_LAUNCHER ${DHYAN_CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${DHYAN_CCACHE_PROGRAM})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${DHYAN_CCACHE_PROGRAM})
  endif()
endif()
# What the compiler says of kernels is kept (scripts/kernel_resources).
list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ptxas_log)

# The base every x86-64 of the last fifteen years has; wider instructions are chosen at run time, per function. Without
# -ffp-contract=off a plain loop would round differently from one compiler to the next.
set(DHYAN_FLAGS -Wall -Wextra -Wno-psabi -march=x86-64-v2 -maes -mpclmul -ffp-contract=off -fvisibility=hidden)
if(DHYAN_WERROR)
  list(APPEND DHYAN_FLAGS -Werror)
  set(DHYAN_CUDA_WERROR "-Werror=all-warnings -Xcompiler=-Werror")
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${DHYAN_FLAGS}>" $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
# Rules that both sides share are constexpr or marked; both see the same code.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra,-fvisibility=hidden --expt-relaxed-constexpr -Xptxas=-v ${DHYAN_CUDA_WERROR}>")

if(DHYAN_SANITIZE)
  add_compile_options(-fsanitize=${DHYAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DHYAN_SANITIZE})
endif()

# find_package, with a sentence instead of a page when the package is missing.
macro(dhyan_need package purpose)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found; it is needed for ${purpose}. scripts/setup installs it.")
  endif()
endmacro()
