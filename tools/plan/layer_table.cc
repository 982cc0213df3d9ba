#include "tools/plan/layer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "models/spec/units.h"
#include "schedules/counted.h"
#include "tools/plan/table_text.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

constexpr int kNarrowBar = 8, kWidestBar = 40;
constexpr int kFixedColumns = 65;  // of a line, without bar, ranks and names
constexpr int kRankColumns = 5;    // where a rank has several stages
constexpr int kMemoryColumns = 16;
constexpr size_t kMostRejected = 8;
// Those of `sluice schedule show`, from the 256-colour palette.
constexpr const char *kForwardColour = "38;5;33", *kBackwardColour = "38;5;208";

// "embedding, block 0-2".
std::string NameLayers(const std::vector<LayerCost>& layers, const LayerRange& range) {
  std::vector<std::string> parts;
  for (int layer = range.first; layer <= range.last;) {
    const std::vector<std::string> words = absl::StrSplit(layers[layer].name, ' ');
    int last = layer, named = 0;
    const bool counted = words.size() == 2 && absl::SimpleAtoi(words[1], &named);
    const int64_t number = named;  // the next one may be larger than any int
    while (counted && last < range.last &&
           layers[last + 1].name == absl::StrCat(words[0], " ", number + last + 1 - layer)) {
      ++last;
    }
    parts.push_back(layers[layer].name);
    if (last > layer) absl::StrAppend(&parts.back(), "-", number + last - layer);
    layer = last + 1;
  }
  return absl::StrJoin(parts, ", ");
}

class LayerTable {
 public:
  LayerTable(const PlanAnswer& answer, int columns, bool colour)
      : answer_(answer),
        plan_(answer.plan),
        context_(answer.context),
        layers_(answer.machines.costs->layers()),
        columns_(columns),
        colour_(colour) {
    const int ranks = plan_.chunks > 1 ? kRankColumns : 0;
    const int room = columns - kFixedColumns - ranks;
    names_ = LongestNames() + 1;
    if (room - names_ < kNarrowBar) names_ = 0;
    bar_ = std::clamp(room - names_, kNarrowBar, kWidestBar);
    for (const PlanStage& stage : plan_.stages) {
      longest_ = std::max(longest_, stage.cost.forward + stage.cost.backward());
    }
  }

  std::string Format() {
    Head();
    StageHead();
    for (size_t stage = 0; stage < plan_.stages.size(); ++stage) Stage(stage);
    Summary();
    Rejected();
    return out_;
  }

 private:
  static LayerRange RangeOf(const PlanStage& stage) {
    return {stage.layers.front(), stage.layers.back()};
  }
  // Columns of the names of a stage's layers, at most.
  int LongestNames() const {
    size_t longest = 0;
    for (const PlanStage& stage : plan_.stages)
      longest = std::max(longest, NameLayers(layers_, RangeOf(stage)).size());
    return static_cast<int>(longest);
  }

  std::string Paint(const char* code, const std::string& text) const {
    return colour_ && !text.empty() ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : text;
  }
  void Line(std::string text) {
    while (!text.empty() && text.back() == ' ') text.pop_back();
    absl::StrAppend(&out_, text, "\n");
  }

  void Head() {
    const std::string adaptation = context_.adaptation.ToString();
    Line(fmt::format("{} on {} x {}", Paint("1", context_.model), context_.DeviceCount(plan_),
                     answer_.device));
    // Which number each layer has: where a terminal is narrow, stages have no names of layers.
    const int last = static_cast<int>(layers_.size()) - 1;
    out_ +=
        WrappedBehind("  ",
                      fmt::format("{} {}parameters, {}, in {}: {}",
                                  FormatCount(static_cast<double>(context_.parameters)),
                                  adaptation.empty() ? "" : "trained ", DTypeName(context_.dtype),
                                  Counted(layers_.size(), "layer"), NameLayers(layers_, {0, last})),
                      columns_);
    if (!adaptation.empty()) Line(fmt::format("  trained: {}", adaptation));
    const std::string samples =
        context_.seq == 1 ? Counted(context_.micro_batch_size, "sample")
                          : fmt::format("{} x {} tokens", context_.micro_batch_size, context_.seq);
    Line(fmt::format("  {} of {} per step{}", Counted(plan_.micro_batches, "micro-batch"), samples,
                     context_.data_parallel > 1 ? " and replica" : ""));
    if (const std::string degrees = DegreesOf(context_); !degrees.empty())
      out_ += WrappedBehind("  ", degrees, columns_);
    out_ += WrappedBehind("  ", "costs: " + answer_.costs, columns_);
    Line("");
  }

