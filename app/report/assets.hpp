// SPDX-License-Identifier: Apache-2.0
// What report.html is made of, compiled in: the files of app/report/page and Vega's modules (cmake/vega.cmake).
#pragma once

#include <string_view>

namespace dhyan::report {

struct Asset {
  std::string_view text;
  std::string_view hash;  // by which the page's content security policy allows it
};

extern const std::string_view page_skeleton;  // page.html, with {{names}} to fill in
extern const Asset page_style;
extern const Asset page_script;
extern const Asset vega_script;  // empty where configure found no Vega

}  // namespace dhyan::report
