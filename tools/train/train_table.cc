#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "comm/printable.h"
#include "models/spec/costs/describe_layers.h"
#include "pipeline/state/rank_state.h"
#include "schedules/counted.h"
#include "schedules/sum_order.h"
#include "tools/train/train_output.h"

namespace sluice {
namespace {

constexpr int kRows = 20;  // of the table, however many steps there are
constexpr int kBarWidth = 32;

std::string Seconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

std::string Grouped(int64_t value) {
  std::string digits = absl::StrCat(value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

// Fixed notation while that fits the column.
std::string Number(double value, int decimals) {
  constexpr double kWidest = 999;
  if (value > kWidest) return absl::StrFormat("%.2e", value);
  return absl::StrFormat("%.*f", decimals, value);
}

std::string LeftTime(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The largest arena of one rank of the pipeline, over all replicas.
int64_t LargestArena(const RunPlan& plan, int rank) {
  int64_t largest = 0;
  for (int at = rank; at < plan.world_size(); at += plan.ranks())
    largest = std::max(largest, plan.arenas[static_cast<size_t>(at)].memory.total);
  return largest;
}

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// A line on the part of each rank's memory that is for another's state; "" without a mirror.
std::string MirrorText(const RunPlan& plan) {
  if (!plan.mirrors()) return "";
  std::string text = "mirror    of that";
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    absl::StrAppendFormat(&text, "%s rank %d: %.1f MiB for rank %d", rank == 0 ? "" : ",", rank,
                          MiB(plan.arenas[static_cast<size_t>(rank)].memory.mirror),
                          plan.MirroredRank(rank));
  }
  return text + "\n";
}

int64_t TrainedParameters(const RunPlan& plan) {
  int64_t elements = 0;
  for (const ParameterDecl* decl : CanonicalParameters(plan)) {
    if (decl->tied_to.empty()) elements += TrainedElements(*decl);
  }
  return elements;
}

class TableOutput : public TrainOutput {
 public:
  explicit TableOutput(TextWriter* writer) : writer_(*writer) {}

  void Start(const RunPlan& plan, const Dataset& data, int64_t steps) override {
    steps_ = steps;
    const RunRequest& request = plan.request;
    const Timetable& table = plan.lowered;
    Print("model     %s, %s parameters, %d layers\n", request.spec.name,
          Grouped(ParameterCount(request.spec)), request.spec.layer_count());
    if (const std::string trained = request.adaptation.ToString(); !trained.empty()) {
      Print("trained   %s parameters: %s\n", Grouped(TrainedParameters(plan)), trained);
    }
    Print("data      %s\n", data.description());
    Print("pipeline  %s: %s, %s, %s of %s x %s %s\n", table.name, Counted(plan.ranks(), "rank"),
          Counted(table.placement.stages(), "stage"),
          Counted(plan.step_micro_batches(), "micro-batch"), Grouped(request.batch.size),
          Grouped(request.batch.seq), DTypeName(request.dtype));
    if (plan.asynchronous()) {
      Print("updates   every %d micro-batch%s, without a flush for %d steps\n",
            plan.update_micro_batches(), plan.update_micro_batches() == 1 ? "" : "es",
            plan.window_steps());
    }
    if (const SumOrder order = SumOrder::Of(table); !order.ascending()) {
      Print(
          "sums      gradients of micro-batches in %s order: other bits than in ascending order\n",
          order.ToString());
    }
    if (HasOverlappedPairs(table))
      Print("overlap   pairs run one after the other on a CPU, as predicted and measured\n");
    if (plan.replicas() > 1) {
      Print("replicas  %d: %d micro-batches per step, gradients summed in %d groups%s\n",
            plan.replicas(), plan.global_micro_batches(), plan.sum_groups(),
            plan.zero() == 0 ? "" : absl::StrCat(", ZeRO ", plan.zero()));
    }
    if (plan.has_stage_members()) {
      Print("replicas  %s of the stages, gradients summed in %d groups%s\n",
            absl::StrJoin(request.stage_members, ", "), plan.sum_groups(),
            plan.zero() == 0 ? "" : absl::StrCat(", ZeRO ", plan.zero()));
    }
    Print("layers    %s\n", FormatPartition(request.partition));
    Print("memory   ");
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      Print("%s rank %d: %.1f MiB", rank == 0 ? "" : ",", rank, MiB(LargestArena(plan, rank)));
    }
    Print("\n%s\n", MirrorText(plan));
    Print("%7s %9s %9s %8s %9s %9s %7s  %s\n", "step", "loss", "grad norm", "lr", "step time",
          "tokens/s", "GFLOP/s", "bubble (plan)");
    start_ = std::chrono::steady_clock::now();
  }

  void TakeOver(const RunPlan&, int64_t steps) override {
    steps_ = steps;
    first_ = -1;  // its row has been printed
    start_ = std::chrono::steady_clock::now();
  }

  void Resumed(const ResumedRun& run) override { steps_ = run.steps; }

  void Continued(const ContinuedRun& run) override {
    ClearBar();
    const std::string after =
        run.seconds ? absl::StrFormat(", %.2f s after the loss", *run.seconds) : "";
    Print("%s go%s on after step %d, with the state from %s%s\n", Counted(run.ranks, "rank"),
          run.ranks == 1 ? "es" : "", run.step, run.source, after);
    if (run.replanned.empty()) return;
    Print("  %s: %s, %s, layers %s\n", run.replanned, Counted(run.stages, "stage"),
          Counted(run.replicas, "replica"), run.partition);
  }

  void Corrected(const CorrectedRun& run) override {
    ClearBar();
    std::string removed;
    for (const std::string& path : run.removed)
      absl::StrAppend(&removed, removed.empty() ? "; removed " : ", ", BaseName(path));
    const std::string again =
        run.source == "memory"
            ? "what the others hold and have shown is right"
            : absl::StrCat("steps from ", run.step + 1, " on are shown again, corrected");
    Print("rank %d has computed wrong, as step %d found: %s%s\n", run.lie.rank, run.lie.step, again,
          removed);
  }

  void Step(const StepMetrics& m) override {
    if (first_ == 0) first_ = m.step;
    if (from_ == 0) from_ = m.step;
    const int64_t every = std::max<int64_t>(1, steps_ / kRows);
    if (m.step == first_ || m.step % every == 0 || m.step == steps_) {
      ClearBar();
      if (m.brought()) {
        Print("%7s %9s %9s %8.2g\n", Grouped(m.step), Number(m.loss, 5), Number(m.grad_norm, 4),
              m.lr);
        return;
      }
      Print("%7s %9s %9s %8.2g %9s %9s %7.1f %6.1f %% (%.0f %%)\n", Grouped(m.step),
            Number(m.loss, 5), Number(m.grad_norm, 4), m.lr, Seconds(m.step_seconds),
            Grouped(static_cast<int64_t>(m.tokens_per_second)), m.flops_per_second / 1e9,
            100 * m.bubble, 100 * m.predicted_bubble);
    }
    DrawBar(m.step, m.loss);
  }

  void Evaluated(const Evaluation& e) override {
    ClearBar();
    Print("%7s validation: loss %.5f, accuracy %.2f %% over %s samples\n", Grouped(e.step), e.loss,
          100 * e.accuracy, Grouped(e.samples));
  }

  void Saved(const SaveOutcome& saved) override {
    ClearBar();
    std::string removed;
    for (const std::string& path : saved.removed)
      absl::StrAppend(&removed, removed.empty() ? ", removed " : ", ", BaseName(path));
    Print("%7s saved %s%s\n", "", saved.path, removed);
  }

  void Slow(const SlowStage& slow) override {
    ClearBar();
    Print("%7s stage %d (rank %d) takes %.1f times as long as before, the others %.1f\n", "",
          slow.stage, slow.rank, slow.factor, slow.others);
  }

  void Gained(const ReplanGain& gain) override {
    ClearBar();
    Print("%7s a step takes %s since the work was divided anew, %s before; expected: %s\n", "",
          Seconds(gain.step_seconds), Seconds(gain.before_seconds), Seconds(gain.expected_seconds));
  }

  void Done(const TrainSummary& s) override {
    ClearBar();
    Print("\n%s after step %s", s.interrupted ? "interrupted" : "done", Grouped(s.steps));
    if (s.steps_taken > 0) {
      Print(": loss %.5f, median step %s, %s tokens/s", s.final_loss,
            Seconds(s.median_step_seconds), Grouped(static_cast<int64_t>(s.tokens_per_second)));
    }
    Print("\n");
    if (s.staleness.has_value()) {
      Print("staleness at most %s, %.2f on average\n", Counted(s.staleness->max, "update"),
            s.staleness->mean);
    }
    if (s.audits.has_value()) {
      Print(
          "audits    %s, %s micro-batches computed again, all bits equal: %s, %.2f %% of the "
          "time\n",
          Grouped(s.audits->audits), Grouped(s.audits->micro_batches), Seconds(s.audits->seconds),
          100 * s.audit_share);
    }
    Print("weights   %016x\n", s.weights_hash);
    if (!s.checkpoint.empty()) Print("saved     %s\n", s.checkpoint);
  }

 private:
  template <typename... Values>
  void Print(const absl::FormatSpec<Values...>& format, const Values&... values) {
    // Names come from files.
    writer_.Write(ToPrintable(absl::StrFormat(format, values...)));
  }

  void DrawBar(int64_t step, float loss) {
    if (!bar_ || steps_ <= 0) return;
    const double elapsed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const auto done = static_cast<double>(step - from_ + 1);
    const double left = elapsed / done * static_cast<double>(steps_ - step);
    const auto filled = static_cast<int>(kBarWidth * step / steps_);
    writer_.WriteTo(STDERR_FILENO,
                    absl::StrFormat("\r[%s%s] %s/%s  loss %.4f  %s left ",
                                    std::string(static_cast<size_t>(filled), '#'),
                                    std::string(static_cast<size_t>(kBarWidth - filled), '.'),
                                    Grouped(step), Grouped(steps_), loss, LeftTime(left)),
                    /*replaceable=*/true);
    drawn_ = true;
  }

  void ClearBar() {
    if (drawn_) writer_.WriteTo(STDERR_FILENO, "\r\033[K");
    drawn_ = false;
  }

  TextWriter& writer_;
  const bool bar_ = isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
  int64_t steps_ = 0;
  int64_t first_ = 0;
  int64_t from_ = 0;  // the first step since start_
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

bool HasOverlappedPairs(const Timetable& timetable) {
  return std::any_of(timetable.rows.begin(), timetable.rows.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const Action& a) { return a.overlaps_next; });
  });
}

std::unique_ptr<TrainOutput> MakeTableOutput(TextWriter* writer) {
  return std::make_unique<TableOutput>(writer);
}

}  // namespace sluice
