// SPDX-License-Identifier: Apache-2.0
// Marks what both a processor and a GPU run: one text for a rule that both must follow.
#pragma once

#ifdef __CUDACC__
#define DHYAN_HOST_DEVICE __host__ __device__
#else
#define DHYAN_HOST_DEVICE
#endif
