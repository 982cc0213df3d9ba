#ifndef SLUICE_MODELS_KERNELS_CUDNN_DESCRIPTORS_H_
#define SLUICE_MODELS_KERNELS_CUDNN_DESCRIPTORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/kernels/cudnn/library.h"

namespace sluice::cudnn {

// Makes cuDNN's descriptors, which live as long as this object. After the first failure it does
// nothing, so that only the last step needs to look at status().
class Descriptors {
 public:
  explicit Descriptors(const Library& library) : library_(library) {}
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  const absl::Status& status() const { return status_; }

  cudnnBackendDescriptor_t New(cudnnBackendDescriptorType_t type);
  void Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, int64_t count, const void* values);
  void Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
           cudnnBackendDescriptor_t value);
  void Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, int64_t value);
  void Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, bool value);
  void Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, cudnnHandle_t value);
  // `what` names the descriptor in the message of a failure.
  void Finish(cudnnBackendDescriptor_t descriptor, absl::string_view what);

  // The value of an attribute; 0 where cuDNN does not give it.
  int64_t GetInt(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name);
  // Up to `most` descriptors of one type, which this object then owns.
  std::vector<cudnnBackendDescriptor_t> GetDescriptors(cudnnBackendDescriptor_t of,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendDescriptorType_t type,
                                                       int64_t most);
  std::vector<cudnnBackendNumericalNote_t> GetNotes(cudnnBackendDescriptor_t engine);

 private:
  void Check(cudnnStatus_t status, absl::string_view what);

  const Library& library_;
  absl::Status status_;
  std::vector<cudnnBackendDescriptor_t> owned_;
};

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_DESCRIPTORS_H_
