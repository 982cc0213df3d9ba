#ifndef SLUICE_TOOLS_TRAIN_BF16_NOTE_H_
#define SLUICE_TOOLS_TRAIN_BF16_NOTE_H_

#include <string>

#include "models/spec/dtype.h"

namespace sluice {

// Prints one line on stderr where products in `dtype` are no faster on `device` ("cpu" or "cuda")
// than in fp32: bf16 on a processor without fast instructions for it.
void NoteSlowBFloat16(const std::string& device, DType dtype);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_BF16_NOTE_H_
