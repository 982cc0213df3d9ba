#ifndef SLUICE_MODELS_KERNELS_CUDNN_LIBRARY_H_
#define SLUICE_MODELS_KERNELS_CUDNN_LIBRARY_H_

#include <cudnn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::cudnn {

// cuDNN's functions, from the library that is found at run time.
struct Library {
  decltype(::cudnnGetVersion)* version = nullptr;
  decltype(::cudnnGetErrorString)* error_string = nullptr;
  decltype(::cudnnGetLastErrorString)* last_error = nullptr;
  decltype(::cudnnCreate)* create = nullptr;
  decltype(::cudnnSetStream)* set_stream = nullptr;
  decltype(::cudnnBackendCreateDescriptor)* create_descriptor = nullptr;
  decltype(::cudnnBackendDestroyDescriptor)* destroy_descriptor = nullptr;
  decltype(::cudnnBackendSetAttribute)* set_attribute = nullptr;
  decltype(::cudnnBackendGetAttribute)* get_attribute = nullptr;
  decltype(::cudnnBackendFinalize)* finalize = nullptr;
  decltype(::cudnnBackendExecute)* execute = nullptr;
  std::string path;

  // Internal, or ResourceExhausted: "cuDNN, WHAT: " and its message. Unimplemented: cuDNN does not
  // support the request.
  absl::Status ToStatus(cudnnStatus_t status, absl::string_view what) const;
};

// Loaded at the first call, and once. NotFound says where it was looked for; FailedPrecondition
// where it is older than the engines that are needed.
const absl::StatusOr<Library>& LoadLibrary();

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_LIBRARY_H_
