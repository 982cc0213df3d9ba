#include "pipeline/compile/program/gradient_sums.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/collectives/reduce_scatter_work.h"
#include "schedules/weight_versions.h"

namespace sluice {

GradientSums::GradientSums(const ProgramRequest& request, ProgramBuilder* builder)
    : request_(request),
      table_(*request.timetable),
      order_(SumOrder::Of(table_)),
      builder_(*builder) {}

int GradientSums::GroupOf(int micro_batch) const {
  return static_cast<int>(int64_t{micro_batch} * request_.sum_groups / table_.micro_batches);
}

int GradientSums::members() const {
  return request_.deal->members(builder_.program().stages.front().stage);
}

bool GradientSums::Starts(int micro_batch) const {
  const int position = order_.position(micro_batch);
  if (position == 0) return true;
  if (position % MicroBatchesPerUpdate(table_) == 0) return true;
  const int before = order_.micro_batch(position - 1);
  return GroupOf(micro_batch) != GroupOf(before) || table_.copy(micro_batch) != table_.copy(before);
}

bool GradientSums::Ends(int micro_batch) const {
  const int next = order_.position(micro_batch) + 1;
  return next == table_.micro_batches || Starts(order_.micro_batch(next));
}

size_t GradientSums::LocalStage(const Action& action) const {
  const std::vector<RankStage>& stages = builder_.program().stages;
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const RankStage& stage) {
    return stage.stage == action.stage;
  });
  return static_cast<size_t>(found - stages.begin());
}

// The members of a stage must all come to a sum at the same place in the stage's row: before that
// place any of them may have work on which another member's part of the sum depends. So the sum
// waits until the row begins with the gradients of the next round of groups, whichever member has
// them. That is also when the memory of the sum is needed again.
void GradientSums::BeforeGradients(const Action& action) {
  const int round = action.micro_batch / request_.deal->round(action.stage);
  if (std::exchange(round_, round) != round) Finish();
}

void GradientSums::AfterLayer(const Action& action, int local_layer, BufferId gradients) {
  if (Ends(action.micro_batch)) Reduce(action, local_layer, local_layer, gradients);
}

void GradientSums::AddGroup(const Action& action) {
  const int mb = action.micro_batch;
  if (group_size() > 1 || !Ends(mb) || GroupOf(mb) == 0) return;
  builder_.Append({.step = Step::kAddGroup,
                   .micro_batch = mb,
                   .index = static_cast<int32_t>(LocalStage(action))});
}

void GradientSums::AfterStage(const Action& action) {
  if (group_size() == 1 || request_.shard_gradients || !Ends(action.micro_batch)) return;
  if (members() > 1) {
    to_reduce_ = action;
  } else {
    ReduceStage(action);
  }
}

void GradientSums::Finish() {
  if (!to_reduce_.has_value()) return;
  ReduceStage(*to_reduce_);
  to_reduce_.reset();
}

void GradientSums::ReduceStage(const Action& action) {
  const RankStage& stage = builder_.program().stages[LocalStage(action)];
  Reduce(action, stage.first, stage.last, kNoBuffer);
}

void GradientSums::Reduce(const Action& action, int first, int last, BufferId gradients) {
  const int mb = action.micro_batch;
  const int64_t largest = LargestSlice(first, last);
  if (largest == 0) return;  // no parameters
  const bool last_group = OwnGroupOf(mb) + 1 == request_.sum_groups / members();
  builder_.Reduce({.first = first,
                   .last = last,
                   .starts = OwnGroupOf(mb) == 0,
                   .second_gradient = OwnGroupOf(mb) > 0,
                   .gather = last_group && request_.gather_gradients,
                   .gradients = gradients,
                   .work_elements = ReduceScatterWorkBytes(group_size(), largest) /
                                    static_cast<int64_t>(SizeOf(DType::kFloat32))},
                  mb);
}

int64_t GradientSums::LargestSlice(int first, int last) const {
  int64_t largest = 0;
  for (int local = first; local <= last; ++local) {
    const auto layer = static_cast<size_t>(builder_.program().layers[static_cast<size_t>(local)]);
    size_t parameter = 0;
    for (size_t before = 0; before < layer; ++before)
      parameter += (*request_.layers)[before].parameters.size();
    for (size_t p = 0; p < (*request_.layers)[layer].parameters.size(); ++p) {
      if ((*request_.layers)[layer].parameters[p].frozen) continue;
      const std::vector<int64_t>& bounds = (*request_.shards)[parameter + p];
      for (size_t k = 0; k + 1 < bounds.size(); ++k)
        largest = std::max(largest, bounds[k + 1] - bounds[k]);
    }
  }
  return largest;
}

}  // namespace sluice
