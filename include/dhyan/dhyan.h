/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file dhyan.h
 * @brief Scaled dot-product attention, forward and backward: the C interface of libdhyan.
 *
 * Letters: B batch, T query length, S key length, N query heads, K key/value heads (N % K == 0, query head n reads
 * key/value head n / (N / K)), H head dimension, Hv value head dimension.
 *
 *   logits = softcap(scale * Q K^T) + bias - slope * |s - (t + d)|;  masks;  sink as one more column;  softmax;  dropout
 *
 * Every struct starts with its size; its init function sets the size and the defaults. Members are only ever appended: a
 * smaller struct (an older header's) means the defaults for what it lacks, a larger one (a newer header's) must hold zeros
 * beyond what this library knows. A pointer member that is NULL means "absent". Functions return a status and, when it is not
 * DHYAN_OK, copy one sentence (argument, value, rule) into the caller's buffer. No function throws. All functions may be called
 * from many threads at once.
 */
#ifndef DHYAN_DHYAN_H
#define DHYAN_DHYAN_H

#include <stddef.h>
#include <stdint.h>

#define DHYAN_VERSION_MAJOR 0
#define DHYAN_VERSION_MINOR 1
#define DHYAN_VERSION_PATCH 0
/** The library's SONAME carries this number; it changes only when an existing call would change its meaning. */
#define DHYAN_ABI 1

#if defined(__GNUC__)
#define DHYAN_API __attribute__((visibility("default")))
#else
#define DHYAN_API
#endif

