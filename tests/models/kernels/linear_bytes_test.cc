// Memory is planned by PortableCpuKernels() for machines that are not here; CpuKernels() are to
// need just that, whatever the processor.
#include <gtest/gtest.h>
#include <omp.h>

#include <cstddef>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>

#include "models/kernels/portable_kernels.h"

namespace sluice {
namespace {

// Of an instruction set that oneDNN has other products for, or may one day, only bounds are known.
bool IsForetold() {
  const auto set = dnnl::get_effective_cpu_isa();
  return set != dnnl::cpu_isa::avx512_core_amx && set != dnnl::cpu_isa::all;
}

void ExpectForetold(size_t needed, size_t foretold, const char* what, const LinearShape& s) {
  SCOPED_TRACE(testing::Message() << what << " of " << DTypeName(s.dtype) << " [" << s.rows << ", "
                                  << s.in << "] x [" << s.in << ", " << s.out << "]");
  EXPECT_GE(needed, foretold) << "what is foretold is the least that is declared";
  if (IsForetold()) {
    EXPECT_EQ(needed, foretold);
  }
}

void ExpectForetold(const LinearShape& shape) {
  const auto here = CpuKernels().make_linear(shape);
  const auto plan = PortableCpuKernels().make_linear(shape);
  ExpectForetold(here->packed_bytes(), plan->packed_bytes(), "packed weights", shape);
  ExpectForetold(here->forward_workspace(), plan->forward_workspace(), "F", shape);
  ExpectForetold(here->input_grad_workspace(), plan->input_grad_workspace(), "I", shape);
  ExpectForetold(here->weight_grad_workspace(), plan->weight_grad_workspace(), "W", shape);
}

TEST(LinearBytesTest, AreForetoldWithoutTheProcessor) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 256, 8192}) {
      for (const int64_t in : {1, 99, 768, 3072}) {
        for (const int64_t out : {10, 192, 2304, 50'257}) {
          for (const bool transposed : {false, true}) {
            LinearShape shape = {.rows = rows,
                                 .in = in,
                                 .out = out,
                                 .dtype = dtype,
                                 .weight_transposed = transposed};
            ExpectForetold(shape);
            shape.add_input_grad = true;
            ExpectForetold(shape);
            shape.weight_dtype = dtype;
            ExpectForetold(shape);
          }
        }
      }
    }
  }
  omp_set_num_threads(before);
}

TEST(LinearBytesTest, AreThoseOfTheShape) {
  const auto bytes_of = [](DType dtype) {
    return PortableCpuKernels().make_linear({.rows = 4, .in = 100, .out = 70, .dtype = dtype});
  };
  EXPECT_EQ(bytes_of(DType::kFloat32)->packed_bytes(), 0u);
  // Two copies in bf16, in blocks of 32 x 64.
  EXPECT_EQ(bytes_of(DType::kBFloat16)->packed_bytes(), 2u * (128 * 128 + 96 * 128));
}

}  // namespace
}  // namespace sluice
