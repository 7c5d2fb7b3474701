/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface from C: one-shot, plan and run, backward, merge, convert, errors. */
#include <dhyan/dhyan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void check(int truth, const char* what, const char* message) {
  if (truth) return;
  ++failures;
  fprintf(stderr, "FAILED: %s (%s)\n", what, message);
}

static dhyan_tensor tensor(void* data, dhyan_dtype dtype, int rank, const int64_t* shape) {
  dhyan_tensor t;
  int64_t stride = 1;
  int i;
  dhyan_tensor_init(&t);
  t.data = data;
  t.dtype = dtype;
  t.rank = rank;
  for (i = rank - 1; i >= 0; --i) {
    t.shape[i] = shape[i];
    t.strides[i] = stride;
    stride *= shape[i];
  }
  return t;
}

enum { T = 5, S = 7, N = 2, H = 4 };

int main(void) {
  static const int64_t query_shape[4] = {1, T, N, H}, key_shape[4] = {1, S, N, H}, lse_shape[3] = {1, N, T};
  float q[T * N * H], k[S * N * H], v[S * N * H], out[T * N * H], again[T * N * H], lse[N * T], grad_value[S * N * H];
  float grad_out[T * N * H];
  uint16_t half[T * N * H];
  char message[256] = "", text[1024];
  dhyan_problem problem;
  dhyan_options options;
  dhyan_buffers buffers;
  dhyan_plan* plan = NULL;
  dhyan_tensor tq = tensor(q, DHYAN_F32, 4, query_shape), tk = tensor(k, DHYAN_F32, 4, key_shape);
  dhyan_tensor tv = tensor(v, DHYAN_F32, 4, key_shape), to = tensor(out, DHYAN_F32, 4, query_shape);
  dhyan_tensor tl = tensor(lse, DHYAN_F32, 3, lse_shape), tg = tensor(grad_out, DHYAN_F32, 4, query_shape);
  dhyan_tensor tdv = tensor(grad_value, DHYAN_F32, 4, key_shape), th = tensor(half, DHYAN_F16, 4, query_shape);
  dhyan_tensor ta = tensor(again, DHYAN_F32, 4, query_shape);
  size_t length, scratch_bytes;
  void* scratch;
  int i, n;
  double sum;

  for (i = 0; i < T * N * H; ++i) q[i] = (float)sin(i), grad_out[i] = 1;
  for (i = 0; i < S * N * H; ++i) k[i] = (float)cos(i), v[i] = (float)sin(3 * i);

  dhyan_options_init(&options);
  options.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  dhyan_problem_init(&problem);
  problem.options = &options;
  problem.query = &tq;
  problem.key = &tk;
  problem.value = &tv;
  problem.out = &to;
  problem.lse = &tl;
  check(dhyan_attention(&problem, NULL, message, sizeof message) == DHYAN_OK, "one-shot", message);

  check(dhyan_plan_create(&problem, DHYAN_FORWARD, NULL, &plan, message, sizeof message) == DHYAN_OK, "plan", message);
  length = dhyan_plan_describe(plan, text, sizeof text);
  check(length > 0 && strlen(text) == length, "describe", text);
  dhyan_buffers_init(&buffers);
  buffers.query = q;
  buffers.key = k;
  buffers.value = v;
  buffers.out = again;
  buffers.lse = lse;
  scratch_bytes = dhyan_plan_scratch_bytes(plan);
  scratch = aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
  check(dhyan_plan_run(plan, &buffers, scratch, scratch_bytes, NULL, message, sizeof message) == DHYAN_OK, "run", message);
  check(memcmp(out, again, sizeof out) == 0, "a plan's result is the one-shot call's", "");
  free(scratch);
  dhyan_plan_destroy(plan);

  /* Every query's weights add up to 1, so the gradient of all values of a head, summed, is the number of queries. */
  problem.grad_out = &tg;
  problem.grad_value = &tdv;
  check(dhyan_attention_backward(&problem, NULL, message, sizeof message) == DHYAN_OK, "backward", message);
  for (n = 0; n < N; ++n) {
    for (sum = 0, i = 0; i < S; ++i) sum += grad_value[(i * N + n) * H];
    check(fabs(sum - T) < 1e-4, "gradients of values add up", "");
  }

  /* A result joined with itself is itself, with twice the weight. */
  check(dhyan_merge(&to, &tl, &to, &tl, &ta, &tl, NULL, message, sizeof message) == DHYAN_OK, "merge", message);
  for (i = 0; i < T * N * H; ++i) check(fabsf(again[i] - out[i]) < 1e-6f, "merged", "");
  check(dhyan_convert(&to, &th, NULL, message, sizeof message) == DHYAN_OK, "convert", message);
  check(dhyan_convert(&th, &ta, NULL, message, sizeof message) == DHYAN_OK, "convert back", message);
  for (i = 0; i < T * N * H; ++i) check(fabsf(again[i] - out[i]) < 1e-3f, "converted there and back", "");

  problem.grad_out = NULL;
  problem.grad_value = NULL;
  options.window_left = -7;
  check(dhyan_attention(&problem, NULL, message, sizeof message) == DHYAN_INVALID_ARGUMENT, "a wrong window", message);
  check(strstr(message, "window_left: -7") == message, "its message", message);
  check(dhyan_implementation_available(DHYAN_CUDNN, DHYAN_CPU, 0, message, sizeof message) == DHYAN_UNSUPPORTED, "cudnn", "");
  check(dhyan_implementation_available(DHYAN_REFERENCE, DHYAN_CPU, 0, message, sizeof message) == DHYAN_OK, "reference",
        message);
  check(dhyan_info(NULL, 0) > 100, "info", "");
  dhyan_trim();
  return failures != 0;
}
