# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: headers, the shared library, the command, and the files behind find_package(dhyan).
include(CMakePackageConfigHelpers)

set(DHYAN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dhyan)
install(TARGETS dhyan EXPORT dhyan LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/dhyan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT dhyan NAMESPACE dhyan:: FILE dhyanConfig.cmake DESTINATION ${DHYAN_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dhyanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dhyanConfigVersion.cmake DESTINATION ${DHYAN_PACKAGE_DIR})
if(TARGET dhyan_cli)
  install(TARGETS dhyan_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
