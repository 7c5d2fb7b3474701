# SPDX-License-Identifier: Apache-2.0
# Compiles what report.html is made of into the program: the files of app/report/page, and Vega as one script.
# Debian's libjs-vega has Vega as modules that each define one part; modules.js of the page joins them. Without them the
# report has tables only.

set(DHYAN_VEGA_FOLDER /usr/share/javascript/vega CACHE PATH "Folder of Vega's modules (vega-view.min.js and so on)")
set(modules util time format loader dataflow statistics canvas scale scenegraph expression selections event-selector functions
    parser runtime view transforms view-transforms encode interpreter)

# The hash by which a content security policy knows a script or a style.
function(dhyan_policy_hash text result)
  string(SHA256 hex "${text}")
  set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(base64 "")
  foreach(at RANGE 0 63 6) # six hexadecimal digits are four of base64; the last four, three and a filler
    string(SUBSTRING ${hex}00 ${at} 6 group)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${digit} 1 digit)
      string(APPEND base64 "${digit}")
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" base64 "${base64}")
  set(${result} "sha256-${base64}" PARENT_SCOPE)
endfunction()

set(page ${PROJECT_SOURCE_DIR}/app/report/page)
file(GLOB found CONFIGURE_DEPENDS ${DHYAN_VEGA_FOLDER}/vega-*.min.js) # so that a build notices when it is installed
set(missing 0)
set(parts "")
foreach(module IN LISTS modules)
  string(REPLACE selections selection file vega-${module}.min.js) # the one module whose file has another name
  set(file ${DHYAN_VEGA_FOLDER}/${file})
  if(NOT file IN_LIST found)
    math(EXPR missing "${missing} + 1")
    continue()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(REGEX REPLACE "//# sourceMappingURL=[^\n]*\n?" "" text "${text}")
  string(APPEND parts "parts[\"vega-${module}\"] = function (exports, module, require) {\n${text}};\n")
endforeach()

foreach(asset page.html page.css page.js modules.js vega-licence.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page}/${asset})
  file(READ ${page}/${asset} ${asset})
endforeach()
set(skeleton "${page.html}")
set(style "${page.css}")
set(script "${page.js}")
set(vega "")
if(missing)
  list(LENGTH modules count)
  message(STATUS "Vega: ${missing} of ${count} modules are not in ${DHYAN_VEGA_FOLDER} (Debian's libjs-vega has them): "
          "reports have tables and no charts")
else()
  message(STATUS "Vega: ${DHYAN_VEGA_FOLDER}; reports have charts")
  string(REPLACE "/* parts */" "${parts}" vega "${modules.js}")
  string(PREPEND vega "/*\n${vega-licence.txt}*/\n")
endif()
foreach(text style script vega)
  dhyan_policy_hash("${${text}}" ${text}_hash)
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/page/assets.cpp @ONLY CONTENT [[
// Made by cmake/vega.cmake.
#include "report/assets.hpp"

namespace dhyan::report {
const std::string_view page_skeleton = R"dhyan(@skeleton@)dhyan";
const Asset page_style = {R"dhyan(@style@)dhyan", "@style_hash@"};
const Asset page_script = {R"dhyan(@script@)dhyan", "@script_hash@"};
const Asset vega_script = {R"dhyan(@vega@)dhyan", "@vega_hash@"};
}  // namespace dhyan::report
]])
target_sources(dhyan_app PRIVATE ${PROJECT_BINARY_DIR}/page/assets.cpp)
