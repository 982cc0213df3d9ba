#include "tools/schedule/timetable/measured_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"
#include "schedules/counted.h"
#include "tools/files.h"

namespace sluice {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<TimedAction>>;
using Replicas = std::map<int64_t, Rows>;   // [replica of the pipeline]
using Steps = std::map<int64_t, Replicas>;  // [step of the run]

constexpr double kSecondsPerMicrosecond = 1e-6;
constexpr char kNoTrace[] = ": not a trace of sluice train --trace: ";
constexpr Op kTraced[] = {Op::kForward, Op::kBackward, Op::kInputGrad, Op::kWeightGrad,
                          Op::kRecompute};

// The op of a name such as "2F0", whose stage and micro-batch the trace has in other fields; kIdle
// for other events.
Op OpOf(const std::string& name) {
  constexpr const char* kDigits = "0123456789";
  const size_t first = name.find_first_not_of(kDigits);
  if (first == 0 || first == std::string::npos) return Op::kIdle;
  const size_t last = name.find_last_not_of(kDigits);
  const std::string letters = name.substr(first, last + 1 - first);
  const auto* op = std::find_if(std::begin(kTraced), std::end(kTraced),
                                [&](Op candidate) { return letters == OpName(candidate); });
  return op == std::end(kTraced) ? Op::kIdle : *op;
}

absl::Status AddEvent(const json& event, const Timetable& table, Steps& steps) {
  if (event.value("ph", "") != "X") return absl::OkStatus();
  const std::string name = event.value("name", "");
  TimedAction timed;
  timed.action.op = OpOf(name);
  if (timed.action.op == Op::kIdle) return absl::OkStatus();
  const json& args = event.at("args");
  // Older files have no rank, and number threads by it.
  int64_t rank = args.contains("rank") ? args.at("rank") : event.at("tid");
  // Ranks of the world are numbered replica by replica.
  const int64_t replica = args.value("replica", int64_t{0});
  rank -= replica * table.placement.ranks();
  const int64_t stage = args.at("stage");
  const int64_t micro_batch = args.at("micro_batch");
  if (rank < 0 || rank >= table.placement.ranks() || stage < 0 ||
      stage >= table.placement.stages() || micro_batch < 0 || micro_batch >= table.micro_batches) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " on rank ", rank, " is not in ", table.name, " with ",
        Counted(table.placement.ranks(), "rank"), ", ", Counted(table.placement.stages(), "stage"),
        " and ", Counted(table.micro_batches, "micro-batch"),
        "; give the schedule and size of the run"));
  }
  timed.action.stage = static_cast<uint16_t>(stage);
  timed.action.micro_batch = static_cast<int32_t>(micro_batch);
  timed.start = event.at("ts").get<double>() * kSecondsPerMicrosecond;
  const double duration = event.at("dur");
  if (!(duration >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " on rank ", rank, " lasts ", duration, " microseconds"));
  }
  timed.end = timed.start + duration * kSecondsPerMicrosecond;
  Rows& rows = steps[args.value("step", int64_t{0})][replica];
  rows.resize(table.placement.ranks());
  rows[rank].push_back(timed);
  return absl::OkStatus();
}

double FirstStart(const Rows& rows) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& row : rows) {
    for (const TimedAction& timed : row) first = std::min(first, timed.start);
  }
  return first;
}

double Duration(const Rows& rows) {
  double last = 0;
  for (const auto& row : rows) {
    for (const TimedAction& timed : row) last = std::max(last, timed.end);
  }
  return last - FirstStart(rows);
}

Replicas::iterator Slowest(Replicas& replicas) {
  return std::max_element(replicas.begin(), replicas.end(), [](const auto& a, const auto& b) {
    return Duration(a.second) < Duration(b.second);
  });
}

// The step lasts as long as its slowest replica.
Steps::iterator MedianStep(Steps& steps) {
  std::vector<std::pair<double, int64_t>> durations;
  for (auto& [step, replicas] : steps)
    durations.emplace_back(Duration(Slowest(replicas)->second), step);
  std::sort(durations.begin(), durations.end());
  return steps.find(durations[(durations.size() - 1) / 2].second);
}

