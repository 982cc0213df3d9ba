#include "pipeline/checkpoint/files/checkpoint_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "models/files/file_writer.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kStepPrefix[] = "step-";
constexpr char kFormat[] = "sluice checkpoint 1";
// The first bytes of state.json, up to the version.
constexpr absl::string_view kStateBegins = "{\n  \"format\": \"sluice checkpoint ";
constexpr int kIndent = 2;

// How state.json ends: these bytes around the checksum's digits.
constexpr absl::string_view kBeforeChecksum = "  \"checksum\": \"";
constexpr absl::string_view kAfterChecksum = "\"\n}\n";
constexpr size_t kChecksumDigits = 32;

std::string Dump(const OrderedJson& json) {
  // A path need not be UTF-8, JSON must be.
  return JsonText(json, kIndent) + "\n";
}

std::string Zeros() { return std::string(kChecksumDigits, '0'); }

// Replaces the zeros at the end by the checksum of the text.
std::string Sign(std::string text) {
  const std::string checksum = Checksum(text.data(), text.size());
  const size_t digits = text.size() - kAfterChecksum.size() - kChecksumDigits;
  return text.replace(digits, kChecksumDigits, checksum);
}

absl::Status CheckSignature(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumeSuffix(&rest, kAfterChecksum) || rest.size() < kChecksumDigits) {
    return absl::DataLossError("is truncated or damaged: it does not end with its checksum");
  }
  const absl::string_view found = rest.substr(rest.size() - kChecksumDigits);
  rest.remove_suffix(kChecksumDigits);
  const std::string zeroed = absl::StrCat(rest, Zeros(), kAfterChecksum);
  const std::string actual = Checksum(zeroed.data(), zeroed.size());
  if (!absl::EndsWith(rest, kBeforeChecksum) || found != actual) {
    return absl::DataLossError(
        absl::StrCat("is damaged: its checksum is ", actual, ", it says ", found));
  }
  return absl::OkStatus();
}

OrderedJson FilesToJson(const std::map<std::string, FileRecord>& files) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, record] : files) {
    json[name] = {{"bytes", record.bytes}, {"xxh3_128", record.checksum}};
  }
  return json;
}

std::optional<DType> ParseDType(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

// Throws nlohmann::json::exception where a field is missing or of another type.
StateFile ReadFields(const Json& json) {
  StateFile file;
  RunState& state = file.state;
  state.step = json.at("step").get<int64_t>();
  state.seed = json.at("seed").get<uint64_t>();
  state.model.name = json.at("model").get<std::string>();
  state.optimizer = json.at("optimizer").get<std::string>();
  state.hyper_parameters = json.at("hyper_parameters").get<std::map<std::string, double>>();
  state.micro_batch_size = json.at("micro_batch_size").get<int64_t>();
  state.micro_batches = json.at("micro_batches").get<int64_t>();
  if (json.contains("sum_groups")) state.sum_groups = json.at("sum_groups").get<int64_t>();
  state.sum_order = json.value("sum_order", state.sum_order);  // older runs had no other
  state.updates = json.value("updates", "");
  state.adaptation = json.value("adaptation", "");
  state.base = json.value("base", "");
  state.base_hash = json.value("base_hash", "");
  state.partition = json.value("partition", "");
  state.seq = json.at("seq").get<int64_t>();
  if (json.contains("head_rows")) state.head_rows = json.at("head_rows").get<int64_t>();
  state.data_path = json.at("data_path").get<std::string>();
  state.data_fingerprint = json.at("data_fingerprint").get<std::string>();
  state.arithmetic = json.value("arithmetic", "");
  state.evaluation_due = json.value("evaluation_due", false);
  state.more = JsonText(json.at("more"));
  for (const auto& [name, record] : json.at("files").items()) {
    file.files[name] = {record.at("bytes").get<uint64_t>(),
                        record.at("xxh3_128").get<std::string>()};
  }
  return file;
}

// Whether a number is whole and lies in 0 to `most`; the type that it is read as would cut any
// other one to size.
bool IsCount(const Json& json, uint64_t most) {
  return json.is_number_unsigned() && json.get<uint64_t>() <= most;
}

absl::Status CheckCount(const Json& json, const char* field, uint64_t most) {
  if (!json.contains(field) || IsCount(json[field], most)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot be used: its '", field, "' is ",
                                                 ShowJson(json[field]),
                                                 "; expected a whole number of at least 0"));
}

