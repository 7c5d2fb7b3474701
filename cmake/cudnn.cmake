# SPDX-License-Identifier: Apache-2.0
# Sets DHYAN_WITH_CUDNN: whether this build has the cudnn implementation. It needs headers only; the library is opened at run
# time. Says in one line what a build without it lacks.
set(DHYAN_WITH_CUDNN OFF)
if(NOT DHYAN_WITH_CUDA)
  return()
endif()

set(DHYAN_CUDNN_FRONTEND ${PROJECT_SOURCE_DIR}/.cudnn-frontend/include CACHE PATH "Headers of cudnn-frontend")
find_path(frontend cudnn_frontend.h PATHS ${DHYAN_CUDNN_FRONTEND} NO_DEFAULT_PATH NO_CACHE)
find_path(cudnn_header cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
find_path(nvrtc_header nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
if(NOT frontend)
  message(NOTICE "cudnn_frontend.h is not in ${DHYAN_CUDNN_FRONTEND} (`scripts/setup cudnn` puts it there): "
          "the cuDNN implementation is left out")
elseif(NOT cudnn_header OR NOT nvrtc_header)
  message(NOTICE "cudnn_graph.h or nvrtc.h was not found: the cuDNN implementation is left out")
else()
  set(DHYAN_WITH_CUDNN ON)
  set(DHYAN_CUDNN_INCLUDES ${frontend} ${cudnn_header})
  message(STATUS "cuDNN by ${frontend}")
endif()
