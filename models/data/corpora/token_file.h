#ifndef SLUICE_MODELS_DATA_CORPORA_TOKEN_FILE_H_
#define SLUICE_MODELS_DATA_CORPORA_TOKEN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/corpora/token_source.h"

namespace sluice {

// A file of tokens.
struct TokenFile {
  std::unique_ptr<TokenSource> tokens;
  // Of Megatron's: where each document begins, and at last the number of tokens; empty: not said.
  std::vector<int64_t> documents;
};

// Opens a .bin: Megatron's where an .idx of the same name is beside it (megatron_index.h); llm.c's
// where it begins with that format's magic (llm.c, dev/data/data_common.py: a header of 256 int32,
// the magic 20240520 with version 1 in front of uint16 tokens, 20240801 with version 7 in front of
// uint32 tokens, and their number); else nanoGPT's: tokens alone, uint16 where the vocabulary has at
// most 65,536 words, else uint32. InvalidArgument and DataLoss name the file, the field, what was
// found and what was expected.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, int32_t vocabulary);

// The width of tokens in a file without a header.
TokenWidth RawTokenWidth(int32_t vocabulary);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_CORPORA_TOKEN_FILE_H_
