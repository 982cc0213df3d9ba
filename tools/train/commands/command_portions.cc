#include "tools/train/commands/command_portions.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "tools/files.h"
#include "tools/train/running/train_signals.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// How soon an idle process notices that it was told to stop.
constexpr int kLookMilliseconds = 100;
constexpr char kCommands[] =
    "expected {\"do\": \"fit\", \"steps\": N}, {\"do\": \"stop\"}, {\"do\": \"evaluate\"}, "
    "{\"do\": \"hash\"} or {\"do\": \"save\", \"directory\": PATH, \"overwrite\": true or false}";

absl::Status NotACommand(const std::string& line, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("the command ", line, ": ", why, "; ", kCommands));
}

// The fields of each command, beside "do".
const std::map<std::string, std::set<std::string>>& CommandFields() {
  static const auto* const fields =
      new std::map<std::string, std::set<std::string>>{{"fit", {"steps"}},
                                                       {"stop", {}},
                                                       {"evaluate", {}},
                                                       {"hash", {}},
                                                       {"save", {"directory", "overwrite"}}};
  return *fields;
}

bool IsStop(const std::string& line) {
  const absl::StatusOr<Json> json = ParseJson(line);
  return json.ok() && *json == Json::object({{"do", "stop"}});
}

}  // namespace

std::optional<Portion> CommandPortions::Await(int64_t number) {
  // The first rank that comes reads; the others find what it has read.
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<size_t>(number);
  if (at < portions_.size()) return portions_[at];
  const std::optional<std::string> line = ended_ ? std::nullopt : ReadCommand();
  if (!line.has_value()) {
    ended_ = true;
    return std::nullopt;
  }
  // An interrupt was meant for what has ended meanwhile.
  Signals().interrupted.store(Signals().terminated.load());
  CatchSignals();
  ends_early_ = false;
  absl::StatusOr<Portion> portion = Parse(*line);
  if (!portion.ok()) portion = Portion{.refused = portion.status()};
  portions_.push_back(*std::move(portion));
  return portions_.back();
}

void CommandPortions::Ended(int rank, const absl::StatusOr<TrainSummary>& summary) {
  if (rank == parts_.first_rank) parts_.ended(summary);
}

bool CommandPortions::EndsEarly() {
  const std::lock_guard lock(mutex_);
  // At the end of the file the portion is made as far as it was asked for.
  if (!ends_early_ && !FirstLine().has_value()) ReadOn(0);
  // Another command comes first: a stop after that is not for this portion.
  if (const auto line = FirstLine(); line.has_value() && IsStop(*line)) {
    DropFirstLine();
    ends_early_ = true;
  }
  return ends_early_;
}

std::optional<std::string> CommandPortions::FirstLine() const {
  const size_t end = unread_.find('\n');
  return end == std::string::npos ? std::nullopt : std::optional(unread_.substr(0, end));
}

void CommandPortions::DropFirstLine() { unread_.erase(0, unread_.find('\n') + 1); }

bool CommandPortions::ReadOn(int milliseconds) {
  pollfd wait = {.fd = parts_.fd, .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, milliseconds) <= 0) return true;
  char text[4096];
  const ssize_t taken = read(parts_.fd, text, sizeof(text));
  if (taken < 0 && errno == EINTR) return true;
  if (taken > 0) unread_.append(text, static_cast<size_t>(taken));
  return taken > 0;
}

std::optional<std::string> CommandPortions::ReadCommand() {
  bool more = true;
  while (!Signals().terminated.load()) {
    std::optional<std::string> line = FirstLine();
    if (!line.has_value()) {
      if (!more) return std::nullopt;
      more = ReadOn(kLookMilliseconds);
      continue;
    }
    DropFirstLine();
    if (!IsStop(*line)) return line;  // a stop was for what has ended meanwhile
  }
  return std::nullopt;
}

absl::StatusOr<Portion> CommandPortions::Parse(const std::string& line) {
  const absl::StatusOr<Json> parsed = ParseJson(line);
  if (!parsed.ok()) return NotACommand(line, std::string(parsed.status().message()));
  const Json& json = *parsed;
  if (!json.is_object() || !json.contains("do") || !json["do"].is_string()) {
    return NotACommand(line, "it is no JSON object with a field 'do'");
  }
  const auto what = json["do"].get<std::string>();
  const auto fields = CommandFields().find(what);
  if (fields == CommandFields().end())
    return NotACommand(line, absl::StrCat("'", what, "' is nothing to do"));
  for (const auto& [name, value] : json.items()) {
    if (name == "do" || fields->second.contains(name)) continue;
    return NotACommand(line, absl::StrCat("field '", name, "' is not known"));
  }
  if (what == "fit") {
    if (!json.contains("steps")) return Portion{.steps = std::numeric_limits<int64_t>::max()};
    if (!json["steps"].is_number_unsigned() ||
        json["steps"].get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return NotACommand(line, "field 'steps' is no number of steps");
    }
    return Portion{.steps = json["steps"].get<int64_t>()};
  }
  if (what != "save") return Portion{.evaluates = what == "evaluate", .hashes = what == "hash"};
  if (!json.contains("directory") || !json["directory"].is_string() ||
      json["directory"].get<std::string>().empty()) {
    return NotACommand(line, "field 'directory' is no path");
  }
  const bool says = json.contains("overwrite");
  if (says && !json["overwrite"].is_boolean())
    return NotACommand(line, "field 'overwrite' is neither true nor false");
  const auto directory = json["directory"].get<std::string>();
  if (parts_.saves) {
    absl::Status owned = Own(directory, says && json["overwrite"].get<bool>());
    if (!owned.ok()) return owned;
  }
  return Portion{.saves_to = directory};
}

absl::Status CommandPortions::Own(const std::string& directory, bool overwrite) {
  const TrainOptions& options = *parts_.options;
  const std::string whole = TargetOf(directory);
  const std::string& own = options.saving.directory;
  if (directories_.contains(whole) || (!own.empty() && TargetOf(own) == whole)) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<RunDirectory>> opened =
      RunDirectory::Open({.directory = directory,
                          .resume = options.saving.resume,
                          .has_begun = true,
                          .overwrite = overwrite,
                          .steps = options.training.steps,
                          .save_every = 0,
                          .given = options.training.given,
                          .base = BaseOf(options.saving)});
  if (!opened.ok()) return opened.status();
  directories_[TargetOf(directory)] = *std::move(opened);  // there now
  return absl::OkStatus();
}

}  // namespace sluice