#ifdef __cplusplus
#define DHYAN_INLINE inline
extern "C" {
#else
#define DHYAN_INLINE static inline
#endif

/** What a call came to. */
typedef int32_t dhyan_status;
enum {
  DHYAN_OK = 0,
  DHYAN_INVALID_ARGUMENT = 1, /**< an argument breaks a rule of this header */
  DHYAN_UNSUPPORTED = 2,      /**< a valid problem that the chosen implementation or device cannot run */
  DHYAN_OUT_OF_MEMORY = 3,
  DHYAN_DEVICE_ERROR = 4, /**< a launch or a driver call failed */
  DHYAN_INTERNAL = 5      /**< a fault of this library */
};

/** Element types. Lengths and offsets are DHYAN_I32 (offsets also DHYAN_I64), masks DHYAN_BOOL (one byte, 0 or 1). */
typedef int32_t dhyan_dtype;
enum {
  DHYAN_NONE = 0,
  DHYAN_F64 = 1,
  DHYAN_F32 = 2,
  DHYAN_F16 = 3,
  DHYAN_BF16 = 4,
  DHYAN_E4M3 = 5, /**< reserved for FP8 attention; refused until it is built */
  DHYAN_E5M2 = 6, /**< reserved for FP8 attention; refused until it is built */
  DHYAN_BOOL = 16,
  DHYAN_I32 = 17,
  DHYAN_I64 = 18
};

typedef int32_t dhyan_device_type;
enum { DHYAN_CPU = 0, DHYAN_CUDA = 1 };

/** How attention is computed. */
typedef int32_t dhyan_implementation;
enum {
  DHYAN_AUTO = 0,      /**< the fastest that supports the problem, from measured tables */
  DHYAN_REFERENCE = 1, /**< float64, plain loops, never rounds: the oracle */
  DHYAN_NAIVE = 2,     /**< three steps, the matrix of weights in memory */
  DHYAN_FUSED = 3,     /**< tiled online softmax, memory O(T) */
  DHYAN_CUDNN = 4      /**< NVIDIA's library */
};

/** Causal masking is always an explicit alignment; see dhyan_options::causal. */
typedef int32_t dhyan_causal;
enum {
  DHYAN_CAUSAL_OFF = 0,
  DHYAN_CAUSAL_TOP_LEFT = 1,    /**< query t sees keys s <= t */
  DHYAN_CAUSAL_BOTTOM_RIGHT = 2 /**< query t sees keys s <= t + key_length_b - query_length_b */
};

typedef int32_t dhyan_precision;
enum {
  DHYAN_PRECISION_DEFAULT = 0, /**< f32 inputs are multiplied as f32 */
  DHYAN_PRECISION_TF32 = 1     /**< f32 inputs may be multiplied as TF32 (CUDA only; a CPU refuses) */
};

typedef int32_t dhyan_direction;
enum { DHYAN_FORWARD = 0, DHYAN_BACKWARD = 1 };

#define DHYAN_MAX_RANK 4

/** A non-owning view. The last dimension is contiguous (stride 1); other strides are free, 0 included for inputs, but not
    negative. Strides of dimensions of size 0 or 1 are not looked at. No dimension exceeds 2^40. */
typedef struct dhyan_tensor {
  size_t struct_size;
  void* data; /**< NULL while planning; aligned to its element's size */
  dhyan_dtype dtype;
  dhyan_device_type device_type;
  int32_t device_index;
  int32_t rank;
  int64_t shape[DHYAN_MAX_RANK];
  int64_t strides[DHYAN_MAX_RANK]; /**< in elements */
  /** Alignment in bytes that every pointer given to a plan's run will have. 0: 16, lowered to what the strides allow; a
      one-shot call reads it off the pointer. Lengths, offsets, sink and slopes: 0 means their element's size. */
  int32_t alignment;
  int32_t reserved; /**< 0 */
} dhyan_tensor;

/** Everything that is a number rather than a tensor. */
typedef struct dhyan_options {
  size_t struct_size;
  dhyan_implementation implementation;
  dhyan_causal causal;
  int64_t window_left;  /**< keys s >= t + d - window_left are visible; -1: unlimited */
  int64_t window_right; /**< keys s <= t + d + window_right are visible; -1: unlimited */
  double scale;         /**< multiplies Q K^T; finite; NaN: 1 / sqrt(H) */
  double softcap;       /**< logits become softcap * tanh(logits / softcap); finite, not negative; 0: off */
  /**
   * Dropout of the weights, p 0 or in [2^-32, 1), kept ones scaled by 1 / (1 - p). Which are kept follows from
   * (seed, offset, b, n, t, s) alone: Philox4x32-10 with key = seed + 0x9E3779B97F4A7C15 * offset mod 2^64 (low word first),
   * counter = (s / 4, t, n, b) in global positions; word s mod 4 is compared: kept iff word >= floor(p * 2^32). Test vectors:
   * seed 0, offset 0, b = n = t = 0 gives s = 0..3 the words 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (hexadecimal); seed 1234,
   * offset 7, b = 1, n = 3, t = 5 gives a279a380 1a0e3f6a c7f31e4a 44c55fa2.
   */
  double dropout_probability;
  uint64_t dropout_seed;
  uint64_t dropout_offset;
  /** Where a shard lies in a larger problem: added to b, n, t, s for dropout, to t, s for causal (top-left), window, ALiBi. */
  int64_t batch_origin;
  int64_t head_origin;
  int64_t query_origin;
  int64_t key_origin;
  /** Packed sequences only: no sequence is longer than these. 0: the number of tokens. */
  int64_t max_query_length;
  int64_t max_key_length;
  dhyan_precision precision;
  int32_t threads;        /**< CPU threads; 0: all the process may use; on a GPU 0. Results do not depend on it. */
  int32_t allow_jit;      /**< lets `auto` consider implementations whose plans take seconds to build */
  int32_t check_pointers; /**< lets a plan's run check pointer kinds and overlap, as one-shot calls always do */
  int32_t deterministic;  /**< 1: gradients have the same bits in every run, at a price on a GPU; all else always has */
  int32_t reserved;       /**< 0 */
} dhyan_options;

/**
 * One attention problem. Dense: query [B,T,N,H], key [B,S,K,H], value [B,S,K,Hv], out [B,T,N,Hv], lse [B,N,T].
 * Packed (query_offsets and key_offsets given): query [tokens,N,H], key and value [tokens,K,H], out [tokens,N,Hv],
 * lse [N,tokens]; B+1 offsets are starts, sequence b holds query_lengths[b] tokens from query_offsets[b], or
 * query_offsets[b+1] - query_offsets[b] without lengths (gaps need lengths). Values are clamped to the extent; a negative
 * length is an empty sequence; sequences must not overlap.
 * H and Hv are at most 512, N and K at most 2^31 - 1; every size may be 0. The product B * N * T * S is at most 2^58.
 * Outputs must not overlap themselves, one another or an input. A query that sees no key gets out 0, grad_query 0 and lse -inf
 * (with a sink: the sink's logit); rows that belong to no sequence get 0 and -inf, sink or not.
 * bias and mask broadcast to [B,N,T,S] (packed: [B,N,max_query_length,max_key_length], positions inside the sequence); ranks
 * below 4 gain leading dimensions of 1. mask: true keeps. alibi_slopes and sink: [N] (slopes also [B,N]), f32.
 */
typedef struct dhyan_problem {
  size_t struct_size;
  const dhyan_options* options; /**< NULL: the defaults */
  const dhyan_tensor* query;
  const dhyan_tensor* key;
  const dhyan_tensor* value;
  const dhyan_tensor* out;  /**< written forward, read backward */
  const dhyan_tensor* lse;  /**< natural log; f32 (f64 for f64 inputs); optional output forward, required input backward */
  const dhyan_tensor* bias; /**< f64, f32, f16 or bf16, whatever the inputs are */
  const dhyan_tensor* mask;
  const dhyan_tensor* alibi_slopes;
  const dhyan_tensor* sink;
  const dhyan_tensor* query_lengths; /**< [B], i32 */
  const dhyan_tensor* key_lengths;   /**< [B], i32 */
  const dhyan_tensor* query_offsets; /**< [B+1], i32 or i64 */
  const dhyan_tensor* key_offsets;   /**< [B+1], i32 or i64 */
  /* Backward only: a forward problem must leave them NULL. */
  const dhyan_tensor* grad_out;   /**< like out */
  const dhyan_tensor* grad_lse;   /**< like lse, optional */
  const dhyan_tensor* grad_query; /**< outputs; each optional, at least one given */
  const dhyan_tensor* grad_key;
  const dhyan_tensor* grad_value;
  const dhyan_tensor* grad_bias; /**< the bias's own shape, summed over the dimensions that broadcast */
  const dhyan_tensor* grad_sink; /**< [N], f32 (f64 for f64 inputs) */
} dhyan_problem;

/** The pointers of one run of a plan; members as in dhyan_problem: NULL exactly where the plan has no such tensor. */
typedef struct dhyan_buffers {
  size_t struct_size;
  const void* query;
  const void* key;
  const void* value;
  void* out;
  void* lse;
  const void* bias;
  const void* mask;
  const void* alibi_slopes;
  const void* sink;
  const void* query_lengths;
  const void* key_lengths;
  const void* query_offsets;
  const void* key_offsets;
  const void* grad_out;
  const void* grad_lse;
  void* grad_query;
  void* grad_key;
  void* grad_value;
  void* grad_bias;
  void* grad_sink;
} dhyan_buffers;

/** What a plan must know of a device: scratch sizes and choices are pure functions of the problem and of this. */
typedef struct dhyan_device_description {
  size_t struct_size;
  dhyan_device_type device_type;
  int32_t device_index;
  int64_t memory_bytes;                 /**< `naive` refuses scores that need over 80 % of it */
  int32_t threads;                      /**< CPU: hardware threads this process may use */
  int32_t reserved;                     /**< 0 */
  int32_t compute_major, compute_minor; /**< GPU: compute capability; both 0: the device's own */
  int32_t multiprocessors;              /**< GPU: decides how work is split; 0: the device's own */
  int32_t reserved_too;                 /**< 0 */
} dhyan_device_description;

typedef struct dhyan_plan dhyan_plan;

/** Sets the size and the defaults of a struct whose header declares `struct_size` bytes. The short forms below pass the size
    that this header knows, so that an older client is never written past its own struct. */
DHYAN_API void dhyan_tensor_init_sized(dhyan_tensor* tensor, size_t struct_size);
DHYAN_API void dhyan_options_init_sized(dhyan_options* options, size_t struct_size);
DHYAN_API void dhyan_problem_init_sized(dhyan_problem* problem, size_t struct_size);
DHYAN_API void dhyan_buffers_init_sized(dhyan_buffers* buffers, size_t struct_size);
DHYAN_API void dhyan_device_description_init_sized(dhyan_device_description* description, size_t struct_size);
DHYAN_INLINE void dhyan_tensor_init(dhyan_tensor* tensor) { dhyan_tensor_init_sized(tensor, sizeof *tensor); }
DHYAN_INLINE void dhyan_options_init(dhyan_options* options) { dhyan_options_init_sized(options, sizeof *options); }
DHYAN_INLINE void dhyan_problem_init(dhyan_problem* problem) { dhyan_problem_init_sized(problem, sizeof *problem); }
DHYAN_INLINE void dhyan_buffers_init(dhyan_buffers* buffers) { dhyan_buffers_init_sized(buffers, sizeof *buffers); }
DHYAN_INLINE void dhyan_device_description_init(dhyan_device_description* description) {
  dhyan_device_description_init_sized(description, sizeof *description);
}
/** Describes a device of this machine; DHYAN_UNSUPPORTED when there is none such. */
DHYAN_API dhyan_status dhyan_device_describe(dhyan_device_type type, int32_t index, dhyan_device_description* description,
                                             char* message, size_t message_size);

/** "0.1.0". */
DHYAN_API const char* dhyan_version(void);
/** A JSON object: version, compiler, cpu (name, features, targets), threads, devices, implementations, libraries. Returns the
    length without the closing zero; writes at most `size` bytes, always zero-terminated when size > 0. */
DHYAN_API size_t dhyan_info(char* json, size_t size);

/** One-shot attention: the tensors carry their pointers. Plans are cached. `stream` is a cudaStream_t, NULL on a CPU.
    DHYAN_INVALID_ARGUMENT: an argument breaks a rule; DHYAN_UNSUPPORTED: the implementation or device cannot run the problem;
    DHYAN_OUT_OF_MEMORY: no scratch could be had. */
DHYAN_API dhyan_status dhyan_attention(const dhyan_problem* problem, void* stream, char* message, size_t message_size);
/** The gradients of the same call; out and lse are read. */
DHYAN_API dhyan_status dhyan_attention_backward(const dhyan_problem* problem, void* stream, char* message, size_t message_size);

/** Validates, chooses and plans; errors as of dhyan_attention. `device` NULL: the device the tensors name, as it is.
    On an error `*plan` is NULL. */
DHYAN_API dhyan_status dhyan_plan_create(const dhyan_problem* problem, dhyan_direction direction,
                                         const dhyan_device_description* device, dhyan_plan** plan, char* message,
                                         size_t message_size);
/** NULL is fine; no run of the plan may be under way. */
DHYAN_API void dhyan_plan_destroy(dhyan_plan* plan);
/** Bytes of scratch one run needs; runs that overlap in time need one each. */
DHYAN_API size_t dhyan_plan_scratch_bytes(const dhyan_plan* plan);
/** Which implementation was chosen. */
DHYAN_API dhyan_implementation dhyan_plan_implementation(const dhyan_plan* plan);
/** What was chosen and why, a few lines. Returns and writes like dhyan_info. */
DHYAN_API size_t dhyan_plan_describe(const dhyan_plan* plan, char* text, size_t size);
/** Runs a plan. DHYAN_INVALID_ARGUMENT: a pointer is missing, given without need, or less aligned than planned, or scratch is
    too small. `scratch` NULL: the library finds its own; else at least dhyan_plan_scratch_bytes, 64-byte aligned (256 on a
    GPU). */
DHYAN_API dhyan_status dhyan_plan_run(const dhyan_plan* plan, const dhyan_buffers* buffers, void* scratch, size_t scratch_bytes,
                                      void* stream, char* message, size_t message_size);

/** Joins two partial results over disjoint sets of keys: out = softmax-weighted sum, lse = log(e^lse_a + e^lse_b). Shapes as
    `out` and `lse` of a problem; `out` and `lse` may be the same tensors as one of the parts. A part whose lse is -inf counts
    nothing. Outputs may differ in floating type, lse be f32 or f64; give a sink to one part only. All on one device. */
DHYAN_API dhyan_status dhyan_merge(const dhyan_tensor* out_a, const dhyan_tensor* lse_a, const dhyan_tensor* out_b,
                                   const dhyan_tensor* lse_b, const dhyan_tensor* out, const dhyan_tensor* lse, void* stream,
                                   char* message, size_t message_size);

/** Converts element by element between f64, f32, f16 and bf16, to nearest even; shapes equal, strides free. All on one
    device. */
DHYAN_API dhyan_status dhyan_convert(const dhyan_tensor* source, const dhyan_tensor* destination, void* stream, char* message,
                                     size_t message_size);

/** Whether an implementation can run on a device at all: DHYAN_OK, or DHYAN_UNSUPPORTED with the reason in `message`. */
DHYAN_API dhyan_status dhyan_implementation_available(dhyan_implementation implementation, dhyan_device_type type,
                                                      int32_t index, char* message, size_t message_size);

/** Gives the library's cached scratch and plans back. */
DHYAN_API void dhyan_trim(void);

#ifdef __cplusplus
}
#endif

#endif
