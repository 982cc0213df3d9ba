#include "pipeline/train/start/agreement.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/collectives/collectives.h"
#include "comm/where.h"
#include "pipeline/train/arithmetic.h"
#include "schedules/csv.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

uint64_t HashOf(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

std::string ModelText(const RunPlan& plan) {
  std::string text;
  for (const LayerDecl& layer : plan.layers) {
    absl::StrAppend(&text, "|", layer.name);
    for (const ParameterDecl& parameter : layer.parameters) {
      absl::StrAppend(&text, ",", parameter.name, ":", absl::StrJoin(parameter.shape, "x"),
                      parameter.tied_to, parameter.frozen ? "!" : "");
    }
  }
  return text;
}

std::string PartitionText(const RunRequest& request) {
  std::string text = FormatPartition(request.partition);
  for (Recompute policy : request.recompute) absl::StrAppend(&text, "|", static_cast<int>(policy));
  if (request.recompute_ahead) absl::StrAppend(&text, "|ahead");
  return text;
}

// In hexadecimal, since a decimal would hide what differs in the last bits.
std::string OptimizerText(const RunRequest& request, const OptimizerOptions& options) {
  std::string text = absl::StrCat(static_cast<int>(request.optimizer), "|", options.warmup, "|",
                                  static_cast<int>(options.schedule));
  for (double value : {options.lr, options.weight_decay, options.clip, options.beta1, options.beta2,
                       options.momentum, options.final_lr_fraction}) {
    absl::StrAppend(&text, "|", absl::Hex(std::bit_cast<uint64_t>(value)));
  }
  return text;
}

// The texts of all ranks, by rank, each cut off at kLongestShown bytes.
absl::StatusOr<std::vector<std::string>> GatherTexts(absl::string_view mine, Communicator& world,
                                                     absl::Duration timeout) {
  std::vector<int64_t> bounds(static_cast<size_t>(world.size()) + 1);
  for (size_t rank = 0; rank < bounds.size(); ++rank)
    bounds[rank] = static_cast<int64_t>(rank * kLongestShown);
  std::string all(static_cast<size_t>(bounds.back()), '\0');
  const auto place = [&](int rank) { return static_cast<size_t>(rank) * kLongestShown; };
  mine.copy(&all[place(world.rank())], kLongestShown);
  const SlicedBytes texts_of_all = {.data = all.data(), .bounds = bounds};
  absl::Status status = AllGatherSlices(world, {&texts_of_all, 1}, timeout);
  if (!status.ok()) {
    world.Abort(status);  // messages use `all` until then
    return status;
  }
  std::vector<std::string> texts;
  for (int rank = 0; rank < world.size(); ++rank)
    texts.emplace_back(all.substr(place(rank), kLongestShown).c_str());
  return texts;
}

// "rank 2" or "ranks 1, 2 and 5".
std::string RanksText(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks.front());
  const std::vector<int> first(ranks.begin(), ranks.end() - 1);
  return absl::StrCat("ranks ", absl::StrJoin(first, ", "), " and ", ranks.back());
}

// Of something that ranks exchange more with than without.
RunTrait GivenOrNot(const char* flag, bool given) {
  return {.name = flag,
          .hash = given ? uint64_t{1} : uint64_t{0},
          .shown = given ? "given" : "not given",
          .advice = "give it to all ranks, or to none"};
}

// Where the weights are from: people see by it whether they gave another folder, or whether it
// holds something else on another machine.
std::string WeightsText(const Saving& saving) {
  if (saving.init.empty() && saving.adapter.empty()) return "random ones";
  if (saving.adapter.empty()) return absl::StrCat("--init ", saving.init);
  return absl::StrCat(saving.init.empty() ? "" : absl::StrCat("--init ", saving.init, " "),
                      "--adapter ", saving.adapter);
}

}  // namespace

