#ifndef SLUICE_SCHEDULES_PYTORCH_H_
#define SLUICE_SCHEDULES_PYTORCH_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/timetable.h"

// Timetables that PyTorch's torch.distributed.pipelining runs: _PipelineScheduleRuntime._load_csv
// with format="compute_comms" does what each cell says, and nothing else.
namespace sluice {

enum class PyTorchVersion {
  // Rows hold sends and receives; gradients are divided, and sends ended, by the runtime. It has no
  // overlapped pairs: their halves are cells of their own, which run one after the other.
  k2_8,
  k2_15,  // also has pairs; rows also say when gradients are divided and reduced, and when each send has ended
};

// "2.8", "2.15": the names of these, in their order.
inline constexpr const char* kPyTorchVersions[] = {"2.8", "2.15"};
// The version of that name; nullopt where there is none.
std::optional<PyTorchVersion> PyTorchVersionNamed(absl::string_view name);

struct PyTorchOptions {
  PyTorchVersion version = PyTorchVersion::k2_15;
  // For stages whose parameters are sharded (FSDP): the most stages of a rank whose parameters are
  // gathered at once, as PyTorch's max_active_stages. UNSHARD and RESHARD are added for them, at
  // the places where PyTorch's own lowering has them. 0 adds none.
  int max_active_stages = 0;
};

// Why PyTorch has no way to run `timetable`, as the end of a sentence: "its weights change while
// micro-batches are in flight"; empty where it has.
std::string WhyNotForPyTorch(const Timetable& timetable);

// `timetable` with everything that PyTorch needs to run it, and without OPTIMIZER_STEP, which is
// the caller's there. A compute-only table is lowered first (see LowerTimetable). A table that is
// lowered keeps its rows, and gets only what is absent: a file that PyTorch wrote comes back as it
// was, but for 2.8 without what that does not have. For 2.15:
// - REDUCE_GRAD and WAIT_REDUCE_GRAD of each stage after its last weight gradient, and after the
//   send that follows it. Without them, PyTorch leaves gradients undivided by the micro-batches.
// - WAIT_SEND_F of a stage and micro-batch after their backward, by which the peer has its input;
//   all other waits at the end of the row.
// InvalidArgument where LowerTimetable has one, where WhyNotForPyTorch says why, and where an
// overlapped pair needs more than max_active_stages stages.
absl::StatusOr<Timetable> LowerForPyTorch(const Timetable& timetable,
                                          const PyTorchOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_PYTORCH_H_
