// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dhyan::app {

// Whether whoever started the program asked for the signal to be ignored, as nohup does.
bool is_ignored(int signal);
void handle(int signal, void (*handler)(int));

}  // namespace dhyan::app