// The traced actions of a row, sorted, so that rows can be compared in any order.
std::multiset<std::string> NamesOf(const std::vector<Action>& row) {
  std::multiset<std::string> names;
  for (const Action& action : row) {
    if (std::find(std::begin(kTraced), std::end(kTraced), action.op) != std::end(kTraced))
      names.insert(ToString(action));
  }
  return names;
}

absl::Status CheckSame(const Rows& rows, const Timetable& table) {
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::vector<Action> ran;
    for (const TimedAction& timed : rows[rank]) ran.push_back(timed.action);
    const auto measured = NamesOf(ran), planned = NamesOf(table.rows[rank]);
    const auto [m, p] =
        std::mismatch(measured.begin(), measured.end(), planned.begin(), planned.end());
    if (m == measured.end() && p == planned.end()) continue;
    const bool extra = p == planned.end() || (m != measured.end() && *m < *p);
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, extra ? " ran " : " did not run ", extra ? *m : *p, ", which ", table.name,
        extra ? " does not have" : " has", " there; give the schedule and size of the run"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MeasuredRun> ReadDocument(const json& document, const Timetable& table) {
  const json& events = document.is_array() ? document : document.at("traceEvents");
  // Where ranks came and went, those that were there last ran the plan that the run had then.
  const auto group_of = [](const json& event) {
    return event.contains("args") ? event.at("args").value("group", int64_t{0}) : int64_t{0};
  };
  int64_t last_group = 0;
  for (const json& event : events) last_group = std::max(last_group, group_of(event));
  Steps steps;
  for (const json& event : events) {
    if (group_of(event) != last_group) continue;
    if (absl::Status ok = AddEvent(event, table, steps); !ok.ok()) return ok;
  }
  if (steps.empty())
    return absl::InvalidArgumentError("no action in it; make it with sluice train --trace");
  const auto median = MedianStep(steps);
  const auto slowest = Slowest(median->second);
  Rows& rows = slowest->second;
  if (absl::Status ok = CheckSame(rows, table); !ok.ok()) return ok;
  const double origin = FirstStart(rows);
  for (auto& row : rows) {
    for (TimedAction& timed : row) {
      timed.start -= origin;
      timed.end -= origin;
    }
    std::sort(row.begin(), row.end(),
              [](const TimedAction& a, const TimedAction& b) { return a.start < b.start; });
  }
  std::string name = absl::StrCat("step ", median->first);
  if (median->second.size() > 1) {
    absl::StrAppend(&name, ", replica ", slowest->first, ", the slowest of ",
                    median->second.size());
  }
  return MeasuredRun{std::move(name), std::move(rows)};
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& path, const Timetable& table) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostTextBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<json> document = ParseJson(*text, {.bytes = kMostTextBytes});
  if (!document.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, kNoTrace, document.status().message()));
  }
  try {
    absl::StatusOr<MeasuredRun> run = ReadDocument(*document, table);
    if (run.ok()) return run;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(run.status().message())));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, kNoTrace, error.what()));
  }
}

StageCosts FittedCosts(const MeasuredRun& run, const Placement& placement) {
  std::map<std::pair<Op, int>, std::vector<double>> durations;
  for (const auto& row : run.rows) {
    for (const TimedAction& timed : row)
      durations[{timed.action.op, timed.action.stage}].push_back(timed.end - timed.start);
  }
  StageCosts costs = StageCosts::Uniform(placement.stages(), 0, 0, 0);
  costs.recompute = costs.forward;
  for (auto& [key, values] : durations) {
    const auto& [op, stage] = key;
    const double median = Median(std::move(values));
    if (op == Op::kForward) costs.forward[stage] = median;
    if (op == Op::kInputGrad) costs.input_grad[stage] = median;
    if (op == Op::kWeightGrad) costs.weight_grad[stage] = median;
    if (op == Op::kBackward) costs.backward[stage] = median;
    if (op == Op::kRecompute) costs.recompute[stage] = median;
  }
  for (int stage = 0; stage < placement.stages(); ++stage) {
    if (costs.backward[stage] == 0)
      costs.backward[stage] = costs.input_grad[stage] + costs.weight_grad[stage];
    else if (costs.input_grad[stage] == 0)
      costs.input_grad[stage] = costs.weight_grad[stage] = costs.backward[stage] / 2;
  }
  return costs;
}

}  // namespace sluice
