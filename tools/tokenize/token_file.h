#ifndef SLUICE_TOOLS_TOKENIZE_TOKEN_FILE_H_
#define SLUICE_TOOLS_TOKENIZE_TOKEN_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

// How many bytes a token has in a file without a header: 2 where the vocabulary has at most 65,536
// words, else 4.
int TokenBytes(int32_t vocabulary_size);

// Writes tokens, little-endian, without a header. All are at least 0 and below `vocabulary_size`.
// InvalidArgument names the file.
absl::Status WriteTokens(const std::string& path, absl::Span<const int32_t> tokens,
                         int32_t vocabulary_size);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TOKENIZE_TOKEN_FILE_H_
