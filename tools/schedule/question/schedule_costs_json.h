#ifndef SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_COSTS_JSON_H_
#define SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_COSTS_JSON_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/simulate/stage_costs.h"

namespace sluice {

struct ScheduleCosts {
  StageCosts stages;
  std::vector<double> device_memory;  // bytes per rank; empty when not given
  bool seconds = false;               // durations are seconds, not those of some unit
};

// I, W and B, one value per stage, as far as they are given. B = I + W unless given; B without I
// and W means I = W = B / 2; the default of each is 1.
struct BackwardCosts {
  std::optional<std::vector<double>> input_grad, weight_grad, whole;

  void CompleteInto(int stages, StageCosts& costs);
};

// The file of `--costs`: an object of which every field may be left out:
//   F, I, W, B          [per stage] durations, as BackwardCosts says
//   RECOMPUTE           [per stage] its duration; without it as long as F
//   overlap             duration of an overlapped pair
//   send                latency of each edge between stages: a number or [per edge]
//   send_bytes          what one micro-batch sends over each edge, each way: a number or [per edge]
//   bandwidth           bytes per unit of time of each edge: a number or [per edge]; with
//                       send_bytes. A message takes send + send_bytes / bandwidth, and holds its
//                       link for the second part
//   rank_speed          [per rank] factors; durations on a rank are divided by its own
//   activation_bytes    [per stage] held from the start of F to the end of B or I
//   weight_grad_bytes   [per stage] held from the end of I to the end of W; may be more
//   device_memory       [per rank]
//   checkpoint_bytes    [per stage] what stays of activation_bytes between F and RECOMPUTE
class CostsFile {
 public:
  // `name` stands for the file in errors, which give line and column. InvalidArgument for anything
  // but a JSON object, and for repeated fields.
  static absl::StatusOr<CostsFile> Parse(std::string text, std::string name);

  const std::string& name() const { return name_; }
  // The costs of a table on `placement`. InvalidArgument for unknown fields, lists of the wrong
  // length, and numbers that are negative or not finite.
  absl::StatusOr<ScheduleCosts> On(const Placement& placement) const;

 private:
  CostsFile() = default;

  std::string text_, name_;
  std::shared_ptr<const nlohmann::json> document_;  // shared by copies and never changed
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_COSTS_JSON_H_
