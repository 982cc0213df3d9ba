#include "partitioner/costs/device.h"

#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "partitioner/costs/json_fields.h"
#include "partitioner/costs/link_limits.h"

namespace sluice {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

// What a file may say of a device: no layer then takes a time that is not finite.
constexpr double kLeastRate = 1, kMostRate = 1e30;  // FLOP/s and bytes per second
constexpr double kLeastEfficiency = 1e-6;
constexpr double kMostHalfSize = 1e9;
constexpr double kMostOverhead = 1e6;  // seconds

// What kernels reach of the data sheet, as `sluice calibrate` fits it to the 55 measured steps of
// vTrain (Bang et al., MICRO 2024) and the 8 of Korthikanti et al. 2022, all on A100s. Other GPUs
// are assumed to reach the same share of theirs.
struct Reached {
  double products = 0.84, half_size = 108, memory = 0.80, link = 0.87;
  double kernel_overhead = 17e-6, link_latency = 34e-6;
};

struct DataSheet {
  const char* name;
  const char* source;
  double fp32_tflops, half_tflops;  // dense
  double memory_tbs, memory_gb;
  double link_gbs;  // to one other device, in one direction: half of what is printed
  bool has_kernel_rates = false;
};

// Rates are dense; where a data sheet prints only those with sparsity, half of them. V100 has no
// bf16: its fp16 rate stands for both. MI300X has a link of its own to each of seven others, and
// one of these counts. L40S, RTX 4090 and L4 have PCIe 4.0 x16 alone. Of GB200, one of the two GPUs
// of a superchip, as a 72nd of the rack's numbers; its memory is a 72nd of 13.4 TB.
constexpr DataSheet kDataSheets[] = {
    {"a100", "NVIDIA A100 80GB SXM data sheet, 2021", 19.5, 312, 2.039, 80, 300},
    {"a100-40gb", "NVIDIA A100 40GB SXM data sheet, 2020", 19.5, 312, 1.555, 40, 300},
    {"h100", "NVIDIA H100 SXM data sheet, 2023", 67, 989.5, 3.35, 80, 450, true},
    {"h200", "NVIDIA H200 SXM data sheet, 2024", 67, 989.5, 4.8, 141, 450, true},
    {"b200", "NVIDIA HGX B200 and DGX B200 data sheets, 2025", 75, 2250, 8, 180, 900, true},
    {"gb200", "NVIDIA GB200 NVL72 data sheet, 2025", 80, 2500, 8, 186, 900, true},
    {"mi300x", "AMD Instinct MI300X data sheet, 2023", 163.4, 1307.4, 5.3, 192, 64},
    {"l40s", "NVIDIA L40S data sheet, 2023", 91.6, 362.05, 0.864, 48, 32},
    {"l4", "NVIDIA L4 data sheet, 2023", 30.3, 121, 0.3, 24, 32},
    {"rtx-4090", "NVIDIA Ada GPU architecture white paper, 2022", 82.6, 165.2, 1.008, 24, 32},
    {"v100", "NVIDIA V100 32GB SXM2 data sheet, 2020", 15.7, 125, 0.9, 32, 150},
};

DeviceSpec FromDataSheet(const DataSheet& sheet) {
  DeviceSpec device;
  device.name = sheet.name;
  device.source = sheet.source;
  device.fp32_flops = sheet.fp32_tflops * kTera;
  device.bf16_flops = sheet.half_tflops * kTera;
  device.memory_bandwidth = sheet.memory_tbs * kTera;
  device.memory_bytes = static_cast<int64_t>(sheet.memory_gb * kGiga);
  device.link.bandwidth = sheet.link_gbs * kGiga;
  device.has_kernel_rates = sheet.has_kernel_rates;
  return device;
}

void TakeOff(const Reached& reached, DeviceSpec* device) {
  absl::StrAppend(&device->source, ": ", std::lround(100 * reached.products), " % of ",
                  device->bf16_flops / kTera, " TFLOP/s");
  device->link = {reached.link_latency, reached.link * device->link.bandwidth};
  device->product_efficiency = reached.products;
  device->product_half_size = reached.half_size;
  device->memory_efficiency = reached.memory;
  device->kernel_overhead = reached.kernel_overhead;
}

void ReadEfficiencies(JsonFields* fields, DeviceSpec* device) {
  for (const auto& [field, value] : {std::pair{"product_efficiency", &device->product_efficiency},
                                     std::pair{"memory_efficiency", &device->memory_efficiency}}) {
    if (fields->Has(field)) *value = fields->Number(field, kLeastEfficiency, 1);
  }
  if (fields->Has("product_half_size")) {
    device->product_half_size = fields->Number("product_half_size", 0, kMostHalfSize);
  }
  if (fields->Has("kernel_overhead"))
    device->kernel_overhead = fields->Number("kernel_overhead", 0, kMostOverhead);
}

void ReadMemory(JsonFields* fields, DeviceSpec* device) {
  constexpr double kMostBytes = 1e18;
  if (!fields->Has("memory_bytes")) return;
  const double bytes = fields->Number("memory_bytes", 1);
  if (bytes > kMostBytes) {
    fields->Fail("memory_bytes", absl::StrCat("is ", bytes, "; expected at most ", kMostBytes));
  } else {
    device->memory_bytes = static_cast<int64_t>(bytes);
  }
}

}  // namespace

