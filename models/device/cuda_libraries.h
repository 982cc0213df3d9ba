#ifndef SLUICE_MODELS_DEVICE_CUDA_LIBRARIES_H_
#define SLUICE_MODELS_DEVICE_CUDA_LIBRARIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

// NVIDIA's libraries beside the driver (cuBLASLt, NCCL) are loaded when they are needed, so that
// one binary runs without them, and also with those of a Python environment.
namespace sluice {

// Folders that are searched, in this order; an empty one stands for the loader's own path:
// SLUICE_CUDA_LIBRARIES (a list with colons), the loader's path, /usr/local/cuda*/lib64, and the
// NVIDIA packages of `python_paths` (python3's sys.path).
std::vector<std::string> CudaLibraryFolders(absl::string_view environment,
                                            absl::Span<const std::string> python_paths);

// "2.28.9", from 22809: the numbering of NCCL (since 2.9) and cuDNN (since 9.0).
std::string LibraryVersionName(int64_t version);

// A library that is loaded and stays loaded.
class CudaLibrary {
 public:
  // The first of `files` ("libnccl.so.2") in the first folder that has one. NotFound: "missing
  // NAME: looked for FILES in ...". Starts python3 only where no other folder has it.
  static absl::StatusOr<CudaLibrary> Open(absl::string_view name,
                                          absl::Span<const absl::string_view> files);

  const std::string& path() const { return path_; }
  // NotFound where the library has no such function: it is too old.
  template <class Function>
  absl::Status Find(const char* symbol, Function** function) const {
    absl::StatusOr<void*> address = Address(symbol);
    if (!address.ok()) return address.status();
    *function = reinterpret_cast<Function*>(*address);
    return absl::OkStatus();
  }

 private:
  CudaLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  absl::StatusOr<void*> Address(const char* symbol) const;

  void* handle_;
  std::string path_;  // the path that the loader gives
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_LIBRARIES_H_
