# SPDX-License-Identifier: Apache-2.0
# Looks for CUDA and says in one line what this build will lack.

if(NOT DHYAN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DHYAN_CUDA is \"${DHYAN_CUDA}\"; it must be AUTO, ON or OFF.")
endif()
if(DHYAN_CUDA STREQUAL "OFF")
  message(STATUS "CUDA is switched off (DHYAN_CUDA=OFF): this build computes on the CPU only")
else()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    message(STATUS "CUDA compiler ${CMAKE_CUDA_COMPILER} found, but dhyan ${PROJECT_VERSION} has no CUDA kernels yet: "
                   "this build computes on the CPU only")
  elseif(DHYAN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DHYAN_CUDA=ON needs a CUDA toolkit and none was found; set CUDACXX to nvcc, or DHYAN_CUDA=OFF.")
  else()
    message(STATUS "No CUDA toolkit found: this build computes on the CPU only")
  endif()
endif()
