#include "pipeline/compile/program/program_request.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"
#include "schedules/sum_order.h"

namespace sluice {
namespace {

absl::Status CheckGroups(const ProgramRequest& request) {
  const Timetable& table = *request.timetable;
  const int groups = request.sum_groups;
  if (groups < 1 || table.micro_batches % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients cannot be summed in ", Counted(groups, "group"), " of ",
                     Counted(table.micro_batches, "micro-batch"), "; give --sum-groups a divisor"));
  }
  if (groups > 1 && (table.placement.copies() > 1 || table.updates != WeightUpdates::kFlush)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients cannot be summed in ", groups, " groups: schedule '", table.name, "' ",
        table.placement.copies() > 1
            ? absl::StrCat("has ", table.placement.copies(), ", one a copy of the model")
            : std::string("changes the weights as gradients come, without a step to sum over")));
  }
  const SumOrder order = SumOrder::Of(table);
  if (groups > 1 && !order.ascending()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients cannot be summed in ", groups, " groups: schedule '", table.name,
        "' sums the micro-batches in ", order.ToString(), " order, in which groups of ",
        "consecutive micro-batches are not complete one after another; give --sum-groups 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const ProgramRequest& request) {
  const Partition& partition = *request.partition;
  const auto stages = static_cast<size_t>(request.timetable->placement.model_stages());
  if (partition.size() != stages || request.recompute.size() != stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schedule has ", Counted(stages, "stage"), ", the partition ", partition.size(),
        " and the recomputation policy ", request.recompute.size(), "; they must agree"));
  }
  if (partition.back().last + 1 != static_cast<int>(request.layers->size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the partition ", FormatPartition(partition), " ends at layer ", partition.back().last,
        ", the model at layer ", static_cast<int>(request.layers->size()) - 1));
  }
  return CheckGroups(request);
}

}  // namespace sluice
