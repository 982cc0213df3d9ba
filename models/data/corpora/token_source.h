#ifndef SLUICE_MODELS_DATA_CORPORA_TOKEN_SOURCE_H_
#define SLUICE_MODELS_DATA_CORPORA_TOKEN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/files/positioned_file.h"

namespace sluice {

// A sequence of tokens that is read piece by piece; it need not fit into memory. Any thread.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;  // tokens
  // Tokens `begin` to begin + out.size(). DataLoss where a file has shrunk, and InvalidArgument
  // where a token is not in the vocabulary, with the file and the place; `out` then holds anything.
  virtual absl::Status Read(int64_t begin, absl::Span<int32_t> out) const = 0;
  // FailedPrecondition where a file that Read reads has changed since it was opened.
  virtual absl::Status CheckUnchanged() const { return absl::OkStatus(); }
  // A checksum of all tokens (of a larger source 64 MiB, spread evenly over it).
  virtual absl::StatusOr<uint64_t> Checksum() const = 0;
};

// How a file keeps its tokens: little-endian whole numbers.
enum class TokenWidth : uint8_t { kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kInt64 };
int64_t BytesOf(TokenWidth width);

// Where the tokens of a file are.
struct TokenLayout {
  TokenWidth width = TokenWidth::kUint8;
  int64_t offset = 0;  // bytes in front of the first token
  int64_t tokens = 0;  // all of them lie in the file
};

// The tokens of `file`, which must lie in [0, vocabulary): whether they do is found out when they
// are read.
std::unique_ptr<TokenSource> MakeFileSource(PositionedFile file, const TokenLayout& layout,
                                            int32_t vocabulary);

// One source after another.
std::unique_ptr<TokenSource> Concatenate(std::vector<std::unique_ptr<TokenSource>> parts);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_CORPORA_TOKEN_SOURCE_H_
