#include "pipeline/compile/replicas/check_replicas.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/compile/replicas/tied_parameters.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

// Every rank exchanges messages with every other rank in each step, so a larger number can only be
// a mistake.
constexpr int kMostReplicas = 1024;

// What keeps a timetable from being run by several ranks per stage; "" where nothing does.
std::string WhyNotReplicated(const Timetable& table) {
  if (table.updates != WeightUpdates::kFlush)
    return "changes the weights without a flush, at which ranks could agree";
  if (table.placement.copies() > 1) return "has two copies of the model already";
  return "";
}

absl::Status CheckPipelines(const RunPlan& plan) {
  const RunRequest& request = plan.request;
  if (const std::string why = WhyNotReplicated(plan.lowered); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(request.replicas, " replicas: schedule '",
                                                   plan.lowered.name, "' ", why,
                                                   "; take another schedule, or one replica"));
  }
  const int groups = plan.sum_groups();
  const int micro_batches = plan.global_micro_batches();
  if (groups < 1 || groups % request.replicas != 0 || micro_batches % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients cannot be summed in ", Counted(groups, "group"), " by ",
                     Counted(request.replicas, "replica"), " with ",
                     Counted(plan.step_micro_batches(), "micro-batch"),
                     " each: give --sum-groups a multiple of the replicas that divides all ",
                     micro_batches, " micro-batches"));
  }
  if (plan.zero() == 2 && groups == request.replicas && micro_batches > groups) {
    return absl::InvalidArgumentError(
        absl::StrCat("ZeRO 2 would save nothing with ", groups,
                     " groups of gradients: each replica sums all of ", "its ",
                     Counted(plan.step_micro_batches(), "micro-batch"),
                     " before the replicas can be summed, and ",
                     "keeps whole gradients meanwhile; sum in more groups, best in ", micro_batches,
                     ", or take ZeRO 1"));
  }
  return absl::OkStatus();
}

// Whether every member of each stage gets the same number of groups.
absl::Status CheckDeal(const RunPlan& plan) {
  const std::vector<int>& members = plan.request.stage_members;
  const int groups = plan.sum_groups();
  const int micro_batches = plan.step_micro_batches();
  if (groups < 1 || micro_batches % groups != 0) return absl::OkStatus();  // compiling says it
  for (size_t stage = 0; stage < members.size(); ++stage) {
    if (groups % members[stage] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        Counted(micro_batches, "micro-batch"), " in ", Counted(groups, "sum"),
        " cannot be dealt to the ", Counted(members[stage], "rank"), " of stage ", stage,
        " in turn, one sum per rank: give ",
        "--sum-groups, and so --micro-batches, that every stage's number of ranks divides"));
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const RunPlan& plan) {
  const std::string given = absl::StrJoin(plan.request.stage_members, ",");
  if (plan.request.zero == 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stage replicas ", given, ": ZeRO 2 sums gradients within a micro-batch's backward, in ",
        "which ranks with different micro-batches would wait for each other; take ZeRO 1"));
  }
  for (const TiedPair& pair : TiedPairs(plan)) {
    if (plan.zero() == 0 ||
        plan.GroupOf(pair.original_rank).size == plan.GroupOf(pair.copy_rank).size)
      continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "stage replicas ", given, ": the model's head and embedding are tied, and the stages that ",
        "hold them have different numbers of ranks, which cannot divide them alike; take ZeRO 0, "
        "or ",
        "train without --tied"));
  }
  return CheckDeal(plan);
}

}  // namespace

absl::Status CheckStageMembers(const RunRequest& request, const Timetable& table) {
  const std::vector<int>& members = request.stage_members;
  if (members.empty()) return absl::OkStatus();
  const std::string given = absl::StrJoin(members, ",");
  std::string why = WhyNotReplicated(table);
  if (why.empty() && table.placement.chunks() > 1) why = "gives a rank several stages";
  if (!why.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage replicas ", given, ": schedule '", table.name, "' ", why,
                     "; take another schedule, or one rank per stage"));
  }
  if (request.replicas != 1) {
    return absl::InvalidArgumentError(absl::StrCat("stage replicas ", given, " and ",
                                                   Counted(request.replicas, "replica"),
                                                   " of the whole pipeline: give one of the two"));
  }
  if (static_cast<int>(members.size()) != table.placement.stages()) {
    return absl::InvalidArgumentError(absl::StrCat("stage replicas ", given, " are of ",
                                                   Counted(members.size(), "stage"), "; schedule '",
                                                   table.name, "' has ", table.placement.stages()));
  }
  int64_t ranks = 0;
  for (const int count : members) {
    ranks += count;
    if (count >= 1 && ranks <= kMostReplicas) continue;
    return absl::InvalidArgumentError(absl::StrCat("stage replicas ", given,
                                                   ": expected 1 or more for each stage, and ",
                                                   kMostReplicas, " ranks at most"));
  }
  return absl::OkStatus();
}

absl::Status CheckReplicas(const RunPlan& plan) {
  const RunRequest& request = plan.request;
  if (request.replicas < 1 || request.replicas > kMostReplicas) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.replicas, " replicas; expected 1 to ", kMostReplicas));
  }
  if (request.zero < 0 || request.zero > 2)
    return absl::InvalidArgumentError(absl::StrCat("ZeRO ", request.zero, "; expected 0, 1 or 2"));
  if (plan.has_stage_members()) return CheckStages(plan);
  return request.replicas == 1 ? absl::OkStatus() : CheckPipelines(plan);
}

}  // namespace sluice
