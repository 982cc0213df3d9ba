#include "tools/train/bf16_note.h"

#include <iostream>

#include "models/kernels/portable_kernels.h"

namespace sluice {

void NoteSlowBFloat16(const std::string& device, DType dtype) {
  if (device != "cpu" || dtype != DType::kBFloat16 || CpuMultipliesBFloat16()) return;
  std::cerr << "sluice: note: this processor has no bf16 arithmetic (AVX-512 BF16 or AMX): bf16 "
               "products are computed in fp32, slower than with --dtype fp32\n";
}

}  // namespace sluice
