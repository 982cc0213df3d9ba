#ifndef SLUICE_PARTITIONER_COSTS_DEVICE_H_
#define SLUICE_PARTITIONER_COSTS_DEVICE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/dtype.h"
#include "partitioner/costs/link.h"

namespace sluice {

// One device, for analytic costs: rates, and what real kernels reach of them. Data-sheet peaks with
// efficiencies below 1, or sustained rates with the efficiencies left at 1.
struct DeviceSpec {
  std::string name;
  std::string source;     // where the numbers come from
  double fp32_flops = 0;  // FLOP/s of matrix products
  double bf16_flops = 0;
  double memory_bandwidth = 0;  // bytes/s
  int64_t memory_bytes = 0;     // 0: unknown, so no limit unless one is asked for
  Link link;                    // to a neighbouring device

  // Of flops, what a product reaches that is large in all three dimensions.
  double product_efficiency = 1;
  // The size of a dimension at which a product, large in the other two, runs at half of that: tiles
  // are partly empty, and a short inner dimension does not hide the loading of the tiles.
  double product_half_size = 0;
  double memory_efficiency = 1;  // of memory_bandwidth, what element-wise kernels reach
  double kernel_overhead = 0;    // seconds between two kernels
  // A GPU of which sluice's own kernels are priced one by one (planning/roofline), by what they
  // reached on an H200, and not by these shares.
  bool has_kernel_rates = false;

  double flops(DType dtype) const { return dtype == DType::kBFloat16 ? bf16_flops : fp32_flops; }
  // 2 rows out in / rate, rate = flops * product_efficiency / (1 + half_size (1/rows + 1/out +
  // 1/in)). The three must be above 0.
  double ProductSeconds(DType dtype, double rows, double out, double in) const;
  double MemorySeconds(double bytes) const {
    return bytes / (memory_bandwidth * memory_efficiency);
  }
};

// "a100" (80 GB), "h100", "mi300x", ...: those whose data sheets are known.
std::vector<absl::string_view> BuiltInDeviceNames();
// One of these. NotFound lists them.
absl::StatusOr<DeviceSpec> BuiltInDevice(absl::string_view name);
// The same as its data sheet promises: nothing taken off for what kernels and links reach.
absl::StatusOr<DeviceSpec> DataSheetDevice(absl::string_view name);

// {"name": "x", "fp32_flops": 1e13, "bf16_flops": 2e14, "memory_bandwidth": 1e12,
//  "memory_bytes": 8e10, "link_bandwidth": 1e10, "link_latency": 5e-6, "product_efficiency": 0.8,
//  "product_half_size": 128, "memory_efficiency": 0.8, "kernel_overhead": 5e-6}
// All from memory_bytes on may be left out: without efficiencies, the rates are sustained ones.
// InvalidArgument names `file` and the field that is missing, unknown, or out of range.
absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view json, absl::string_view file);
// What ParseDevice reads.
nlohmann::ordered_json DeviceToJson(const DeviceSpec& device);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_DEVICE_H_
