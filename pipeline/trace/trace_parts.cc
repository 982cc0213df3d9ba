#include "pipeline/trace/trace_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/files/write_all.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

absl::Status NotWritten(int error, const std::string& file) {
  return absl::ErrnoToStatus(error, absl::StrCat("a part of the trace cannot be written: ", file));
}

Json ToJson(const TraceGroup& group) {
  Json json = {{"number", group.number}, {"schedule", group.schedule}, {"replicas", group.replicas},
               {"ranks", group.ranks},   {"split", group.split},       {"marks", Json::array()}};
  for (const TraceMark& mark : group.marks) json["marks"].push_back({mark.time, mark.text});
  return json;
}

TraceGroup FromJson(const Json& json) {
  TraceGroup group;
  group.number = json.at("number");
  group.schedule = json.at("schedule");
  group.replicas = json.at("replicas");
  group.ranks = json.at("ranks").get<std::vector<std::string>>();
  for (const Json& pair : json.at("split"))
    group.split.emplace(pair.at(0).get<int>(), pair.at(1).get<int>());
  for (const Json& mark : json.at("marks"))
    group.marks.push_back({.time = mark.at(0), .text = mark.at(1)});
  return group;
}

// The whole events of the file, at most so many; none where there is no file, since the rank was lost
// before its first step was done.
absl::StatusOr<std::vector<TraceEvent>> ReadEvents(const std::string& file, size_t most) {
  std::vector<TraceEvent> events;
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  if (error) return events;
  events.resize(std::min<size_t>(most, bytes / sizeof(TraceEvent)));
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(events.data()),
          static_cast<std::streamsize>(events.size() * sizeof(TraceEvent)));
  if (in.good() || events.empty()) return events;
  return absl::DataLossError(absl::StrCat("a part of the trace cannot be read: ", file));
}

}  // namespace

TraceParts::TraceParts(std::string folder, size_t most_events)
    : folder_(std::move(folder)), most_events_(most_events) {}

TraceParts::~TraceParts() {
  if (fd_ >= 0) close(fd_);
}

std::string TraceParts::FileOf(int64_t group, int rank) const {
  return absl::StrFormat("%s/group-%08d.rank-%05d", folder_, group, rank);
}

std::string TraceParts::GroupFileOf(int64_t group) const {
  return absl::StrFormat("%s/group-%08d.json", folder_, group);
}

void TraceParts::Begin(int64_t group, int rank) {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  file_ = FileOf(group, rank);
}

void TraceParts::Append(absl::Span<const TraceEvent> events) {
  if (events.empty() || !status_.ok()) return;
  if (fd_ < 0) {
    std::error_code ignored;  // opening says it better
    fs::create_directories(folder_, ignored);
    fd_ = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      status_ = NotWritten(errno, file_);
      return;
    }
  }
  kept_ = std::min(most_events_, kept_ + events.size());
  const int error = WriteAllTo(
      fd_, {reinterpret_cast<const char*>(events.data()), events.size() * sizeof(TraceEvent)});
  if (error != 0) status_ = NotWritten(error, file_);
}

absl::Status TraceParts::Describe(const TraceGroup& group) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  const std::string file = GroupFileOf(group.number);
  std::ofstream out(file, std::ios::binary);
  out << JsonText(ToJson(group)) << std::flush;
  return out.good() ? absl::OkStatus() : NotWritten(errno, file);
}

absl::StatusOr<std::vector<TraceGroup>> TraceParts::Read() const {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<TraceGroup> groups;
  std::vector<size_t> kept;  // [rank]
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const absl::StatusOr<Json> json = ParseJson(text);
    // Its rank 0 was lost while it wrote that, and so before the group's first step.
    if (!json.ok()) continue;
    TraceGroup& group = groups.emplace_back(FromJson(*json));
    kept.resize(std::max(kept.size(), group.ranks.size()));
    for (size_t rank = 0; rank < group.ranks.size(); ++rank) {
      // One more may say that others were left out.
      const size_t most = most_events_ + 1 - kept[rank];
      absl::StatusOr<std::vector<TraceEvent>> events =
          ReadEvents(FileOf(group.number, static_cast<int>(rank)), most);
      if (!events.ok()) return events.status();
      kept[rank] += events->size();
      if (events->size() == most && most > 0) events->back().kind = TraceEvent::Kind::kFull;
      group.events.insert(group.events.end(), events->begin(), events->end());
    }
  }
  return groups;
}

void TraceParts::Remove() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace sluice
