/* SPDX-License-Identifier: Apache-2.0 */
/* A client compiled against an older header, whose structs lack their last members: it must never be written past its own
   structs, and what it cannot say has its default. The declarations below are that header's, not today's. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct tensor {
  size_t struct_size;
  void* data;
  int32_t dtype, device_type, device_index, rank;
  int64_t shape[4], strides[4]; /* alignment came later */
} tensor;

typedef struct options {
  size_t struct_size;
  int32_t implementation, causal;
  int64_t window_left, window_right;
  double scale, softcap; /* dropout, origins, lengths, precision and threads came later */
} options;

typedef struct problem {
  size_t struct_size;
  const options* options;
  const tensor *query, *key, *value, *out, *lse; /* the rest came later */
} problem;

void dhyan_tensor_init_sized(tensor*, size_t);
void dhyan_options_init_sized(options*, size_t);
void dhyan_problem_init_sized(problem*, size_t);
int32_t dhyan_attention(const problem*, void*, char*, size_t);

/* A struct of the client's with bytes behind it that are none of the library's business. */
#define GUARDED(type)         \
  struct {                    \
    type own;                 \
    unsigned char guard[256]; \
  }

static int intact(const unsigned char* guard) {
  int i;
  for (i = 0; i < 256; ++i) {
    if (guard[i] != 0xA5) return 0;
  }
  return 1;
}

int main(void) {
  GUARDED(tensor) t[4];
  GUARDED(options) o;
  GUARDED(problem) p;
  float q[4] = {1, 2, 3, 4}, k[12] = {0}, v[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15}, out[4] = {0};
  void* data[4] = {q, k, v, out};
  char message[256] = "";
  int i, d;

  memset(t, 0xA5, sizeof t);
  memset(&o, 0xA5, sizeof o);
  memset(&p, 0xA5, sizeof p);
  for (i = 0; i < 4; ++i) {
    dhyan_tensor_init_sized(&t[i].own, sizeof t[i].own);
    t[i].own.data = data[i];
    t[i].own.dtype = 2; /* f32 */
    t[i].own.rank = 4;
    for (d = 0; d < 4; ++d) t[i].own.shape[d] = 1, t[i].own.strides[d] = d == 3 ? 1 : 4;
    t[i].own.shape[1] = i == 1 || i == 2 ? 3 : 1;
    t[i].own.shape[3] = 4;
  }
  dhyan_options_init_sized(&o.own, sizeof o.own);
  dhyan_problem_init_sized(&p.own, sizeof p.own);
  for (i = 0; i < 4; ++i) {
    if (!intact(t[i].guard)) return puts("a tensor was written past its end"), 1;
  }
  if (!intact(o.guard)) return puts("options were written past their end"), 1;
  if (!intact(p.guard)) return puts("a problem was written past its end"), 1;
  if (o.own.window_left != -1 || !isnan(o.own.scale)) return puts("defaults are not set"), 1;

  p.own.options = &o.own;
  p.own.query = &t[0].own;
  p.own.key = &t[1].own;
  p.own.value = &t[2].own;
  p.own.out = &t[3].own;
  if (dhyan_attention(&p.own, NULL, message, sizeof message) != 0) return puts(message), 1;
  /* Keys of zeros weigh alike: the mean of the values. */
  if (fabsf(out[0] - 5) > 1e-5f || fabsf(out[3] - 9) > 1e-5f) return printf("out = %g ... %g\n", out[0], out[3]), 1;

  /* A window of one key behind and none ahead: the options an old client has still work. */
  o.own.window_left = 0;
  o.own.window_right = 0;
  if (dhyan_attention(&p.own, NULL, message, sizeof message) != 0) return puts(message), 1;
  if (memcmp(out, v, sizeof out) != 0) return printf("windowed out = %g ... %g\n", out[0], out[3]), 1;
  return 0;
}
