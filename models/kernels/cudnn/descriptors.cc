#include "models/kernels/cudnn/descriptors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice::cudnn {

Descriptors::~Descriptors() {
  // Those that were made of others first.
  for (size_t i = owned_.size(); i-- > 0;) library_.destroy_descriptor(owned_[i]);
}

void Descriptors::Check(cudnnStatus_t status, absl::string_view what) {
  if (status_.ok()) status_ = library_.ToStatus(status, what);
}

cudnnBackendDescriptor_t Descriptors::New(cudnnBackendDescriptorType_t type) {
  if (!status_.ok()) return nullptr;
  cudnnBackendDescriptor_t made = nullptr;
  Check(library_.create_descriptor(type, &made), absl::StrCat("a descriptor of type ", int{type}));
  if (status_.ok()) owned_.push_back(made);
  return made;
}

void Descriptors::Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (!status_.ok()) return;
  Check(library_.set_attribute(of, name, type, count, values),
        absl::StrCat("setting attribute ", int{name}));
}

void Descriptors::Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                      cudnnBackendDescriptor_t value) {
  Set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void Descriptors::Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                      int64_t value) {
  Set(of, name, CUDNN_TYPE_INT64, 1, &value);
}

void Descriptors::Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, bool value) {
  Set(of, name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void Descriptors::Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                      cudnnDataType_t value) {
  Set(of, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void Descriptors::Set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                      cudnnHandle_t value) {
  Set(of, name, CUDNN_TYPE_HANDLE, 1, &value);
}

void Descriptors::Finish(cudnnBackendDescriptor_t descriptor, absl::string_view what) {
  if (status_.ok()) Check(library_.finalize(descriptor), what);
}

int64_t Descriptors::GetInt(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name) {
  if (!status_.ok()) return 0;
  int64_t value = 0, count = 0;
  Check(library_.get_attribute(of, name, CUDNN_TYPE_INT64, 1, &count, &value),
        absl::StrCat("reading attribute ", int{name}));
  return value;
}

std::vector<cudnnBackendDescriptor_t> Descriptors::GetDescriptors(cudnnBackendDescriptor_t of,
                                                                  cudnnBackendAttributeName_t name,
                                                                  cudnnBackendDescriptorType_t type,
                                                                  int64_t most) {
  std::vector<cudnnBackendDescriptor_t> found;
  for (int64_t i = 0; i < most; ++i) found.push_back(New(type));
  if (!status_.ok()) return {};
  int64_t count = 0;
  Check(library_.get_attribute(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, found.data()),
        absl::StrCat("reading attribute ", int{name}));
  if (!status_.ok()) return {};
  found.resize(static_cast<size_t>(std::min(count, most)));
  return found;
}

std::vector<cudnnBackendNumericalNote_t> Descriptors::GetNotes(cudnnBackendDescriptor_t engine) {
  if (!status_.ok()) return {};
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  int64_t count = 0;
  Check(library_.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               static_cast<int64_t>(notes.size()), &count, notes.data()),
        "reading an engine's notes");
  notes.resize(static_cast<size_t>(count));
  return notes;
}

}  // namespace sluice::cudnn
