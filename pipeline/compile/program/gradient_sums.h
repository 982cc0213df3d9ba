#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_GRADIENT_SUMS_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_GRADIENT_SUMS_H_

#include <cstdint>
#include <optional>

#include "pipeline/compile/program/program_builder.h"
#include "pipeline/compile/program/program_request.h"
#include "schedules/sum_order.h"

namespace sluice {

// Which micro-batches' gradients a rank sums together, and the instructions that pass complete sums
// on: to the sums of the groups before them, or to the ranks that sum with this one.
class GradientSums {
 public:
  // Both must outlive this; the builder's program lists the rank's stages and layers before the
  // first call.
  GradientSums(const ProgramRequest& request, ProgramBuilder* builder);

  // Whether the gradient of `micro_batch` overwrites those before it, which have been used or are
  // kept elsewhere.
  bool Starts(int micro_batch) const;
  // Whether it is the last of its group.
  bool Ends(int micro_batch) const;
  // Whether groups of this rank came before its own, so that it is summed in a place of its own.
  bool HasGroupBefore(int micro_batch) const { return OwnGroupOf(micro_batch) > 0; }
  // Whether a layer's gradients live only until they are summed over ranks (ZeRO-2).
  bool ShardsLayers() const { return request_.shard_gradients && group_size() > 1; }

  // For an action of the row, whichever rank's it is, that makes gradients of weights: before it.
  void BeforeGradients(const Action& action);
  // After a layer's gradient of the action, where ShardsLayers: `gradients` hold the group's.
  void AfterLayer(const Action& action, int local_layer, BufferId gradients);
  // At the end of the action: adds the sum of a group that is complete to those before it.
  void AddGroup(const Action& action);
  // After the action, so that the previous stage need not wait for it: sums the stage's gradients
  // over replicas or members once they include a whole group of micro-batches.
  void AfterStage(const Action& action);
  // At the end of the row.
  void Finish();

 private:
  // The group of micro-batches in which gradients of `micro_batch` are summed.
  int GroupOf(int micro_batch) const;
  // The index of that group among the groups of this rank.
  int OwnGroupOf(int micro_batch) const { return GroupOf(micro_batch) / members(); }
  // Members of this rank's stage; ranks that sum gradients together, this one included.
  int members() const;
  int group_size() const { return request_.replicas * members(); }
  size_t LocalStage(const Action& action) const;
  void ReduceStage(const Action& action);
  void Reduce(const Action& action, int first, int last, BufferId gradients);
  // Elements of the largest slice of any parameter of local layers first..last, on any rank that
  // has one.
  int64_t LargestSlice(int first, int last) const;

  const ProgramRequest& request_;
  const Timetable& table_;
  const SumOrder order_;
  ProgramBuilder& builder_;
  int round_ = 0;                    // of the stage's groups, where it has several members
  std::optional<Action> to_reduce_;  // the last gradient of a complete round that is not summed yet
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_GRADIENT_SUMS_H_
