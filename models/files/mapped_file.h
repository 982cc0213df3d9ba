#ifndef SLUICE_MODELS_FILES_MAPPED_FILE_H_
#define SLUICE_MODELS_FILES_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

// A whole regular file, mapped read-only; its pages are shared by every process that maps it. The
// file must not be truncated while it is mapped (replacing it by a rename is fine).
class MappedFile {
 public:
  // NotFound, PermissionDenied or InvalidArgument (a directory, a device) name the file. An empty
  // file is fine.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_MAPPED_FILE_H_
