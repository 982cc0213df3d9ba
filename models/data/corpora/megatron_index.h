#ifndef SLUICE_MODELS_DATA_CORPORA_MEGATRON_INDEX_H_
#define SLUICE_MODELS_DATA_CORPORA_MEGATRON_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/corpora/token_source.h"

namespace sluice {

// What the .idx beside Megatron's .bin says (Megatron-LM,
// megatron/core/datasets/indexed_dataset.py).
struct MegatronIndex {
  TokenWidth width = TokenWidth::kUint16;
  int64_t tokens = 0;
  std::vector<int64_t> documents;  // where each begins, in tokens, and at last `tokens`
};

// Reads "MMIDIDX\0\0", the version 1 (uint64), the code of the type of a token (a byte: 1 uint8,
// 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16), the numbers of sequences and of boundaries of
// documents (uint64), the tokens (int32) and the first byte (int64) of each sequence, and the first
// sequence of each document (int64), at last the number of sequences, which some writers leave out.
// The sequences must lie in the .bin one after another, as Megatron's tools write them.
// InvalidArgument and DataLoss name the file, the field, what was found and what was expected.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_CORPORA_MEGATRON_INDEX_H_
