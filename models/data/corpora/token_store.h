#ifndef SLUICE_MODELS_DATA_CORPORA_TOKEN_STORE_H_
#define SLUICE_MODELS_DATA_CORPORA_TOKEN_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/data/corpora/token_source.h"

namespace sluice {

// Tokens that were made while data were opened, any int32. They are kept in memory up to `in_memory`
// of them (256 MiB), beyond that in a file without a name in the folder for temporary files (TMPDIR,
// else /tmp), which ends with the process, however that ends.
class TokenStore {
 public:
  static constexpr int64_t kInMemory = int64_t{64} << 20;
  explicit TokenStore(int64_t in_memory = kInMemory) : in_memory_(in_memory) {}
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  // Errors of the file system name the folder.
  absl::Status Append(absl::Span<const int32_t> tokens);
  int64_t size() const { return written_ + static_cast<int64_t>(held_.size()); }
  // All that was appended. The store is empty afterwards.
  absl::StatusOr<std::unique_ptr<TokenSource>> Finish();

 private:
  absl::Status Spill();

  const int64_t in_memory_;
  std::vector<int32_t> held_;  // what the file does not have
  int64_t written_ = 0;        // tokens in the file
  int fd_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_CORPORA_TOKEN_STORE_H_
