// SPDX-License-Identifier: Apache-2.0
// The one file that includes cudnn-frontend.
#include "cudnn/graph.hpp"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "cudnn/library.hpp"
#include "cudnn/rules.hpp"

namespace dhyan::cudnn {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Handled = std::shared_ptr<Tensor_attributes>;

std::int64_t uid(Slot slot) { return static_cast<std::int64_t>(slot) + 1; }

fe::DataType_t type_of(dhyan_dtype dtype) {
  switch (dtype) {
    case DHYAN_F16:
      return fe::DataType_t::HALF;
    case DHYAN_BF16:
      return fe::DataType_t::BFLOAT16;
    case DHYAN_I32:
      return fe::DataType_t::INT32;
    case DHYAN_I64:
      return fe::DataType_t::INT64;
    default:
      return fe::DataType_t::FLOAT;
  }
}

std::vector<std::int64_t> vector_of(const std::array<std::int64_t, 4>& x) { return {x.begin(), x.end()}; }

// cuDNN's answer is pages long; what it gives as the first reason is what matters.
std::string first_reason(const std::string& answer) {
  constexpr std::string_view mark = "Reason: ";
  const std::size_t at = answer.find(mark);
  const std::string reason = at == std::string::npos ? answer : answer.substr(at + mark.size());
  return reason.substr(0, std::min(reason.find('\n'), reason.find(" at: ")));
}

// cudnn-frontend has no plan, or fails.
[[noreturn]] void refuse(const std::string& answer) {
  throw core::Error(DHYAN_UNSUPPORTED, "cuDNN " + version_text(version()) + " answers: " + first_reason(answer));
}

void check(fe::error_t status) {
  if (status.is_bad()) refuse(status.get_message());
}

// cudnn-frontend throws where it has no status to return.
template <class Action>
void guarded(const Action& action) {
  try {
    action();
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

// Tensors and operations of a description, as cudnn-frontend has them.
class Builder {
 public:
  explicit Builder(const Description& d) : d_(d), graph_(std::make_shared<fe::graph::Graph>()) {
    graph_->set_io_data_type(type_of(d.query.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(d.capability);
    query_ = input(kQuery, d.query, kQueryOffsets);
    key_ = input(kKey, d.key, kKeyOffsets);
    value_ = input(kValue, d.value, kValueOffsets);
    if (d.direction == DHYAN_FORWARD) {
      forward();
    } else {
      backward();
    }
  }

  std::shared_ptr<fe::graph::Graph> graph() const { return graph_; }
  // What a run binds, in the order of identifiers.
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  void bind(Slot slot) { slots_.insert(std::lower_bound(slots_.begin(), slots_.end(), slot), slot); }

  Handled input(Slot slot, const Tensor& x) {
    bind(slot);
    return graph_->tensor(Tensor_attributes()
                              .set_uid(uid(slot))
                              .set_dim(vector_of(x.shape))
                              .set_stride(vector_of(x.strides))
                              .set_data_type(type_of(x.dtype)));
  }
  Handled input(Slot slot, const Tensor& x, Slot offsets) {
    Handled made = input(slot, x);
    add_offsets(*made, offsets);
    return made;
  }

  void output(const Handled& made, Slot slot, const Tensor& x) {
    bind(slot);
    made->set_output(true)
        .set_uid(uid(slot))
        .set_dim(vector_of(x.shape))
        .set_stride(vector_of(x.strides))
        .set_data_type(type_of(x.dtype));
  }
  void output(const Handled& made, Slot slot, const Tensor& x, Slot offsets) {
    output(made, slot, x);
    add_offsets(*made, offsets);
  }

  void add_offsets(Tensor_attributes& made, Slot offsets) {
    if (d_.ragged) made.set_ragged_offset(input(offsets, {DHYAN_I64, {d_.query.shape[0] + 1, 1, 1, 1}, {1, 1, 1, 1}}));
  }

  // What both directions share.
  template <class Options>
  void apply(Options& options) {
    options.set_name("attention").set_attn_scale(d_.scale);
    if (d_.lengths) {
      const Tensor lengths{DHYAN_I32, {d_.query.shape[0], 1, 1, 1}, {1, 1, 1, 1}};
      options.set_padding_mask(true).set_seq_len_q(input(kQueryLengths, lengths)).set_seq_len_kv(input(kKeyLengths, lengths));
    }
    if (d_.bottom_right) options.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    if (d_.left >= 0) options.set_diagonal_band_left_bound(static_cast<int>(d_.left));
    if (d_.right >= 0) options.set_diagonal_band_right_bound(static_cast<int>(d_.right));
    if (d_.bias.present()) options.set_bias(input(kBias, d_.bias));
    if (d_.sink.present()) options.set_sink_token(input(kSink, d_.sink));
  }

  void forward() {
    fe::graph::SDPA_attributes options;
    options.set_generate_stats(d_.stats.present());
    apply(options);
    const auto [out, stats] = graph_->sdpa(query_, key_, value_, std::move(options));
    output(out, kOut, d_.out, kOutOffsets);
    if (d_.stats.present()) output(stats, kStats, d_.stats);
  }

  void backward() {
    fe::graph::SDPA_backward_attributes options;
    apply(options);
    options.set_deterministic_algorithm(d_.deterministic);
    if (d_.grad_bias.present()) options.set_dbias(gradient(kGradBias, d_.grad_bias));
    if (d_.grad_sink.present()) options.set_dsink_token(gradient(kGradSink, d_.grad_sink));
    const Handled out = input(kOut, d_.out, kOutOffsets);
    const Handled grad_out = input(kGradOut, d_.grad_out, kGradOutOffsets);
    const Handled stats = input(kStats, d_.stats);
    const auto [grad_query, grad_key, grad_value] =
        graph_->sdpa_backward(query_, key_, value_, out, grad_out, stats, std::move(options));
    output(grad_query, kGradQuery, d_.grad_query, kGradQueryOffsets);
    output(grad_key, kGradKey, d_.grad_key, kGradKeyOffsets);
    output(grad_value, kGradValue, d_.grad_value, kGradValueOffsets);
  }

  Handled gradient(Slot slot, const Tensor& x) {
    Handled made = graph_->tensor(Tensor_attributes());
    output(made, slot, x);
    return made;
  }

  const Description& d_;
  std::shared_ptr<fe::graph::Graph> graph_;
  std::vector<Slot> slots_;
  Handled query_, key_, value_;
};

template <class Action>
std::string reason_against(const Action& action) {
  try {
    guarded(action);
  } catch (const core::Error& error) {
    return error.what();
  }
  return {};
}

// All of building but the compilation.
void find_plans(fe::graph::Graph& graph, cudnnHandle_t handle) {
  check(graph.validate());
  check(graph.build_operation_graph(handle));
  check(graph.create_execution_plans({fe::HeurMode_t::A}));
  check(graph.check_support());
}

}  // namespace

std::string unsupported(const Description& d) {
  if (has_graph(d)) return {};
  return reason_against([&] {
    const Builder builder(d);
    const Handle handle(d.device, nullptr);
    find_plans(*builder.graph(), handle.get());
  });
}

std::string unsupported_on(const std::string& device, const Description& d) {
  return reason_against([&] {
    auto properties = std::make_shared<fe::DeviceProperties>();
    check(properties->deserialize({device.begin(), device.end()}));
    const Builder builder(d);
    builder.graph()->set_device_properties(properties);
    find_plans(*builder.graph(), nullptr);
  });
}

struct Graph::Built {
  std::shared_ptr<fe::graph::Graph> graph;
  std::vector<Slot> slots;
  int device;
};

Graph::Graph(const Description& d) {
  guarded([&] {
    const Builder builder(d);
    const std::shared_ptr<fe::graph::Graph> graph = builder.graph();
    const Handle handle(d.device, nullptr);
    find_plans(*graph, handle.get());
    check(graph->build_plans());
    std::int64_t bytes = 0;
    check(graph->get_workspace_size(bytes));
    workspace_bytes_ = static_cast<std::size_t>(bytes);
    check(graph->get_plan_name(plan_));
    built_ = std::make_unique<const Built>(Built{graph, builder.slots(), d.device});
  });
}

Graph::~Graph() = default;

void Graph::run(const Pointers& pointers, void* workspace, void* stream) const {
  std::array<void*, kSlots> sorted;
  std::size_t count = 0;
  for (const Slot slot : built_->slots) sorted[count++] = pointers[slot];
  const Handle handle(built_->device, stream);
  fe::error_t status = built_->graph->execute(handle.get(), sorted.data(), static_cast<int>(count), workspace);
  if (status.is_bad()) throw core::Error(DHYAN_DEVICE_ERROR, "cudnn: " + status.get_message());
}

}  // namespace dhyan::cudnn