// What ReadFields could not tell from a value that it can hold.
absl::Status CheckFields(const Json& json) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  absl::Status status = CheckCount(json, "seed", std::numeric_limits<uint64_t>::max());
  for (const char* field :
       {"step", "micro_batch_size", "micro_batches", "sum_groups", "seq", "head_rows"}) {
    status.Update(CheckCount(json, field, kMost));
  }
  for (const Json& record : json.value("files", Json())) {
    if (record.is_object()) status.Update(CheckCount(record, "bytes", kMost));
  }
  if (json.contains("more") && !json["more"].is_object()) {
    status.Update(absl::InvalidArgumentError("cannot be used: its 'more' is no object"));
  }
  return status;
}

}  // namespace

std::string StepFolderName(int64_t step) { return absl::StrFormat("%s%08d", kStepPrefix, step); }

std::optional<int64_t> ParseStepFolder(const std::string& name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, kStepPrefix) || !absl::SimpleAtoi(digits, &step) ||
      name != StepFolderName(step)) {
    return std::nullopt;
  }
  return step;
}

std::vector<int64_t> StepsIn(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::optional<int64_t> step = ParseStepFolder(entry->path().filename().string());
    if (step) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool HasAdapterOnly(const std::map<std::string, FileRecord>& files) {
  return files.contains(kAdapterFile) && !files.contains(kWeightsIndexFile) &&
         !files.contains(kWeightsFile);
}

const char* ConfigFileOf(const std::map<std::string, FileRecord>& files) {
  return HasAdapterOnly(files) ? kBaseConfigFile : kConfigFile;
}

absl::StatusOr<FileRecord> WriteTextFile(const std::string& path, const std::string& text) {
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Append(text); !status.ok()) return status;
  FileRecord record{(*file)->size(), (*file)->checksum()};
  if (absl::Status status = (*file)->Commit(); !status.ok()) return status;
  return record;
}

absl::StatusOr<std::string> FormatState(const RunState& state,
                                        const std::map<std::string, FileRecord>& files) {
  for (const auto& [name, value] : state.hyper_parameters) {
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("hyper-parameter ", name, " is ", value, "; expected a finite number"));
    }
  }
  // What lies in state.json is one deeper there, and must be read back.
  const absl::StatusOr<Json> more = ParseJson(state.more, {.depth = JsonLimits().depth - 1});
  if (!more.ok() || !more->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`more` is no JSON object: ",
                     more.ok() ? ShowJson(*more) : std::string(more.status().message())));
  }
  OrderedJson json = {{"format", kFormat},
                      {"step", state.step},
                      {"seed", state.seed},
                      {"model", state.model.name},
                      {"optimizer", state.optimizer},
                      {"hyper_parameters", state.hyper_parameters},
                      {"micro_batch_size", state.micro_batch_size},
                      {"micro_batches", state.micro_batches},
                      {"sum_groups", state.sum_groups},
                      {"sum_order", state.sum_order},
                      {"updates", state.updates},
                      {"adaptation", state.adaptation},
                      {"base", state.base},
                      {"base_hash", state.base_hash},
                      {"partition", state.partition},
                      {"seq", state.seq},
                      {"head_rows", state.head_rows},
                      {"dtype", DTypeName(state.dtype)},
                      {"data_path", state.data_path},
                      {"data_fingerprint", state.data_fingerprint},
                      {"arithmetic", state.arithmetic},
                      {"evaluation_due", state.evaluation_due},
                      {"more", OrderedJson(*more)},
                      {"files", FilesToJson(files)},
                      {"checksum", Zeros()}};
  if (state.head_rows == 0) json.erase("head_rows");  // files are as before there was a choice
  if (!state.evaluation_due) json.erase("evaluation_due");
  return Sign(Dump(json));
}

bool BeginsAsState(absl::string_view text) { return absl::StartsWith(text, kStateBegins); }

absl::StatusOr<StateFile> ParseState(absl::string_view text) {
  const absl::Status status = CheckSignature(text);
  if (!status.ok()) return status;
  const absl::StatusOr<Json> parsed = ParseJson(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot be read: ", std::string(parsed.status().message())));
  }
  const Json& json = *parsed;
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("is of another version; expected \"format\": \"", kFormat, "\""));
  }
  if (absl::Status fields = CheckFields(json); !fields.ok()) return fields;
  try {
    StateFile file = ReadFields(json);
    const std::optional<DType> dtype = ParseDType(json.at("dtype").get<std::string>());
    if (!dtype) return absl::InvalidArgumentError("names an unknown dtype");
    file.state.dtype = *dtype;
    file.hash = XXH3_64bits(text.data(), text.size());
    return file;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("lacks a field: ", error.what()));
  }
}

}  // namespace sluice