  // Bytes that a rank may use.
  std::optional<int64_t> Memory(int rank) const {
    if (!answer_.machines.limits_memory()) return std::nullopt;
    return answer_.machines.MemoryOf(rank);
  }

  void StageHead() {
    const std::string bar = fmt::format("{:<{}}", "time", bar_);
    const std::string names = names_ > 0 ? fmt::format("{:<{}}", "", names_) : "";
    Line(Paint("2", fmt::format("  stage {}layers  {}{:>9} {:>9}  {}  {:>10}       recompute",
                                plan_.chunks > 1 ? "rank " : "", names, "forward", "backward", bar,
                                "memory")));
  }

  std::string Bar(const RangeCost& cost) const {
    if (longest_ <= 0) return std::string(static_cast<size_t>(bar_), ' ');
    const double scale = bar_ / longest_;
    const int all =
        std::max(1, static_cast<int>(std::lround((cost.forward + cost.backward()) * scale)));
    const int forward = std::min(all, static_cast<int>(std::lround(cost.forward * scale)));
    return Paint(kForwardColour, Repeat("█", forward)) +
           Paint(kBackwardColour, Repeat("▓", all - forward)) +
           std::string(static_cast<size_t>(std::max(0, bar_ - all)), ' ');
  }

  std::string Share(int rank, int64_t bytes) const {
    if (!Memory(rank)) return "     ";
    const double share = static_cast<double>(bytes) / static_cast<double>(*Memory(rank));
    const std::string text = fmt::format("{:3.0f} %", 100 * share);
    return share > 0.95 ? Paint("33", text) : text;
  }

  void Stage(size_t number) {
    const PlanStage& stage = plan_.stages[number];
    const RangeCost& cost = stage.cost;
    const LayerRange range = RangeOf(stage);
    std::string names;
    if (names_ > 0) {
      names = NameLayers(layers_, range);
      names.resize(static_cast<size_t>(names_), ' ');
    }
    const std::string ranks = plan_.chunks > 1 ? fmt::format("{:>4} ", stage.rank) : "";
    Line(fmt::format("  {:>5} {}{:<8}{}{} {}  {}  {} {}", number, ranks, FormatPartition({range}),
                     names, AlignRight(FormatSeconds(cost.forward), 9),
                     AlignRight(FormatSeconds(cost.backward()), 9), Bar(cost), MemoryCell(number),
                     RecomputeName(stage.recompute)));
  }

  // The memory of the rank, in the row of its first stage: it is that of all of its stages.
  std::string MemoryCell(size_t number) const {
    const int rank = plan_.stages[number].rank;
    const bool first = std::none_of(plan_.stages.begin(), plan_.stages.begin() + number,
                                    [rank](const PlanStage& stage) { return stage.rank == rank; });
    if (!first) return std::string(kMemoryColumns, ' ');
    const int64_t bytes = plan_.peak_bytes[rank];
    return fmt::format("{:>10} {}", FormatBytes(static_cast<double>(bytes)), Share(rank, bytes));
  }

  void Fact(const char* name, const std::string& text) {
    Line(fmt::format("  {}{}", Paint("2", fmt::format("{:<11}", name)), text));
  }

  std::string Rate() const {
    return absl::StrCat(FormatCount(context_.TokensPerSecond(plan_)), " ", Unit());
  }

  const char* Unit() const { return context_.seq == 1 ? "samples/s" : "tokens/s"; }

  // "16.2 k tokens/s   165 TFLOP/s   MFU 52.9 %".
  std::string RatesOfDevice() const {
    std::string text =
        absl::StrCat(FormatCount(context_.TokensPerSecondOfDevice(plan_)), " ", Unit());
    if (const auto flops = context_.FlopsPerSecondOfDevice(plan_))
      absl::StrAppend(&text, "   ", FormatFlopRate(*flops));
    if (const auto mfu = context_.Mfu(plan_)) absl::StrAppend(&text, "   MFU ", FormatShare(*mfu));
    return text;
  }

