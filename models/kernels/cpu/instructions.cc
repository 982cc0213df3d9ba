#include "models/kernels/portable_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/instructions.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

int64_t Target() { return HWY_TARGET; }

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <oneapi/dnnl/dnnl.hpp>

namespace sluice {
namespace cpu {

HWY_EXPORT(Target);

}  // namespace cpu

std::string VectorInstructions() {
  using namespace cpu;  // NOLINT(google-build-using-namespace): the macro's table is there
  const int64_t target = HWY_DYNAMIC_DISPATCH(Target)();
  return target == HWY_AVX3 ? "AVX-512" : hwy::TargetName(target);
}

std::string ProductInstructions() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2 with VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      // Products in fp32 are the same with both.
      return CpuMultipliesBFloat16() ? "AVX-512 with bf16" : "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AVX-512 with AMX";
    default:
      return "a generic instruction set";
  }
}

}  // namespace sluice
#endif
