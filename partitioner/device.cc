#include "partitioner/device.h"

#include <array>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "partitioner/json_fields.h"

namespace sluice {
namespace {

// What transformer layers reach of the data sheet's dense peak. Korthikanti et al. 2022, table
// 5: 41.5 % to 57.0 % of an A100's bf16 peak for models of 22 to 1000 billion parameters, pipeline
// bubbles and tensor parallelism included.
constexpr double kProductEfficiency = 0.55;
// What streaming kernels reach of the memory's peak (BabelStream on these devices: 85-92 %).
constexpr double kMemoryEfficiency = 0.85;
constexpr double kTera = 1e12, kGiga = 1e9;
// One hop of a small message between neighbouring GPUs.
constexpr double kNvLinkLatency = 5e-6;

DeviceSpec FromDataSheet(const char* name, const char* source, double fp32_tflops,
                         double bf16_tflops, double memory_tbs, double memory_gb,
                         double nvlink_gbs) {
  DeviceSpec device;
  device.name = name;
  device.source = source;
  device.fp32_flops = kProductEfficiency * fp32_tflops * kTera;
  device.bf16_flops = kProductEfficiency * bf16_tflops * kTera;
  device.memory_bandwidth = kMemoryEfficiency * memory_tbs * kTera;
  device.memory_bytes = static_cast<int64_t>(memory_gb * kGiga);
  device.link = {kNvLinkLatency, nvlink_gbs * kGiga};
  return device;
}

// NVLink figures are one direction: half of what data sheets print.
std::vector<DeviceSpec> BuiltInDevices() {
  return {
      FromDataSheet("a100",
                    "NVIDIA A100 80GB SXM data sheet, 2021: 19.5 / 312 TFLOP/s dense at 55 %", 19.5,
                    312, 2.039, 80, 300),
      FromDataSheet("h200", "NVIDIA H200 SXM data sheet, 2024: 67 / 989 TFLOP/s dense at 55 %", 67,
                    989.5, 4.8, 141, 450),
  };
}

constexpr std::array<const char*, 7> kFields = {
    "name",         "fp32_flops",     "bf16_flops",  "memory_bandwidth",
    "memory_bytes", "link_bandwidth", "link_latency"};

void RefuseUnknownFields(const nlohmann::json& json, JsonFields* fields) {
  for (const auto& item : json.items()) {
    bool known = false;
    for (const char* field : kFields) known = known || item.key() == field;
    if (!known) {
      fields->Fail(item.key().c_str(),
                   absl::StrCat("is not known; there are: ", absl::StrJoin(kFields, ", ")));
    }
  }
}

}  // namespace

absl::StatusOr<DeviceSpec> BuiltInDevice(absl::string_view name) {
  std::vector<std::string> names;
  for (const DeviceSpec& device : BuiltInDevices()) {
    if (name == absl::string_view(device.name)) return device;
    names.push_back(device.name);
  }
  return absl::NotFoundError(absl::StrCat("no device '", name,
                                          "'; there are: ", absl::StrJoin(names, ", "),
                                          ", cpu, or a device's own FILE.json"));
}

absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view json, absl::string_view file) {
  const absl::StatusOr<nlohmann::json> object = JsonFields::ParseObject(json, file);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, std::string(file), "");
  RefuseUnknownFields(*object, &fields);
  constexpr double kPositive = std::numeric_limits<double>::min();
  DeviceSpec device;
  device.name = fields.String("name");
  device.source = std::string(file);
  device.fp32_flops = fields.Number("fp32_flops", kPositive);
  device.bf16_flops = fields.Number("bf16_flops", kPositive);
  device.memory_bandwidth = fields.Number("memory_bandwidth", kPositive);
  if (fields.Has("memory_bytes")) {
    device.memory_bytes = static_cast<int64_t>(fields.Number("memory_bytes", 1));
  }
  if (fields.Has("link_bandwidth")) {
    device.link.bandwidth = fields.Number("link_bandwidth", kPositive);
  }
  if (fields.Has("link_latency")) device.link.latency = fields.Number("link_latency");
  if (!fields.status().ok()) return fields.status();
  return device;
}

}  // namespace sluice
