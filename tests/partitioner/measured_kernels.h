#ifndef SLUICE_TESTS_PARTITIONER_MEASURED_KERNELS_H_
#define SLUICE_TESTS_PARTITIONER_MEASURED_KERNELS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/kernels/record/kernel_launch.h"

namespace sluice {

// One kind of kernels in a step of GPT-2 124M on an H200 (bench/results/gpu_check_h200.json).
struct MeasuredKind {
  int launches = 0;
  double seconds = 0;
};

struct MeasuredStep {
  std::map<KernelKind, MeasuredKind> kinds;
  // Of cuBLASLt's products that it divides along k: sums of the parts, a choice of its own.
  MeasuredKind split_sums;
  int launches = 0;
  double seconds = 0;
  double mfu = 0;            // of a run of steps
  double cudnn_seconds = 0;  // of a step with cuDNN's attention
};

// A kernel whose name belongs to no kind fails the test.
MeasuredStep ReadMeasuredStep();

// Of a step of GPT-2 1.5B, 4 micro-batches of 8 x 1024 (bench/results/gpt2_xl_h200.json).
double MedianSecondsOfGpt2Xl();

// Steps of GPT-2 124M that differ in nothing but CUDA graphs (bench/results/gpu_train_h200.json).
struct MeasuredGraphs {
  double one_by_one_seconds = 0;
  double graphs_seconds = 0;
};
MeasuredGraphs ReadMeasuredGraphs();

// A product of cuda_kernels_bench: one call of a Linear, in bf16, of fp32 weights.
struct MeasuredProduct {
  std::string pass;  // "forward", "input gradient", "weight gradient"
  bool gelu = false;
  int64_t rows = 0, in = 0, out = 0;
  double seconds = 0;
};
std::vector<MeasuredProduct> ReadMeasuredProducts();

// A row of cuda_attention_bench.
struct MeasuredAttention {
  std::string shape;  // "GPT-2 124M"
  bool cudnn = false;
  bool forward = false;
  double seconds = 0;
};
std::vector<MeasuredAttention> ReadMeasuredAttention();

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_MEASURED_KERNELS_H_
