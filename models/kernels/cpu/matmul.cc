#include "models/kernels/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "models/device/out_of_memory.h"
#include "models/kernels/cpu/widen.h"

namespace sluice::cpu {
namespace {

using dnnl::memory;

// Never destroyed: objects in other translation units may outlive a static of this one.
const dnnl::engine& Engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

memory::data_type TypeOf(DType dtype) {
  return dtype == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc Matrix(int64_t rows, int64_t columns, DType dtype, bool transposed,
                    int64_t stride = 0) {
  const memory::dims sizes = {rows, columns};
  if (stride == 0) {
    return {sizes, TypeOf(dtype), transposed ? memory::format_tag::ba : memory::format_tag::ab};
  }
  return {sizes, TypeOf(dtype), transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

// oneDNN 2.x writes its code to where its allocations have failed. The first product takes 24 MiB
// for all that products share, later ones less than 2.
constexpr size_t kRoomForCode = size_t{32} << 20U;

void CheckRoomForCode() {
  if (!HasAddressSpace(kRoomForCode)) throw OutOfMemory(kRoomForCode);
}

// For errors other than memory that has run out: those cannot occur once a product has been made.
[[noreturn]] void Fail(dnnl_status_t status, const MatmulShape& s, const char* doing) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  std::fprintf(stderr, "oneDNN: cannot %s [%lld, %lld] x [%lld, %lld] in %s\n", doing,
               static_cast<long long>(s.m), static_cast<long long>(s.k),
               static_cast<long long>(s.k), static_cast<long long>(s.n), DTypeName(s.a_dtype));
  std::abort();
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

memory::desc Residual(const MatmulShape& s) {
  return Matrix(s.m, s.n, s.residual_fp32 ? DType::kFloat32 : s.c_dtype, false);
}

dnnl::matmul::primitive_desc Describe(const MatmulShape& s, const memory::desc& b) {
  const memory::desc a = Matrix(s.m, s.k, s.a_dtype, s.a_transposed, s.a_stride);
  const memory::desc c = Matrix(s.m, s.n, s.c_dtype, false);
  dnnl::primitive_attr attributes = UserScratchpad();
  dnnl::post_ops after;
  if (s.residual) after.append_binary(dnnl::algorithm::binary_add, Residual(s));
  if (s.accumulate) after.append_sum(1.0f);
  attributes.set_post_ops(after);
  const auto desc = s.bias ? dnnl::matmul::desc(a, b, Matrix(1, s.n, DType::kFloat32, false), c)
                           : dnnl::matmul::desc(a, b, c);
  return {desc, attributes, Engine()};
}

memory::desc LayoutOfB(const MatmulShape& s) {
  if (!s.b_packed) return Matrix(s.k, s.n, s.b_dtype, s.b_transposed, s.b_stride);
  return {{s.k, s.n}, TypeOf(s.b_dtype), memory::format_tag::any};
}

memory Unbound(const memory::desc& desc) { return {desc, Engine(), DNNL_MEMORY_NONE}; }

// Setting a handle zeroes the padding of a blocked layout, so it is set only where it has changed.
void Bind(const memory& m, const void* data) {
  void* bound = nullptr;
  dnnl_memory_get_data_handle(m.get(), &bound);
  if (bound != data) dnnl_memory_set_data_handle(m.get(), const_cast<void*>(data));
}

// oneDNN represents an instruction set as the bits of all the sets that it includes.
bool MayUse(dnnl::cpu_isa set) {
  const auto needed = static_cast<unsigned>(set);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

// AMD's processors multiply pairs twice as fast as fp32 values, as Intel says of its Cooper Lake.
// Intel's later ones, which have AMX, do so at half the speed: 86 against 172 GFLOP/s per core of
// an Emerald Rapids whose AMX a virtual machine hides. Processes do not measure it, since ranks on
// the same processor must not differ.
bool HasFastPairs() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") == 0 || __builtin_cpu_is("cooperlake") != 0;
#else
  return true;
#endif
}

constexpr int64_t kLongestTileSum = 65'536;

}  // namespace

bool HasPairs() { return MayUse(dnnl::cpu_isa::avx512_core_bf16); }

bool HasTiles() { return MayUse(dnnl::cpu_isa::avx512_core_amx); }

bool MultipliesBFloat16() { return HasTiles() || (HasPairs() && HasFastPairs()); }

Matmul::Matmul(const MatmulShape& shape, const Matmul* packed_like) : shape_(shape) {
  CheckRoomForCode();
  stream_ = dnnl::stream(Engine());
  const auto chosen =
      Describe(shape, packed_like == nullptr ? LayoutOfB(shape) : packed_like->b_.get_desc());
  primitive_ = dnnl::matmul(chosen);
  scratchpad_bytes_ = chosen.scratchpad_desc().get_size();
  a_ = Unbound(chosen.src_desc());
  b_ = Unbound(chosen.weights_desc());
  c_ = Unbound(chosen.dst_desc());
  scratchpad_ = Unbound(chosen.scratchpad_desc());
  if (shape.bias) bias_ = Unbound(chosen.bias_desc());
  if (shape.residual) residual_ = Unbound(Residual(shape));
  if (shape.b_packed) PreparePacking(chosen.weights_desc().get_size());
}

void Matmul::PreparePacking(size_t bytes) {
  packed_bytes_ = bytes;
  const memory::desc pairs({shape_.k, shape_.n}, memory::data_type::bf16,
                           memory::format_tag::BA16a64b2a);
  packs_pairs_ = b_.get_desc() == pairs;
  if (packs_pairs_) return;
  unpacked_b_ =
      Unbound(Matrix(shape_.k, shape_.n, DType::kFloat32, shape_.b_transposed, shape_.b_stride));
  const dnnl::reorder::primitive_desc packing(Engine(), unpacked_b_.get_desc(), Engine(),
                                              b_.get_desc(), UserScratchpad());
  if (packing.scratchpad_desc().get_size() > 0)
    throw dnnl::error(dnnl_unimplemented, "no packing without a work area");
  pack_ = dnnl::reorder(packing);
}

void Matmul::Pack(const float* b, void* packed) {
  if (packs_pairs_) {
    const int64_t rows = shape_.b_transposed ? shape_.n : shape_.k;
    const int64_t columns = shape_.b_transposed ? shape_.k : shape_.n;
    const int64_t stride = shape_.b_stride == 0 ? columns : shape_.b_stride;
    PackPairs({.rows = rows, .columns = columns, .stride = stride, .data = b}, shape_.b_transposed,
              packed);
    return;
  }
  Bind(unpacked_b_, b);
  Bind(b_, packed);
  const std::array<dnnl_exec_arg_t, 2> arguments = {
      {{DNNL_ARG_FROM, unpacked_b_.get()}, {DNNL_ARG_TO, b_.get()}}};
  const dnnl_status_t status = dnnl_primitive_execute(
      pack_.get(), stream_.get(), static_cast<int>(arguments.size()), arguments.data());
  if (status != dnnl_success) Fail(status, shape_, "pack");
}

void Matmul::Run(const void* a, const void* b, const float* bias, const void* residual, void* c,
                 void* scratchpad) {
  std::array<dnnl_exec_arg_t, 6> arguments;
  int count = 0;
  const auto pass = [&](int argument, const memory& m, const void* data) {
    Bind(m, data);
    arguments[static_cast<size_t>(count++)] = {argument, m.get()};
  };
  pass(DNNL_ARG_SRC, a_, a);
  pass(DNNL_ARG_WEIGHTS, b_, b);
  pass(DNNL_ARG_DST, c_, c);
  if (shape_.bias) pass(DNNL_ARG_BIAS, bias_, bias);
  if (shape_.residual) {
    pass(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, residual_, residual);
  }
  if (scratchpad_bytes_ > 0) pass(DNNL_ARG_SCRATCHPAD, scratchpad_, scratchpad);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_.get(), count, arguments.data());
  if (status != dnnl_success) Fail(status, shape_, "run");
}

std::vector<int64_t> SumParts(int64_t k, int64_t longest) {
  constexpr int64_t kMultiple = 64;
  const int64_t count = (k + longest - 1) / longest;
  const int64_t each = ((k + count - 1) / count + kMultiple - 1) / kMultiple * kMultiple;
  std::vector<int64_t> parts;
  for (int64_t at = 0; at < k; at += each) parts.push_back(std::min(each, k - at));
  return parts;
}

SummedMatmul::SummedMatmul(const MatmulShape& shape)
    : b_packed_(shape.b_packed), b_bytes_(SizeOf(shape.b_dtype)) {
  const bool by_tiles = shape.a_dtype == DType::kBFloat16 && HasTiles();
  const std::vector<int64_t> lengths = SumParts(shape.k, by_tiles ? kLongestTileSum : shape.k);
  parts_.reserve(lengths.size());
  if (lengths.size() == 1) {
    parts_.push_back({.product = Matmul(shape)});
    return;
  }
  constexpr size_t kAlignment = 64;
  const size_t sums = static_cast<size_t>(shape.m * shape.n) * sizeof(float);
  sums_bytes_ = (sums + kAlignment - 1) / kAlignment * kAlignment;
  int64_t from = 0;
  size_t packed = 0;
  for (const int64_t length : lengths) {
    MatmulShape part = shape;
    part.k = length;
    part.a_stride = shape.k;
    if (shape.b_transposed) part.b_stride = shape.k;
    if (from + length < shape.k) {
      part.c_dtype = DType::kFloat32;
      part.accumulate = from > 0;
    } else {
      part.residual = part.residual_fp32 = true;
    }
    const int64_t before = shape.b_transposed ? from : from * shape.n;
    parts_.push_back({.product = Matmul(part),
                      .a = static_cast<size_t>(from * SizeOf(shape.a_dtype)),
                      .packed_b = packed,
                      .b = before});
    packed += parts_.back().product.packed_bytes();
    from += length;
  }
}

size_t SummedMatmul::scratchpad_bytes() const {
  size_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.product.scratchpad_bytes());
  return sums_bytes_ + most;
}

size_t SummedMatmul::packed_bytes() const {
  return parts_.back().packed_b + parts_.back().product.packed_bytes();
}

void SummedMatmul::Pack(const float* b, void* packed) {
  for (Part& part : parts_) {
    part.product.Pack(b + part.b, static_cast<char*>(packed) + part.packed_b);
  }
}

void SummedMatmul::Run(const void* a, const void* b, void* c, void* scratchpad) {
  auto* const sums = static_cast<char*>(scratchpad);
  for (Part& part : parts_) {
    const bool last = &part == &parts_.back();
    part.product.Run(static_cast<const char*>(a) + part.a,
                     static_cast<const char*>(b) +
                         (b_packed_ ? part.packed_b : static_cast<size_t>(part.b * b_bytes_)),
                     nullptr, sums, last ? c : sums, sums + sums_bytes_);
  }
}

}  // namespace sluice::cpu
