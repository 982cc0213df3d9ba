#ifndef SLUICE_PARTITIONER_DEVICE_H_
#define SLUICE_PARTITIONER_DEVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec_dtype.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// What one device sustains, for analytic costs: not the data sheet's peak but what real layers
// reach.
struct DeviceSpec {
  std::string name;
  std::string source;     // where the numbers come from
  double fp32_flops = 0;  // FLOP/s of matrix products
  double bf16_flops = 0;
  double memory_bandwidth = 0;  // bytes/s
  int64_t memory_bytes = 0;     // 0: unknown, so no limit unless one is asked for
  Link link;                    // to a neighbouring device

  double flops(DType dtype) const { return dtype == DType::kBFloat16 ? bf16_flops : fp32_flops; }
};

// "a100" and "h200". NotFound lists them.
absl::StatusOr<DeviceSpec> BuiltInDevice(absl::string_view name);

// {"name": "x", "fp32_flops": 1e13, "bf16_flops": 2e14, "memory_bandwidth": 1e12, "memory_bytes":
// 8e10,
//  "link_bandwidth": 1e10, "link_latency": 5e-6}; the last three may be left out. InvalidArgument
//  names `file` and the
// field that is missing, unknown, or not a positive number.
absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view json, absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_DEVICE_H_
