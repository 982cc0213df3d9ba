#include "tools/launch/picture/quiet_run.h"

#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"
#include "tools/files.h"

namespace sluice {
namespace {

// The bits that `record` has under `name`, in hexadecimal digits; nothing where it has none.
template <typename Bits>
std::optional<Bits> BitsOf(const nlohmann::json& record, const char* name) {
  const auto found = record.find(name);
  Bits bits = 0;
  if (found == record.end() || !found->is_string() ||
      !absl::SimpleHexAtoi(found->get_ref<const std::string&>(), &bits)) {
    return std::nullopt;
  }
  return bits;
}

}  // namespace

absl::StatusOr<QuietRun> ReadQuietRun(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostTextBytes);
  if (!text.ok()) return text.status();
  QuietRun run;
  run.name = std::filesystem::path(path).filename().string();
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    if (line.empty()) continue;
    const absl::StatusOr<nlohmann::json> record = ParseJsonObject(line, path, "");
    if (!record.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": line ", number, " is no JSON object; expected the output of ",
                       "'sluice train --json', or a log of 'train --log FILE.jsonl'"));
    }
    const auto step = record->find("step");
    const std::optional<uint32_t> loss = BitsOf<uint32_t>(*record, "loss_hex");
    if (loss && step != record->end() && step->is_number_integer())
      run.losses[step->get<int64_t>()] = std::bit_cast<float>(*loss);
    if (const auto hash = BitsOf<uint64_t>(*record, "weights_hash")) run.weights_hash = hash;
  }
  if (run.losses.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no line has a step and its loss ('step', 'loss_hex'); expected the ",
                     "output of 'sluice train --json', or a log of 'train --log FILE.jsonl'"));
  }
  return run;
}

}  // namespace sluice
