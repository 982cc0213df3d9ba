#include "models/kernels/cudnn/library.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "models/device/cuda_libraries.h"

namespace sluice::cudnn {
namespace {

constexpr absl::string_view kFiles[] = {"libcudnn.so.9"};
// 9.10.0: the first version in which minus infinity masks scores.
constexpr int64_t kLeastVersion = 91000;

absl::StatusOr<Library> Load() {
  const absl::StatusOr<CudaLibrary> library = CudaLibrary::Open("cuDNN", kFiles);
  if (!library.ok()) return library.status();
  Library functions;
  absl::Status status;
  const auto find = [&](const char* symbol, auto* function) {
    status.Update(library->Find(symbol, function));
  };
  find("cudnnGetVersion", &functions.version);
  find("cudnnGetErrorString", &functions.error_string);
  find("cudnnGetLastErrorString", &functions.last_error);
  find("cudnnCreate", &functions.create);
  find("cudnnSetStream", &functions.set_stream);
  find("cudnnBackendCreateDescriptor", &functions.create_descriptor);
  find("cudnnBackendDestroyDescriptor", &functions.destroy_descriptor);
  find("cudnnBackendSetAttribute", &functions.set_attribute);
  find("cudnnBackendGetAttribute", &functions.get_attribute);
  find("cudnnBackendFinalize", &functions.finalize);
  find("cudnnBackendExecute", &functions.execute);
  if (!status.ok()) return status;
  functions.path = library->path();
  if (const auto version = static_cast<int64_t>(functions.version()); version < kLeastVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(functions.path, " is cuDNN ", LibraryVersionName(version),
                     "; attention needs ", LibraryVersionName(kLeastVersion), " or later"));
  }
  return functions;
}

bool IsUnsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace

absl::Status Library::ToStatus(cudnnStatus_t status, absl::string_view what) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> detail = {};
  last_error(detail.data(), detail.size());
  const std::string text = absl::StrCat("cuDNN, ", what, ": ", error_string(status),
                                        detail[0] == '\0' ? "" : "; ", detail.data());
  if (IsUnsupported(status)) return absl::UnimplementedError(text);
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                 status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
             ? absl::ResourceExhaustedError(text)
             : absl::InternalError(text);
}

const absl::StatusOr<Library>& LoadLibrary() {
  static const auto* const library = new absl::StatusOr<Library>(Load());
  return *library;
}

}  // namespace sluice::cudnn
