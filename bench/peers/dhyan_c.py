# SPDX-License-Identifier: Apache-2.0
"""As much of dhyan.h through ctypes as the comparison needs: plans over arrays that others own."""
import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p

DTYPES = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4, "bool": 16, "int32": 17, "int64": 18}
IMPLEMENTATIONS = {"auto": 0, "reference": 1, "naive": 2, "fused": 3, "cudnn": 4}
CUDA = 1
FORWARD, BACKWARD = 0, 1
TENSORS = "query key value out lse bias mask alibi_slopes sink query_lengths key_lengths query_offsets key_offsets".split()
GRADIENTS = "grad_out grad_lse grad_query grad_key grad_value grad_bias grad_sink".split()


class Tensor(Structure):
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p)]
    _fields_ += [(name, c_int32) for name in ("dtype", "device_type", "device_index", "rank")]
    _fields_ += [("shape", c_int64 * 4), ("strides", c_int64 * 4), ("alignment", c_int32), ("reserved", c_int32)]


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("implementation", c_int32), ("causal", c_int32)]
    _fields_ += [("window_left", c_int64), ("window_right", c_int64), ("scale", c_double), ("softcap", c_double)]
    _fields_ += [("dropout_probability", c_double), ("dropout_seed", c_uint64), ("dropout_offset", c_uint64)]
    _fields_ += [(name, c_int64) for name in ("batch_origin", "head_origin", "query_origin", "key_origin")]
    _fields_ += [("max_query_length", c_int64), ("max_key_length", c_int64)]
    _fields_ += [(name, c_int32) for name in ("precision", "threads", "allow_jit", "check_pointers", "deterministic", "reserved")]


class Problem(Structure):
    _fields_ = [("struct_size", c_size_t), ("options", POINTER(Options))]
    _fields_ += [(name, POINTER(Tensor)) for name in TENSORS + GRADIENTS]


class Buffers(Structure):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_void_p) for name in TENSORS + GRADIENTS]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.dhyan_version.restype = c_char_p
        self.c.dhyan_plan_scratch_bytes.restype = c_size_t
        for name in ("dhyan_info", "dhyan_plan_describe"):
            getattr(self.c, name).restype = c_size_t
        for name in ("dhyan_plan_destroy", "dhyan_plan_scratch_bytes"):
            getattr(self.c, name).argtypes = [c_void_p]
        self.c.dhyan_plan_describe.argtypes = [c_void_p, c_char_p, c_size_t]
        self.c.dhyan_plan_run.argtypes = [c_void_p, POINTER(Buffers), c_void_p, c_size_t, c_void_p, c_char_p, c_size_t]
        self.version = self.c.dhyan_version().decode()

    def info(self):
        text = ctypes.create_string_buffer(self.c.dhyan_info(None, 0) + 1)
        self.c.dhyan_info(text, len(text))
        return text.value.decode()

    def plan(self, direction, arrays, **options):
        return Plan(self, direction, arrays, options)


class Plan:
    """A plan over named arrays, and the pointers to run it with. Arrays are torch tensors, numpy arrays or (dtype, shape) for a
    plan that is only looked at; their memory stays the caller's. So does that of `scratch`, a torch tensor, which runs on a GPU
    use when it is set (the library's own cannot be captured in a graph)."""

    def __init__(self, library, direction, arrays, options):
        self.library, self.arrays = library, arrays
        c_options, problem, self.buffers = Options(), Problem(), Buffers()
        for kind, struct in (("options", c_options), ("problem", problem), ("buffers", self.buffers)):
            initialise(library, kind, struct)
        for name, value in options.items():
            setattr(c_options, name, IMPLEMENTATIONS[value] if name == "implementation" else value)
        problem.options = ctypes.pointer(c_options)
        for name, array in arrays.items():
            tensor = describe(library, array)
            setattr(problem, name, ctypes.pointer(tensor))
            setattr(self.buffers, name, tensor.data)
        self.message = ctypes.create_string_buffer(1024)
        self.handle = c_void_p()
        create = library.c.dhyan_plan_create
        self._check(create(byref(problem), direction, None, byref(self.handle), self.message, len(self.message)))
        self.scratch_bytes = library.c.dhyan_plan_scratch_bytes(self.handle)
        self.scratch = None

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.message.value.decode())

    def __call__(self, stream=None):
        run, scratch = self.library.c.dhyan_plan_run, self.scratch
        place = (None, 0) if scratch is None else (scratch.data_ptr(), scratch.nbytes)
        self._check(run(self.handle, byref(self.buffers), *place, stream, self.message, len(self.message)))

    def describe(self):
        text = ctypes.create_string_buffer(self.library.c.dhyan_plan_describe(self.handle, None, 0) + 1)
        self.library.c.dhyan_plan_describe(self.handle, text, len(text))
        return text.value.decode()

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.c.dhyan_plan_destroy(self.handle)


def initialise(library, kind, struct):
    getattr(library.c, f"dhyan_{kind}_init_sized")(byref(struct), c_size_t(ctypes.sizeof(struct)))


def describe(library, array):
    """The C view of an array."""
    tensor = Tensor()
    initialise(library, "tensor", tensor)
    if isinstance(array, tuple):
        dtype, shape = array
        data, strides = None, [1]
        for extent in shape[:0:-1]:
            strides.insert(0, strides[0] * extent)
    elif hasattr(array, "data_ptr"):
        dtype, shape, data, strides = str(array.dtype).split(".")[-1], array.shape, array.data_ptr(), array.stride()
        if array.device.type == "cuda":
            tensor.device_type, tensor.device_index = CUDA, array.device.index
    else:
        dtype, shape, data = str(array.dtype), array.shape, array.ctypes.data
        strides = [stride // array.itemsize for stride in array.strides]
    tensor.data, tensor.dtype, tensor.rank = data, DTYPES[dtype], len(shape)
    tensor.shape[: len(shape)] = list(shape)
    tensor.strides[: len(shape)] = list(strides)
    return tensor
