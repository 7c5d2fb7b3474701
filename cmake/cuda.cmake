# SPDX-License-Identifier: Apache-2.0
# Looks for CUDA and says in one line what this build will lack.

if(NOT DHYAN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DHYAN_CUDA is \"${DHYAN_CUDA}\"; it must be AUTO, ON or OFF.")
endif()
if(DHYAN_CUDA STREQUAL "OFF")
  message(NOTICE "CUDA is switched off (DHYAN_CUDA=OFF): the CUDA and cuDNN implementations are left out")
else()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    message(NOTICE "CUDA compiler ${CMAKE_CUDA_COMPILER} found, but dhyan ${PROJECT_VERSION} has no CUDA kernels yet: "
                   "the CUDA and cuDNN implementations are left out")
  elseif(DHYAN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DHYAN_CUDA=ON needs a CUDA toolkit and none was found; set CUDACXX to nvcc, or DHYAN_CUDA=OFF.")
  else()
    message(NOTICE "No CUDA toolkit found: the CUDA and cuDNN implementations are left out")
  endif()
endif()