  // "1.6 ms per step: ranks 0 and 3 swap gradients of 622 MB".
  std::string TiedExchange() const {
    return fmt::format("{} per step: ranks {} and {} swap gradients of {}",
                       FormatSeconds(plan_.tied_exchange_seconds()), plan_.stages.front().rank,
                       plan_.stages.back().rank,
                       FormatBytes(static_cast<double>(layers_.back().tied_gradient_bytes)));
  }

  std::string Proof() const {
    if (plan_.optimal) return "proved: no partition of any schedule tried is better";
    return fmt::format("within {} of the best possible (nothing is below {})",
                       FormatShare(plan_.gap()), FormatSeconds(plan_.lower_bound));
  }

  // "one every 10 steps   1.2 ms per step (0.6 %)   up to 3.1 MiB per rank".
  std::string Audits() const {
    const double share = plan_.step_seconds > 0 ? plan_.audit_seconds / plan_.step_seconds : 0;
    const int64_t most = *std::max_element(plan_.audit_bytes.begin(), plan_.audit_bytes.end());
    const std::string every = context_.audit_every == 1
                                  ? "one in every step"
                                  : fmt::format("one every {} steps", context_.audit_every);
    return fmt::format("{}   {} per step ({})   up to {} per rank", every,
                       FormatSeconds(plan_.audit_seconds), FormatShare(share),
                       FormatBytes(static_cast<double>(most)));
  }

  std::string Bottleneck() const {
    const std::vector<double>& work = plan_.simulation.work;
    const auto rank = std::max_element(work.begin(), work.end()) - work.begin();
    const double share = plan_.step_seconds > 0 ? work[rank] / plan_.step_seconds : 0;
    std::string busy = fmt::format("rank {} works {} of the step", rank, FormatShare(share));
    if (plan_.chunks > 1) return busy;
    return fmt::format("{}, {} per micro-batch", busy, FormatSeconds(plan_.bottleneck_seconds));
  }

  void Summary() {
    Line("");
    Line(absl::StrCat("  ", Paint(kForwardColour, "█"), " forward  ", Paint(kBackwardColour, "▓"),
                      " backward, of one micro-batch"));
    Line("");
    Fact("schedule", Paint("1", plan_.description));
    if (plan_.step_seconds > 0) {
      Fact("step", fmt::format("{}   {}   bubble {}", Paint("1", FormatSeconds(plan_.step_seconds)),
                               Rate(), FormatShare(plan_.bubble)));
      Fact("per device", RatesOfDevice());
    }
    if (plan_.tied_exchange_seconds() > 0) Fact("tied", TiedExchange());
    if (context_.audit_every > 0) Fact("audits", Audits());
    Fact("bottleneck", Bottleneck());
    if (const std::string devices = RankDevicesOf(context_); !devices.empty())
      out_ += WrappedBehind(absl::StrCat("  ", Paint("2", "devices    ")), devices, columns_);
    if (answer_.machines.memory_limit) {
      Fact("memory",
           FormatBytes(static_cast<double>(*answer_.machines.memory_limit)) + " per device");
    }
    if (answer_.settings_in_all > 1) {
      Fact("settings", fmt::format("best of {} ways to use the devices; {} searched",
                                   answer_.settings_in_all, answer_.settings_tried));
    }
    Fact("optimal", Proof());
  }

  void Rejected() {
    if (plan_.rejected.empty()) return;
    Line("");
    Line(Paint("2", "  not chosen"));
    out_ += FormatRejected(plan_.rejected, kMostRejected, columns_);
  }

  const PlanAnswer& answer_;
  const Plan& plan_;
  const PlanContext& context_;
  const std::vector<LayerCost>& layers_;
  int columns_, names_ = 0, bar_ = kNarrowBar;
  bool colour_;
  double longest_ = 0;
  std::string out_;
};

}  // namespace

std::string FormatLayerTable(const PlanAnswer& answer, int columns, bool colour) {
  return LayerTable(answer, columns, colour).Format();
}

}  // namespace sluice