double DeviceSpec::ProductSeconds(DType dtype, double rows, double out, double in) const {
  const double filled = 1 + product_half_size * (1 / rows + 1 / out + 1 / in);
  return 2 * rows * out * in * filled / (flops(dtype) * product_efficiency);
}

std::vector<absl::string_view> BuiltInDeviceNames() {
  std::vector<absl::string_view> names;
  for (const DataSheet& sheet : kDataSheets) names.emplace_back(sheet.name);
  return names;
}

absl::StatusOr<DeviceSpec> DataSheetDevice(absl::string_view name) {
  for (const DataSheet& sheet : kDataSheets) {
    if (name == sheet.name) return FromDataSheet(sheet);
  }
  return absl::NotFoundError(
      absl::StrCat("no device '", name, "'; there are: ", absl::StrJoin(BuiltInDeviceNames(), ", "),
                   ", cpu, or a device's own FILE.json"));
}

absl::StatusOr<DeviceSpec> BuiltInDevice(absl::string_view name) {
  absl::StatusOr<DeviceSpec> device = DataSheetDevice(name);
  if (device.ok()) TakeOff(Reached{}, &*device);
  return device;
}

absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view json, absl::string_view file) {
  const absl::StatusOr<nlohmann::json> object = JsonFields::ParseObject(json, file);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, std::string(file), "");
  fields.RefuseOthers({"name", "fp32_flops", "bf16_flops", "memory_bandwidth", "memory_bytes",
                       "link_bandwidth", "link_latency", "product_efficiency", "product_half_size",
                       "memory_efficiency", "kernel_overhead"});
  DeviceSpec device;
  device.name = fields.String("name");
  device.source = std::string(file);
  device.fp32_flops = fields.Number("fp32_flops", kLeastRate, kMostRate);
  device.bf16_flops = fields.Number("bf16_flops", kLeastRate, kMostRate);
  device.memory_bandwidth = fields.Number("memory_bandwidth", kLeastRate, kMostRate);
  ReadMemory(&fields, &device);
  if (fields.Has("link_bandwidth")) {
    device.link.bandwidth = fields.Number("link_bandwidth", kLeastBandwidth);
  }
  if (fields.Has("link_latency"))
    device.link.latency = fields.Number("link_latency", 0, kMostLatency);
  ReadEfficiencies(&fields, &device);
  if (!fields.status().ok()) return fields.status();
  return device;
}

nlohmann::ordered_json DeviceToJson(const DeviceSpec& device) {
  nlohmann::ordered_json json = {{"name", device.name},
                                 {"fp32_flops", device.fp32_flops},
                                 {"bf16_flops", device.bf16_flops},
                                 {"memory_bandwidth", device.memory_bandwidth}};
  if (device.memory_bytes > 0) json["memory_bytes"] = device.memory_bytes;
  if (std::isfinite(device.link.bandwidth)) json["link_bandwidth"] = device.link.bandwidth;
  json["link_latency"] = device.link.latency;
  json["product_efficiency"] = device.product_efficiency;
  json["product_half_size"] = device.product_half_size;
  json["memory_efficiency"] = device.memory_efficiency;
  json["kernel_overhead"] = device.kernel_overhead;
  return json;
}

}  // namespace sluice
