#ifndef SLUICE_MODELS_DATA_CORPORA_READ_STATUS_H_
#define SLUICE_MODELS_DATA_CORPORA_READ_STATUS_H_

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "models/data/corpora/token_source.h"

namespace sluice {

// Keeps the first failure of reading, and goes on with zeros: what Dataset::status returns. Any
// thread.
class ReadStatus {
 public:
  void Read(const TokenSource& source, int64_t begin, absl::Span<int32_t> out) const {
    const absl::Status status = source.Read(begin, out);
    if (status.ok()) return;
    std::fill(out.begin(), out.end(), 0);
    Update(status);
  }
  uint64_t Checksum(const TokenSource& source) const {
    const absl::StatusOr<uint64_t> checksum = source.Checksum();
    if (!checksum.ok()) Update(checksum.status());
    return checksum.value_or(0);
  }
  absl::Status Get() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  void Update(const absl::Status& status) const {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
  }

  mutable std::mutex mutex_;
  mutable absl::Status status_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_CORPORA_READ_STATUS_H_
