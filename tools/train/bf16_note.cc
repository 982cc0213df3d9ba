#include "tools/train/bf16_note.h"

#include "models/kernels/portable_kernels.h"
#include "tools/command.h"

namespace sluice {

void NoteSlowBFloat16(const std::string& device, DType dtype) {
  if (device != "cpu" || dtype != DType::kBFloat16 || CpuMultipliesBFloat16()) return;
  PrintNotice(
      "note: this processor has no fast bf16 arithmetic (AMX, or AVX-512 BF16 at full speed): bf16 "
      "products are computed in fp32, no faster than with --dtype fp32");
}

}  // namespace sluice
