#ifndef SLUICE_PIPELINE_TRAIN_ARITHMETIC_H_
#define SLUICE_PIPELINE_TRAIN_ARITHMETIC_H_

#include <string>

#include "pipeline/train/run.h"

namespace sluice {

// What computes a run in this process and decides its bits beside all settings, for people: "oneDNN
// with AVX-512 with bf16, vectors with AVX2", or the names of its GPUs.
std::string ArithmeticOf(const TrainOptions& options);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_ARITHMETIC_H_
