// SPDX-License-Identifier: Apache-2.0
// The answers of a build with CUDA and without cudnn-frontend's or cuDNN's headers.
#include "cudnn/cudnn.hpp"

namespace dhyan::cudnn {
namespace {

constexpr const char* kReason =
    "this build has no cuDNN support: the headers of cudnn-frontend or cuDNN were not found; run `scripts/setup cudnn` and "
    "configure again";

std::string unavailable(const dhyan_device_description&) { return kReason; }

}  // namespace

const core::ImplementationEntry entry{DHYAN_CUDNN, "cudnn", DHYAN_CUDA, unavailable, nullptr, nullptr};

cuda::Library library() { return {"cuDNN", "", "", kReason}; }

void trim() {}

}  // namespace dhyan::cudnn
