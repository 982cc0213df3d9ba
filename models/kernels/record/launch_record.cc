#include "models/kernels/record/launch_record.h"

#include <cassert>

namespace sluice {
namespace {

thread_local LaunchRecord* record_now = nullptr;

}  // namespace

LaunchRecord::LaunchRecord() {
  assert(record_now == nullptr);
  record_now = this;
}

LaunchRecord::~LaunchRecord() { record_now = nullptr; }

void LaunchRecord::Add(const KernelLaunch& launch) {
  assert(record_now != nullptr);
  record_now->launches_.push_back(launch);
}

}  // namespace sluice
