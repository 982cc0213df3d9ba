// Cluster files, read and written.
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/json_text.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/json_fields.h"
#include "partitioner/costs/link_limits.h"

namespace sluice {
namespace {

constexpr int64_t kMostDevices = 1 << 20;

int Count(const char* field, JsonFields* fields) {
  const int64_t count = fields->Integer(field, 1);
  if (count <= kMostDevices) return static_cast<int>(count);
  fields->Fail(field, absl::StrCat("is ", count, "; expected at most ", kMostDevices));
  return 1;
}

Link ReadLink(const nlohmann::json& json, absl::string_view file, const char* field,
              JsonFields* fields) {
  Link link;
  if (!json[field].is_object()) {
    fields->Fail(field, R"(must be an object: {"bandwidth": 1e10, "latency": 5e-6})");
    return link;
  }
  JsonFields inner(json[field], std::string(file), field);
  inner.RefuseOthers({"bandwidth", "latency"});
  link.bandwidth = inner.Number("bandwidth", kLeastBandwidth);
  if (inner.Has("latency")) link.latency = inner.Number("latency", 0, kMostLatency);
  fields->Merge(inner.status());
  return link;
}

absl::StatusOr<DeviceSpec> ReadKind(const nlohmann::json& kind, absl::string_view file,
                                    const std::string& path, JsonFields* fields) {
  if (!kind.contains("device")) fields->String("device");  // says that it is missing
  if (!fields->status().ok()) return fields->status();
  const nlohmann::json& device = kind["device"];
  if (device.is_object()) {
    return ParseDevice(JsonText(device), absl::StrCat(file, ", ", path, ".device"));
  }
  const std::string name = fields->String("device");
  absl::StatusOr<DeviceSpec> built_in = BuiltInDevice(name);
  if (!built_in.ok())
    fields->Fail(
        "device",
        absl::StrCat("is '", name, "'; expected ", absl::StrJoin(BuiltInDeviceNames(), ", "),
                     ", or an object that describes one, as in a device's own FILE.json"));
  if (!fields->status().ok()) return fields->status();
  return built_in;
}

void ReadDevices(const nlohmann::json& kinds, absl::string_view file, JsonFields* fields,
                 ClusterSpec* cluster) {
  int64_t total = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string path = absl::StrCat("devices[", i, "]");
    JsonFields inner(kinds[i], std::string(file), path);
    inner.RefuseOthers({"device", "count"});
    cluster->counts.push_back(Count("count", &inner));
    total += cluster->counts.back();
    absl::StatusOr<DeviceSpec> device = ReadKind(kinds[i], file, path, &inner);
    fields->Merge(inner.status());
    fields->Merge(device.status());
    if (device.ok()) cluster->devices.push_back(*std::move(device));
  }
  if (total <= kMostDevices) return;
  fields->Fail("devices", absl::StrCat("are more than ", kMostDevices));
  cluster->counts.clear();  // which device_count() could not add up
}

// A link without a limit is left out: JSON has no infinity.
void AddLink(const char* field, const Link& link, nlohmann::ordered_json* json) {
  if (!std::isfinite(link.bandwidth)) return;
  (*json)[field] = {{"bandwidth", link.bandwidth}, {"latency", link.latency}};
}

}  // namespace

absl::StatusOr<ClusterSpec> ParseCluster(absl::string_view json, absl::string_view file) {
  const absl::StatusOr<nlohmann::json> object = JsonFields::ParseObject(json, file);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, std::string(file), "");
  fields.RefuseOthers(
      {"name", "devices", "devices_per_node", "inside", "between", "cards_per_node"});
  ClusterSpec cluster;
  cluster.name = fields.String("name");
  cluster.source = std::string(file);
  if (const nlohmann::json* kinds = fields.Objects("devices")) {
    ReadDevices(*kinds, file, &fields, &cluster);
  }
  cluster.devices_per_node = Count("devices_per_node", &fields);
  if (fields.Has("inside")) {
    cluster.inside = ReadLink(*object, file, "inside", &fields);
  } else if (!cluster.devices.empty()) {
    cluster.inside = cluster.devices.front().link;
  }
  cluster.between = cluster.inside;
  if (fields.Has("between")) {
    cluster.between = ReadLink(*object, file, "between", &fields);
  } else if (cluster.device_count() > cluster.devices_per_node) {
    fields.Fail("between", "is missing, and there is more than one node");
  }
  if (fields.Has("cards_per_node")) cluster.cards_per_node = Count("cards_per_node", &fields);
  if (!fields.status().ok()) return fields.status();
  return cluster;
}

std::string FormatCluster(const ClusterSpec& cluster) {
  nlohmann::ordered_json json = {{"name", cluster.name}};
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    json["devices"].push_back(
        {{"device", DeviceToJson(cluster.devices[i])}, {"count", cluster.counts[i]}});
  }
  json["devices_per_node"] = cluster.devices_per_node;
  AddLink("inside", cluster.inside, &json);
  AddLink("between", cluster.between, &json);
  json["cards_per_node"] = cluster.cards_per_node;
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice
