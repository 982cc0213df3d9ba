#include "tools/train/ending/elastic_error.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comm/printable.h"
#include "comm/where.h"
#include "models/spec/json_text.h"
#include "tools/command.h"
#include "tools/files.h"

namespace sluice {
namespace {

// What a status knows besides its words, under the names of `sluice launch --json`'s events.
nlohmann::json Facts(const absl::Status& status) {
  const Where where = WhereOf(status);
  // The agent compares whole seconds, which it reads from a text, and of several failures in one
  // second it takes the lowest rank's for the cause. One that follows from another rank's loss comes
  // after it: of a rank that was killed, the agent notes the time itself, a moment later.
  const absl::Time time = absl::Now() + absl::Seconds(where.peer.has_value() ? 1 : 0);
  nlohmann::json facts = {{"timestamp", absl::StrCat(absl::ToUnixSeconds(time))},
                          {"exit_code", ExitCodeOf(status)}};
  const auto add = [&facts](const char* key, const auto& value) {
    if (value.has_value()) facts[key] = *value;
  };
  add("rank", where.rank);
  add("stage", where.stage);
  add("micro_batch", where.micro_batch);
  add("step", where.step);
  add("lost", where.peer);
  if (!where.action.empty()) facts["action"] = ToPrintableLine(where.action);
  return facts;
}

}  // namespace

void TellElasticAgent(const absl::Status& status, const Environment& environment) {
  const std::optional<std::string> path = environment(kElasticErrorFile);
  if (!path.has_value() || path->empty()) return;
  const nlohmann::json told = {
      {"message",
       {{"message", ToPrintableLine(DescribeError(status))}, {"extraInfo", Facts(status)}}}};
  if (absl::Status written = WriteOutput(*path, absl::StrCat(JsonText(told), "\n")); !written.ok())
    PrintNotice(absl::StrCat(kElasticErrorFile, ": ", written.message()));
}

}  // namespace sluice