std::vector<RunTrait> TraitsOf(const RunPlan& plan, const TrainOptions& options,
                               const Dataset& data, const RunStart& start) {
  const RunRequest& request = plan.request;
  const std::string arithmetic = ArithmeticOf(options);
  return {
      {"the program (another build)", options.running.program},
      {"the model", HashOf(ModelText(plan))},
      {.name = "--head-rows",
       .hash = static_cast<uint64_t>(request.spec.head_rows()),
       .shown = absl::StrCat(request.spec.head_rows()),
       .advice = "give all ranks the same --head-rows"},
      {"what of it is trained", HashOf(request.adaptation.ToString())},
      {"the micro-batches' shape, size and compute type",
       HashOf(absl::StrCat(request.batch.size, "x", request.batch.seq, DTypeName(request.dtype)))},
      {"the kernels (--device, --attention)", HashOf(request.kernels->device)},
      {"the timetable",
       HashOf(absl::StrCat(FormatTimetableCsv(plan.lowered), request.step_micro_batches, "|",
                           static_cast<int>(request.timetable.updates)))},
      {"the partition and what it recomputes", HashOf(PartitionText(request))},
      {"replicas, zero and sum groups",
       HashOf(absl::StrCat(plan.replicas(), "|", absl::StrJoin(request.stage_members, ","), "|",
                           plan.zero(), "|", plan.sum_groups()))},
      GivenOrNot("--mirror", request.mirror),
      GivenOrNot("--trace", options.watching.trace),
      GivenOrNot("--commands", options.portions != nullptr),
      {.name = "--audit",
       .hash = static_cast<uint64_t>(request.audit_every),
       .shown = absl::StrCat(request.audit_every),
       .advice = "give all ranks the same --audit"},
      {.name = "what computes",
       .hash = HashOf(arithmetic),
       .shown = arithmetic,
       .advice = "the bits would depend on which rank computes what: start the ranks on "
                 "processors or GPUs of one kind or, where only oneDNN's instructions differ, set "
                 "the variable DNNL_MAX_CPU_ISA to the lowest of them for all ranks"},
      {"the data", HashOf(data.fingerprint())},
      {"the seed", options.training.seed},
      {"the optimizer and its settings",
       HashOf(OptimizerText(request, options.training.optimizer))},
      {"steps, and when to evaluate and save",
       HashOf(absl::StrCat(options.training.steps, "|", options.watching.eval_every, "|",
                           options.watching.eval_micro_batches, "|",
                           options.saving.directory.empty() ? 0 : 1, "|", options.saving.every))},
      {"the checkpoint to go on from",
       HashOf(absl::StrCat(start.step, "|", options.saving.resume.empty() ? 0 : 1, "|",
                           start.checkpoint))},
      {.name = "the weights to begin with",
       .hash = HashOf(absl::StrCat(options.saving.init.empty() ? 0 : 1, "|",
                                   options.saving.adapter.empty() ? 0 : 1, "|", start.weights)),
       .shown = WeightsText(options.saving),
       .advice = "give all ranks copies of the same files"},
  };
}

absl::Status CheckAgreement(const std::vector<RunTrait>& mine, Communicator& world,
                            absl::Duration timeout) {
  // Halves, since an all-gather carries doubles.
  std::vector<double> halves;
  for (const RunTrait& trait : mine) {
    halves.push_back(static_cast<double>(trait.hash >> 32U));
    halves.push_back(static_cast<double>(trait.hash & 0xffffffffU));
  }
  std::vector<double> all(halves.size() * static_cast<size_t>(world.size()));
  absl::Status status = world.AllGather(halves, absl::MakeSpan(all), Instant::Now() + timeout);
  if (!status.ok()) return status;
  std::string differences, advice;
  for (size_t trait = 0; trait < mine.size(); ++trait) {
    std::vector<int> others;
    for (int rank = 1; rank < world.size(); ++rank) {
      const size_t at = static_cast<size_t>(rank) * halves.size() + 2 * trait;
      if (all[at] != all[2 * trait] || all[at + 1] != all[2 * trait + 1]) others.push_back(rank);
    }
    if (others.empty()) continue;
    absl::StrAppend(&differences, differences.empty() ? "" : "; ", mine[trait].name, " (",
                    RanksText(others));
    if (!mine[trait].shown.empty()) {  // on all ranks, since they have found the same
      const absl::StatusOr<std::vector<std::string>> texts =
          GatherTexts(mine[trait].shown, world, timeout);
      if (!texts.ok()) return texts.status();
      absl::StrAppend(&differences, ": ", (*texts)[static_cast<size_t>(others.front())],
                      "; rank 0: ", texts->front());
    }
    absl::StrAppend(&differences, ")");
    if (!mine[trait].advice.empty()) absl::StrAppend(&advice, ". ", mine[trait].advice);
  }
  if (differences.empty()) return absl::OkStatus();
  return WithWhere(
      absl::FailedPreconditionError(absl::StrCat(
          "not all ranks were started alike; different from rank 0: ", differences, advice)),
      {.moment = Where::Moment::kAgreement});
}

}  // namespace sluice
