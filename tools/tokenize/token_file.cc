#include "tools/tokenize/token_file.h"

#include "models/data/corpora/token_file.h"
#include "tools/files.h"

namespace sluice {

int TokenBytes(int32_t vocabulary_size) {
  return static_cast<int>(BytesOf(RawTokenWidth(vocabulary_size)));
}

absl::Status WriteTokens(const std::string& path, absl::Span<const int32_t> tokens,
                         int32_t vocabulary_size) {
  const int bytes = TokenBytes(vocabulary_size);
  std::string file;
  file.reserve(tokens.size() * bytes);
  for (const int32_t token : tokens) {
    const auto bits = static_cast<uint32_t>(token);
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<char>(bits >> 8 * i & 0xFF));
  }
  return WriteOutput(path, file);
}

}  // namespace sluice
