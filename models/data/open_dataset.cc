#include "models/data/open_dataset.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/data/idx.h"
#include "models/data/sources.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const std::string& path, int64_t seq,
                                                     uint64_t seed, Bytes bytes) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the data '", path, "'"));
  }
  if (S_ISDIR(info.st_mode)) return OpenImageDataset(path, seed);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is neither a file nor a directory; expected text or IDX images"));
  }
  const bool named_idx = path.find("idx3-ubyte") != std::string::npos;
  if (named_idx || LooksLikeIdx(path)) return OpenImageDataset(path, seed);
  if (bytes == Bytes::kOfText) {
    if (absl::Status status = CheckIsText(path); !status.ok()) return status;
  }
  return OpenTextDataset(path, seq, seed);
}

}  // namespace sluice
