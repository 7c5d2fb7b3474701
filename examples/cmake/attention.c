/* SPDX-License-Identifier: Apache-2.0 */
/* One query over three keys of zeros: every weight is 1/3, so the output is the mean of the values. */
#include <dhyan/dhyan.h>
#include <math.h>
#include <stdio.h>

static dhyan_tensor tensor(void* data, int64_t tokens, int64_t width) {
  dhyan_tensor view;
  dhyan_tensor_init(&view);
  view.data = data;
  view.dtype = DHYAN_F32;
  view.rank = 4;
  view.shape[0] = view.shape[2] = 1;
  view.shape[1] = tokens;
  view.shape[3] = width;
  view.strides[0] = tokens * width;
  view.strides[1] = view.strides[2] = width;
  view.strides[3] = 1;
  return view;
}

int main(void) {
  float query[4] = {1, 2, 3, 4}, key[12] = {0}, value[6] = {1, 2, 3, 4, 5, 9}, out[2] = {0};
  const dhyan_tensor q = tensor(query, 1, 4), k = tensor(key, 3, 4), v = tensor(value, 3, 2), o = tensor(out, 1, 2);
  dhyan_problem problem;
  char message[256] = "";

  dhyan_problem_init(&problem);
  problem.query = &q;
  problem.key = &k;
  problem.value = &v;
  problem.out = &o;
  if (dhyan_attention(&problem, NULL, message, sizeof message) != DHYAN_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  printf("dhyan %s: out = %g %g\n", dhyan_version(), out[0], out[1]);
  return !(fabsf(out[0] - 3) < 1e-5f && fabsf(out[1] - 5) < 1e-5f);
}
