#include "pipeline/train/rank_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/progress.h"
#include "comm/watched_communicator.h"
#include "comm/where.h"
#include "models/device/out_of_memory.h"
#include "pipeline/audit/finding.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/run/marks.h"
#include "pipeline/state/gradient_exchange.h"
#include "pipeline/state/mirror.h"
#include "pipeline/state/rounds.h"
#include "pipeline/train/base_hash.h"
#include "pipeline/train/diagnosis.h"
#include "pipeline/train/run_checkpoint.h"
#include "pipeline/train/weights_hash.h"

namespace sluice {
namespace {

// The ranks of this one's pipeline; null where they are the world.
std::unique_ptr<SubGroup> PipelineOf(const RankState& state, Communicator* world) {
  const RunPlan& plan = state.plan();
  if (plan.replicas() == 1) return nullptr;
  std::vector<int> ranks;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    ranks.push_back(state.replica() * plan.ranks() + rank);
  return std::make_unique<SubGroup>(world, ranks);
}

// The ranks that sum gradients with this one; null where there is no other.
std::unique_ptr<SubGroup> GroupOf(const RankState& state, Communicator* world) {
  const RankGroup group = state.plan().GroupOf(state.world_rank());
  if (group.size == 1) return nullptr;
  std::vector<int> ranks;
  for (int k = 0; k < group.size; ++k) ranks.push_back(group.rank(k));
  return std::make_unique<SubGroup>(world, ranks);
}

AgreedStep Agreed(int64_t step, const StepReport& report) {
  return {.step = step,
          .known = true,
          .loss = report.loss,
          .loss_sum = report.loss_sum,
          .targets = static_cast<double>(report.targets),
          .correct = static_cast<double>(report.correct),
          .grad_norm = report.grad_norm};
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RankTrainer::RankTrainer(const RunContext& context, RankState* state, Communicator* world,
                         Communicator* tensors, std::atomic<Action>* at)
    : context_(context),
      plan_(*context.plan),
      options_(*context.options),
      state_(*state),
      at_(at),
      world_(*world),
      pipeline_group_(PipelineOf(*state, tensors)),
      tensor_group_(GroupOf(*state, tensors)),
      host_group_(GroupOf(*state, world)),
      pipeline_(pipeline_group_ != nullptr ? *pipeline_group_ : *tensors),
      group_(tensor_group_.get()),
      train_(state, state->train_program(), state->layout().train, &pipeline_, context.data,
             group_),
      evaluate_(state, state->evaluate_program(), state->layout().evaluate, &pipeline_,
                context.data),
      updates_(state, options_.training.optimizer, options_.training.steps),
      gradient_norms_(state, host_group_.get()),
      norms_(CanonicalParameters(plan_).size()),
      reporter_(plan_, static_cast<int>(norms_.size())),
      metrics_(plan_),
      slow_stages_(StagesOnRanks(plan_)),
      state_check_(*state, options_, world),
      audits_(state, world, tensors, options_.watching.timeout),
      saved_step_(context.history.saved),
      trace_(*state,
             options_.watching.trace ? std::optional(options_.watching.trace_steps) : std::nullopt,
             kMostTraceEvents, options_.watching.trace_parts),
      past_(context.history.steps),
      last_(context.last),
      evaluated_step_(context.history.evaluated) {
  frozen_hash_ = context.history.frozen_hash;
  if (!leader() || saved_step_ < 0) return;
  const std::filesystem::path directory = options_.saving.directory;
  saved_path_ = (directory / StepFolderName(saved_step_)).string();
}

void RankTrainer::Hold(HeldState* held) const {
  held->last = last_;
  held->has_next_gradients = has_next_gradients_;
  held->shown_step = shown_step_;
  held->optimizer = options_.training.optimizer;
  held->steps = options_.training.steps;
  // What was queued last may be an update. Its kernels need nothing of other ranks.
  held->device =
      state_.device().Synchronize(state_.stream(), Instant::Now() + options_.watching.timeout);
  held->whole = !torn_ && held->device.ok();
  held->has_mirror = has_mirror_ && held->whole;
  held->history = {.last = last_.step,
                   .steps = past_,
                   .saved = saved_step_,
                   .evaluated = evaluated_step_,
                   .frozen_hash = frozen_hash_};
  held->lie = lie_;
}

Asked RankTrainer::AskedNow() const {
  if (context_.stop != nullptr && context_.stop->load()) return Asked::kStop;
  if (options_.portions != nullptr && options_.portions->EndsEarly()) return Asked::kStop;
  if (context_.regroup != nullptr && context_.regroup->load()) return Asked::kRegroup;
  const bool probe = leader() && context_.events->wants_links && context_.events->wants_links();
  return probe ? Asked::kProbe : Asked::kNothing;
}

absl::Status RankTrainer::Run() {
  absl::Status status = RunSteps();
  if (saving_ != nullptr) {
    if (!status.ok()) world_.Abort(status);  // so that the save ends now
    FinishSave().IgnoreError();              // it may have ended before
  }
  trace_.HandOver();
  return status;
}

absl::Status RankTrainer::RunSteps() {
  const Progress::Phase phase(world_.progress(), "begins or ends the run");
  if (absl::Status status = Begin(); !status.ok()) return status;
  // The group that has taken the last step may have ended before it had done the rest.
  if (!past_.empty()) {
    if (absl::Status status = SaveAndEvaluate(last_.step, /*evaluates=*/true); !status.ok())
      return status;
  }
  const Portion whole{.steps = options_.training.steps - last_.step,
                      .evaluates = true,
                      .saves_to = options_.saving.directory,
                      .hashes = true};
  absl::Status status =
      options_.portions == nullptr ? RunPortion(whole, /*last=*/true) : RunPortions();
  return status.ok() ? Leave() : status;
}

absl::Status RankTrainer::Begin() {
  absl::Status alike = CheckAgreement(context_.traits, world_, options_.watching.timeout);
  if (!alike.ok()) return alike;
  if (absl::Status status = CheckBase(); !status.ok()) return status;
  if (absl::Status status = FillMirror(state_, pipeline_, options_.watching.timeout); !status.ok())
    return status;
  if (!state_.mirrored().empty()) {
    if (absl::Status status = AwaitQueued(); !status.ok()) return status;
    has_mirror_ = true;
  }
  if (absl::Status status = audits_.Begin(); !status.ok()) return status;
  if (leader() && context_.resumed && context_.events->on_resume) {
    context_.events->on_resume(*context_.resumed);
  }
  if (absl::Status status = reporter_.AlignClocks(world_, options_.watching.timeout);
      !status.ok()) {
    return status;
  }
  trace_.SetClockAhead(reporter_.clock_ahead());
  if (absl::Status status = trace_.status(); !status.ok()) return status;
  if (absl::Status status = GatherArenas(); !status.ok()) return status;
  if (leader() && context_.events->on_begin) context_.events->on_begin(context_.last.step);
  if (plan_.audits()) Vouch(context_.vouched_step);
  ShowBroughtStep();
  return absl::OkStatus();
}

absl::Status RankTrainer::RunPortion(const Portion& portion, bool last) {
  const int64_t until = last_.step + std::min(portion.steps, options_.training.steps - last_.step);
  Asked asked = Asked::kNothing;
  // Whoever stopped the run there, or its last portion, did not wait for it.
  if (last_.step < until && EvaluationIsDue(last_.step)) {
    if (absl::Status status = Evaluate(last_.step); !status.ok()) return status;
  }
  while (last_.step < until) {
    const Progress::Phase one(world_.progress(), "takes a step");
    const double start = Seconds();
    int64_t step = last_.step;
    const int64_t count = StepsToPause(step, until);
    absl::StatusOr<std::vector<StepReport>> reports =
        plan_.asynchronous() ? Window(step, count) : OneStep(step + 1);
    if (!reports.ok()) return AfterTheActions(step + count, reports.status());
    const double seconds = (Seconds() - start) / static_cast<double>(count);
    for (const StepReport& report : *reports)
      past_.push_back({.seconds = seconds, .staleness = metrics_.StalenessAt(report)});
    for (const StepReport& report : *reports) {
      if (absl::Status status = AfterStep(++step, report, seconds); !status.ok()) return status;
    }
    if ((asked = reports->back().asked) > Asked::kProbe) break;
    if (asked != Asked::kProbe) continue;
    if (absl::Status status = MeasureLinks(); !status.ok()) return status;
  }
  if (absl::Status status = EndSaver(); !status.ok()) return status;
  summary_.regroups = asked == Asked::kRegroup && last_.step < until;
  if (summary_.regroups) return absl::OkStatus();
  summary_.interrupted = asked == Asked::kStop && last_.step < until;
  if (absl::Status status = state_check_.Check(last_.step); !status.ok()) return status;
  failed_save_ = absl::OkStatus();  // of those before, somebody was told
  if (last || !summary_.interrupted) {
    if (absl::Status status = SavePortion(portion.saves_to, last); !status.ok()) return status;
  }
  if (portion.evaluates && !summary_.interrupted) {
    if (absl::Status status = Evaluate(last_.step); !status.ok()) return status;
  }
  if (absl::Status status = CheckData(last_.step); !status.ok()) return status;
  Finish(last_.step);
  return portion.hashes ? Hash() : absl::OkStatus();
}

absl::Status RankTrainer::MeasureLinks() {
  const Progress::Phase phase(world_.progress(), "measures the ways to other ranks");
  const absl::StatusOr<std::vector<MeasuredLink>> links =
      ProbeLinks(world_, options_.watching.timeout);
  if (!links.ok()) return links.status();
  if (leader() && context_.events->on_links) context_.events->on_links(*links);
  return absl::OkStatus();
}

absl::Status RankTrainer::SavePortion(const std::string& directory, bool must) {
  if (directory.empty()) return absl::OkStatus();
  if (directory == options_.saving.directory && saved_step_ == last_.step) {
    summary_.checkpoint = saved_path_;
    return absl::OkStatus();
  }
  return SaveNow(last_.step, directory, must);
}

absl::Status RankTrainer::RunPortions() {
  for (int64_t number = 0;; ++number) {
    absl::StatusOr<std::optional<Portion>> next =
        AgreeOnPortion(options_.portions, number, &world_);
    if (!next.ok()) return next.status();
    if (!next->has_value()) return absl::OkStatus();
    Portion& portion = **next;
    if (portion.refused.ok()) {
      const int64_t left = options_.training.steps - last_.step;
      if (left > 0 && portion.steps >= left) {
        portion.evaluates = portion.evaluates || options_.watching.eval_every > 0;
        if (portion.saves_to.empty()) portion.saves_to = options_.saving.directory;
      }
      summary_ = TrainSummary();
      past_.clear();
      if (absl::Status status = RunPortion(portion, /*last=*/false); !status.ok()) return status;
    }
    const absl::Status& status = portion.refused.ok() ? failed_save_ : portion.refused;
    options_.portions->Ended(world_.rank(), status.ok() ? absl::StatusOr<TrainSummary>(summary_)
                                                        : absl::StatusOr<TrainSummary>(status));
  }
}

absl::Status RankTrainer::CheckBase() {
  // Hashing reads all weights, so it is left out where nobody would keep or compare the hash. All
  // ranks have agreed on both.
  const Adaptation& adaptation = plan_.request.adaptation;
  const bool saves = !options_.saving.directory.empty() || !options_.saving.resume.empty() ||
                     options_.portions != nullptr;
  const bool needed = (adaptation.lora.has_value() && saves) || context_.regroup != nullptr;
  const std::string& known = context_.history.frozen_hash;
  const bool is_frozen = adaptation.lora.has_value() || !adaptation.freeze.empty();
  if (!is_frozen || !needed || (!known.empty() && !context_.reads_frozen)) return absl::OkStatus();
  absl::StatusOr<std::string> hash = HashBase(state_, world_, options_.watching.timeout);
  if (!hash.ok()) return hash.status();
  const std::string& init = options_.saving.init;
  const std::string from = init.empty() ? "of the seed" : absl::StrCat("in ", init);
  const bool of_checkpoint = !options_.saving.resume.empty() || known.empty();
  if (of_checkpoint && !context_.base_hash.empty() && context_.base_hash != *hash) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.saving.resume, " is an adapter of other weights than those ", from,
                     " (hash ", context_.base_hash, ", found ", *hash,
                     "); give the weights that it was trained on with ", "--init"));
  }
  if (!known.empty() && known != *hash) {
    return absl::InvalidArgumentError(absl::StrCat(
        "what is frozen has changed since the run began: a rank was lost, and the weights ", from,
        ", from which its own were read again, are others (hash ", known, ", found ", *hash,
        "); keep them as they are while a run trains on them"));
  }
  frozen_hash_ = *std::move(hash);
  return absl::OkStatus();
}

absl::Status RankTrainer::GatherArenas() {
  const auto mine = static_cast<double>(state_.arena().bytes());
  std::vector<double> all(static_cast<size_t>(world_.size()));
  absl::Status status =
      world_.AllGather({&mine, 1}, absl::MakeSpan(all), Instant::Now() + options_.watching.timeout);
  metrics_.SetArenas({all.begin(), all.end()});
  return status;
}

// Says where a peer was missed, unless an action does: while ranks compare and sum what they have.
absl::Status RankTrainer::AfterTheActions(int64_t step, const absl::Status& status) const {
  const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  if (!lost || WhereOf(status).names_work()) return status;
  return WithWhere(status,
                   {.rank = world_.rank(), .moment = Where::Moment::kEndOfStep, .step = step});
}

Pass RankTrainer::TrainPass(int64_t step) const {
  Pass pass;
  pass.first_micro_batch = (step - 1) * plan_.global_micro_batches();
  pass.seed = options_.training.seed;
  pass.timeout = options_.watching.timeout;
  pass.at = at_;
  return pass;
}

// An asynchronous timetable runs without a flush until somebody wants to see the weights.
int64_t RankTrainer::StepsToPause(int64_t step, int64_t until) const {
  int64_t count = std::min<int64_t>(plan_.window_steps(), until - step);
  if (!options_.saving.directory.empty() && options_.saving.every > 0)
    count = std::min(count, options_.saving.every - step % options_.saving.every);
  if (options_.watching.eval_every > 0)
    count = std::min(count, options_.watching.eval_every - step % options_.watching.eval_every);
  return count;
}

absl::StatusOr<std::vector<StepReport>> RankTrainer::Window(int64_t step, int64_t count) {
  torn_ = true;
  updates_.Begin(step);
  Pass pass = TrainPass(step + 1);
  pass.micro_batches = static_cast<int>(count) * plan_.step_micro_batches();
  trace_.HandOver();
  pass.instructions = trace_.ClockOf(step + 1, count);
  pass.update = [this](const StageUpdate& update, int micro_batch) {
    updates_.Apply(update, micro_batch);
  };
  if (absl::Status status = train_.Run(pass); !status.ok()) return status;
  state_.Settle();
  trace_.AppendPass(step + 1, count);
  absl::StatusOr<std::vector<StepReport>> reports = [&] {
    const auto phase = trace_.In(TracePhase::kReport, step + count);
    return reporter_.GatherSteps(train_, updates_.norms(), AskedNow(), world_,
                                 options_.watching.timeout, count);
  }();
  if (!reports.ok()) return reports;
  torn_ = false;
  for (const StepReport& report : *reports) {
    ++step;
    if (std::isfinite(report.loss) && std::isfinite(report.grad_norm)) continue;
    return Diverged(step, report);
  }
  last_ = Agreed(step, reports->back());
  return reports;
}

absl::Status RankTrainer::Diverged(int64_t step, const StepReport& report) {
  absl::StatusOr<std::string> bad = state_check_.NotFinite();
  if (!bad.ok()) return bad.status();
  return state_check_.GiveUp(
      absl::FailedPreconditionError(absl::StrCat(
          "step ", step, ": the loss is ", report.loss, " and the gradient's norm ",
          report.grad_norm,
          bad->empty() ? "" : absl::StrCat("; the values of ", *bad, " are no longer all finite"),
          "; asynchronous updates need a smaller learning rate than synchronous ",
          "ones: try a smaller --lr, a --warmup, or a synchronous --schedule")),
      step - 1);
}

absl::StatusOr<std::vector<StepReport>> RankTrainer::OneStep(int64_t step) {
  absl::StatusOr<StepReport> report = Step(step);
  if (!report.ok()) return report.status();
  return std::vector<StepReport>{*std::move(report)};
}

absl::StatusOr<StepReport> RankTrainer::Step(int64_t step) {
  has_next_gradients_ = false;
  trace_.HandOver();
  Pass pass = TrainPass(step);
  pass.instructions = trace_.ClockOf(step, 1);
  pass.audit = audits_.RecordOf(step);
  if (absl::Status status = train_.Run(pass); !status.ok()) return status;
  trace_.AppendPass(step, 1);
  if (absl::Status status = Audit(step, pass); !status.ok()) return status;
  absl::Status status = ExchangeGradients(step);
  if (status.ok()) status = FailureOfQueued();
  if (!status.ok()) return status;
  // Once one rank has left this meeting, all have come to it, with gradients that the update needs
  // nobody for, unless ranks divide it among themselves.
  has_next_gradients_ = state_.zero() == 0;
  const absl::StatusOr<int> broken = audits_.BrokenWeight();
  if (!broken.ok()) return broken.status();
  reporter_.SetBrokenWeight(*broken);
  absl::StatusOr<StepReport> report = [&] {
    const auto phase = trace_.In(TracePhase::kReport, step);
    return reporter_.Gather(train_, norms_, AskedNow(), world_, options_.watching.timeout);
  }();
  if (!report.ok()) return report;
  if (report->broken_rank >= 0) return BrokenWeight(step, *report);
  if (!std::isfinite(report->loss) || !std::isfinite(report->grad_norm)) {
    if (status = EndSaver(); !status.ok()) return status;
    return Diagnose(train_, TrainPass(step), step - 1,
                    [&](const NonFinite& first, const std::string& state) {
                      return DescribeNonFinite(first, state, step, *report, plan_);
                    });
  }
  if (status = AwaitSaver(); !status.ok()) return status;

  const OptimizerOptions& optimizer = options_.training.optimizer;
  const Progress::Phase phase(world_.progress(), "updates weights");
  const auto traced = trace_.In(TracePhase::kUpdate, step);
  torn_ = true;
  status = UpdateWeights(state_, optimizer, LearningRate(optimizer, step, options_.training.steps),
                         GradientScale(optimizer, report->grad_norm), step, group_,
                         options_.watching.timeout);
  // Others may go on with what this rank then holds, which is whole once their parts have arrived.
  if (status.ok() && state_.zero() > 0 && context_.regroup != nullptr) status = AwaitQueued();
  if (!status.ok()) return status;
  torn_ = false;
  has_next_gradients_ = false;
  last_ = Agreed(step, *report);
  audits_.SealWeights();
  return report;
}

// Where messages have failed, the work that waited for them is done all the same.
absl::Status RankTrainer::FailureOfQueued() const {
  return state_.device().queues() ? pipeline_.failure() : absl::OkStatus();
}

absl::Status RankTrainer::AwaitQueued() const {
  const absl::Status done =
      state_.device().Synchronize(state_.stream(), Instant::Now() + options_.watching.timeout);
  return done.ok() ? FailureOfQueued() : done;
}

absl::Status RankTrainer::Audit(int64_t step, const Pass& pass) {
  if (pass.audit == nullptr) return absl::OkStatus();
  absl::StatusOr<std::optional<AuditFinding>> found = [&] {
    const Progress::Phase phase(world_.progress(), "audits another rank");
    const auto traced = trace_.In(TracePhase::kAudit, step);
    return audits_.Compare(step, pass, train_);
  }();
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    Vouch(VouchedAt(step + plan_.request.audit_every));
    return absl::OkStatus();
  }
  const AuditFinding& finding = **found;
  const int64_t good = VouchedAt(step);
  // Before anybody can end this rank: it need not hear from others who lies.
  if (finding.verdict.suspects.size() == 1) {
    lie_ = {.rank = finding.verdict.suspects.front(),
            .stage = finding.stage,
            .micro_batch = finding.micro_batch,
            .step = step,
            .good_step = good};
  }
  if (absl::Status status = EndSaver(); !status.ok()) return status;
  return state_check_.GiveUp(DescribeFinding(finding, step), good);
}

// What has been computed since the last audit that was passed may be wrong, and so may be what that
// audit's own step changed.
int64_t RankTrainer::VouchedAt(int64_t step) const {
  const int64_t passed = audits_.PassedBefore(step);
  return passed < 0 ? context_.vouched_step : passed - 1;
}

SavePoint RankTrainer::PointOf(int64_t step) const {
  SavePoint point{.step = step};
  if (plan_.request.adaptation.lora.has_value()) point.base_hash = frozen_hash_;
  point.evaluation_due = stops_ && EvaluationIsDue(step);
  if (!plan_.audits()) return point;
  // Where audits find something, from which step they will have the run go on by then.
  point.stays = {vouched_step_};
  const int64_t every = plan_.request.audit_every;
  const int64_t first = std::max(vouched_step_, step - audits_.Cycle() - every);
  for (int64_t audit = step / every * every; audit - 1 > first; audit -= every)
    point.stays.push_back(audit - 1);
  return point;
}

void RankTrainer::Vouch(int64_t step) {
  vouched_step_ = step;
  if (leader() && context_.events->on_vouched) context_.events->on_vouched(step);
}

absl::Status RankTrainer::BrokenWeight(int64_t step, const StepReport& report) {
  // What was saved of the step before may have been read after the weights had changed.
  const int64_t good = std::max(step - 2, context_.last.step);
  lie_ = {.rank = static_cast<int32_t>(report.broken_rank),
          .step = step,
          .good_step = good,
          .others_hold_right = true};
  has_next_gradients_ = false;  // of the step that is broken
  if (absl::Status status = EndSaver(); !status.ok()) return status;
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan_);
  const auto broken = static_cast<size_t>(report.broken_weight);
  return state_check_.GiveUp(
      DescribeBrokenWeight(report.broken_rank, parameters[broken]->name, step), good);
}

// What ranks tell each other of the gradients of `step`, and their norm.
absl::Status RankTrainer::ExchangeGradients(int64_t step) {
  const absl::Duration timeout = options_.watching.timeout;
  {
    const auto traced = trace_.In(TracePhase::kGradientExchange, step);
    absl::Status status = ExchangeCopyGradients(state_, pipeline_, timeout);
    if (status.ok()) status = ExchangeTiedGradients(state_, pipeline_, timeout);
    if (status.ok()) status = MirrorGradients(state_, pipeline_, timeout);
    if (!status.ok()) return status;
  }
  const auto traced = trace_.In(TracePhase::kGradientNorm, step);
  return gradient_norms_.Sum(timeout, absl::MakeSpan(norms_));
}

absl::Status RankTrainer::Diagnose(Executor& executor, Pass pass, int64_t step,
                                   const Description& describe) {
  NonFinite mine;
  pass.check_finite = &mine;
  if (absl::Status status = executor.Run(pass); !status.ok()) return status;
  absl::StatusOr<NonFinite> first = FirstNonFinite(mine, world_, options_.watching.timeout);
  if (!first.ok()) return first.status();
  absl::StatusOr<std::string> bad = state_check_.NotFinite();
  if (!bad.ok()) return bad.status();
  return state_check_.GiveUp(describe(*first, *bad), step);
}

absl::Status RankTrainer::AfterStep(int64_t step, const StepReport& report, double seconds) {
  step_seconds_ += seconds;
  if (leader()) {
    const Progress::Phase phase(world_.progress(), "reports a step");
    StepMetrics metrics = metrics_.Record(
        step, report, LearningRate(options_.training.optimizer, step, options_.training.steps),
        seconds);
    if (context_.events->on_step) context_.events->on_step(metrics);
    shown_step_ = step;
    // An asynchronous report is of all steps since the last pause.
    if (!plan_.asynchronous()) {
      const auto slow = slow_stages_.Observe(step, seconds, report.rank_seconds);
      if (slow && context_.events->on_slow_stage) context_.events->on_slow_stage(*slow);
      if (context_.events->on_stage_times)
        context_.events->on_stage_times({step, seconds, report.rank_seconds});
    }
  }
  if (saving_ != nullptr && saving_->saver->done()) {
    if (absl::Status status = FinishSave(); !status.ok()) return status;
  }
  stops_ = report.asked == Asked::kStop;
  return SaveAndEvaluate(step, report.asked <= Asked::kProbe);
}

bool RankTrainer::EvaluationIsDue(int64_t step) const {
  const int64_t every = options_.watching.eval_every;
  return every > 0 && step > 0 && step % every == 0 && step < options_.training.steps &&
         evaluated_step_ < step;
}

absl::Status RankTrainer::SaveAndEvaluate(int64_t step, bool evaluates) {
  if (!options_.saving.directory.empty() && options_.saving.every > 0 &&
      step % options_.saving.every == 0 && saved_step_ < step) {
    if (absl::Status status = Save(step); !status.ok()) return status;
  }
  return evaluates && EvaluationIsDue(step) ? Evaluate(step) : absl::OkStatus();
}

absl::Status RankTrainer::Evaluate(int64_t step) {
  const Progress::Phase phase(world_.progress(), "evaluates");
  const auto traced = trace_.In(TracePhase::kEvaluation, step);
  const RunRequest& request = plan_.request;
  const int64_t round = plan_.global_micro_batches();
  const int64_t samples = context_.data->samples(Split::kValidation);
  // The last micro-batch may be filled up with samples that do not count.
  int64_t count = (samples + request.batch.size - 1) / request.batch.size;
  if (options_.watching.eval_micro_batches > 0)
    count = std::min(count, options_.watching.eval_micro_batches);
  Evaluation evaluation{.step = step, .samples = std::min(samples, count * request.batch.size)};
  int64_t targets = 0;
  for (int64_t first = 0; first < count; first += round) {
    Pass pass;
    pass.split = Split::kValidation;
    pass.first_micro_batch = first;
    pass.train = false;
    pass.timeout = options_.watching.timeout;
    pass.at = at_;
    if (absl::Status status = evaluate_.Run(pass); !status.ok()) return status;
    // The last round's surplus micro-batches are computed and not counted.
    absl::StatusOr<StepReport> report =
        reporter_.Gather(evaluate_, {}, Asked::kNothing, world_, options_.watching.timeout,
                         std::min(round, count - first));
    if (!report.ok()) return report.status();
    if (!std::isfinite(report->loss_sum)) {
      if (absl::Status status = EndSaver(); !status.ok()) return status;
      return Diagnose(evaluate_, pass, step, [&](const NonFinite& begin, const std::string& state) {
        return DescribeNonFiniteEvaluation(begin, state, step, report->loss_sum, plan_);
      });
    }
    evaluation.loss += report->loss_sum;
    evaluation.accuracy += static_cast<double>(report->correct);
    targets += report->targets;
  }
  evaluated_step_ = step;
  // Without validation data, or a target of theirs that counts, there is no loss to report.
  if (targets == 0) return absl::OkStatus();
  evaluation.loss /= static_cast<double>(targets);
  evaluation.accuracy /= static_cast<double>(targets);
  summary_.evaluated = true;
  summary_.eval_loss = evaluation.loss;
  summary_.accuracy = evaluation.accuracy;
  summary_.eval_samples = evaluation.samples;
  const bool told = step <= context_.history.evaluated;  // by an earlier group
  if (leader() && !told && context_.events->on_evaluation)
    context_.events->on_evaluation(evaluation);
  return absl::OkStatus();
}

// The gradients since the last save may be of data that no checkpoint names.
absl::Status RankTrainer::CheckData(int64_t step) {
  absl::Status mine = context_.data->CheckUnchanged();
  const double changed = mine.ok() ? 0 : 1;
  std::vector<double> all(static_cast<size_t>(world_.size()));
  absl::Status status = world_.AllGather({&changed, 1}, absl::MakeSpan(all),
                                         Instant::Now() + options_.watching.timeout);
  if (!status.ok()) return status;
  const auto found = std::find_if(all.begin(), all.end(), [](double rank) { return rank != 0; });
  if (found == all.end()) return absl::OkStatus();
  // This rank may have looked at the same file a moment too early.
  if (mine.ok()) mine = context_.data->CheckUnchanged();
  const std::string what = mine.ok()
                               ? absl::StrCat("a file that rank ", found - all.begin(),
                                              " reads has been written to since it was opened")
                               : std::string(mine.message());
  return state_check_.GiveUp(
      absl::FailedPreconditionError(absl::StrCat(
          "the data changed since the run began: ", what,
          "; what was learnt of them is not saved; keep them as they are while a run reads them, "
          "or replace a file by renaming a new one over it")),
      step);
}

absl::Status RankTrainer::SaveNow(int64_t step, const std::string& directory, bool must) {
  const Progress::Phase phase(world_.progress(), "saves a checkpoint");
  const auto traced = trace_.In(TracePhase::kCheckpoint, step);
  if (absl::Status status = CheckData(step); !status.ok()) return status;
  if (absl::Status status = state_check_.Check(step); !status.ok()) return status;
  TrainOptions options = options_;
  options.saving.directory = directory;
  const absl::StatusOr<SaveOutcome> outcome =
      SaveRun(state_, options, *context_.data, PointOf(step), world_);
  if (!outcome.ok()) return outcome.status();
  if (must && !outcome->failed.ok()) return outcome->failed;
  Saved(step, directory, *outcome);
  return absl::OkStatus();
}

absl::Status RankTrainer::Save(int64_t step) {
  // Without a flush weights change all the time; a device's memory is read on the rank's stream.
  const bool may_wait = !plan_.asynchronous() && !state_.device().queues();
  Communicator* const background = may_wait ? world_.background() : nullptr;
  if (background == nullptr) return SaveNow(step, options_.saving.directory, /*must=*/false);
  if (absl::Status status = FinishSave(); !status.ok()) return status;
  if (absl::Status status = CheckData(step); !status.ok()) return status;
  saving_ = std::make_unique<SaveUnderWay>();
  saving_->point = PointOf(step);
  saving_->began = SteadyNanoseconds();
  saving_->saver = std::make_unique<BackgroundSave>(
      [this, background, under_way = saving_.get()](const std::function<void()>& on_read) {
        absl::StatusOr<SaveOutcome> outcome = OrExhausted("saving a checkpoint", [&] {
          if (world_.progress() == nullptr) return RunSaver(*background, *under_way, on_read);
          Progress progress(*world_.progress(), "saves a checkpoint in the background");
          WatchedCommunicator watched(background, &progress);
          return RunSaver(watched, *under_way, on_read);
        });
        // The savers of other ranks wait for this one.
        if (!outcome.ok()) background->Abort(outcome.status());
        under_way->ended = SteadyNanoseconds();
        return outcome;
      });
  return absl::OkStatus();
}

absl::StatusOr<SaveOutcome> RankTrainer::RunSaver(Communicator& world, SaveUnderWay& under_way,
                                                  const std::function<void()>& on_read) {
  absl::StatusOr<std::string> bad = state_check_.NotFinite(world);
  if (!bad.ok()) return bad.status();
  under_way.not_finite = *std::move(bad);
  if (!under_way.not_finite.empty()) return SaveOutcome();
  return SaveRun(state_, options_, *context_.data, under_way.point, world, on_read);
}

absl::Status RankTrainer::AwaitSaver() {
  if (saving_ == nullptr || saving_->awaited) return absl::OkStatus();
  saving_->awaited = true;
  absl::Status status = absl::OkStatus();
  Rounds rounds(&world_, options_.watching.timeout);
  if (!saving_->saver->has_read()) {
    status = rounds.Do([this] {
      saving_->saver->AwaitRead();
      return absl::OkStatus();
    });
  }
  if (status.ok()) status = rounds.Finish();
  return status.ok() ? state_check_.CheckAnswer(saving_->point.step, saving_->not_finite) : status;
}

absl::Status RankTrainer::EndSaver() {
  if (absl::Status status = AwaitSaver(); !status.ok()) return status;
  // A rank that has seen the end of the save already waits for the others.
  Rounds rounds(&world_, options_.watching.timeout);
  absl::Status status = absl::OkStatus();
  if (saving_ != nullptr) {
    status = rounds.Do([this] {
      saving_->saver->Finish().IgnoreError();
      return absl::OkStatus();
    });
  }
  if (status.ok()) status = rounds.Finish();
  return status.ok() ? FinishSave() : status;
}

absl::Status RankTrainer::FinishSave() {
  if (saving_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<SaveOutcome> outcome = EndOfSave();
  const int64_t step = saving_->point.step;
  trace_.AppendBackground(TracePhase::kCheckpoint, step, saving_->began, saving_->ended);
  const bool wrote = saving_->not_finite.empty();
  saving_ = nullptr;
  if (outcome.ok() && wrote) Saved(step, options_.saving.directory, *outcome);
  return outcome.status();
}

absl::StatusOr<SaveOutcome> RankTrainer::EndOfSave() const {
  // The saver shows its own progress.
  const Progress::Waiting waiting(world_.progress(), Instant::InfiniteFuture());
  return saving_->saver->Finish();
}

void RankTrainer::Saved(int64_t step, const std::string& directory, const SaveOutcome& outcome) {
  const TrainEvents& events = *context_.events;
  if (!outcome.failed.ok()) {
    failed_save_ = outcome.failed;
    if (leader() && events.on_failed_checkpoint) events.on_failed_checkpoint(outcome.failed);
    return;
  }
  if (directory == options_.saving.directory) {
    saved_step_ = step;
    saved_path_ = outcome.path;
  }
  if (!leader()) return;
  summary_.checkpoint = outcome.path;
  if (events.on_checkpoint) events.on_checkpoint(outcome);
}

absl::Status RankTrainer::Hash() {
  const Progress::Phase phase(world_.progress(), "hashes the weights");
  absl::StatusOr<uint64_t> hash = HashWeights(state_, world_, options_.watching.timeout);
  if (!hash.ok()) return hash.status();
  summary_.hashed = true;
  summary_.weights_hash = *hash;
  if (options_.portions == nullptr) return absl::OkStatus();
  // The programs of all ranks may want to know it.
  const double halves[] = {static_cast<double>(*hash >> 32U),
                           static_cast<double>(*hash & UINT32_MAX)};
  std::vector<double> all(2 * static_cast<size_t>(world_.size()));
  absl::Status status =
      world_.AllGather(halves, absl::MakeSpan(all), Instant::Now() + options_.watching.timeout);
  summary_.weights_hash = (static_cast<uint64_t>(all[0]) << 32U) | static_cast<uint64_t>(all[1]);
  return status;
}

// Together: a rank with nothing left to do would otherwise end as if all were well while the others
// miss one, and might be the one to say so.
absl::Status RankTrainer::Leave() {
  absl::Status status = world_.Barrier(Instant::Now() + options_.watching.timeout);
  if (status.ok()) return status;
  return WithWhere(status, {.rank = world_.rank(), .moment = Where::Moment::kLeaving});
}

void RankTrainer::ShowBroughtStep() {
  if (!leader() || !context_.shows_last) return;
  const AgreedStep& brought = context_.last;
  const double lr =
      LearningRate(options_.training.optimizer, brought.step, options_.training.steps);
  if (context_.events->on_step) context_.events->on_step(metrics_.Brought(brought, lr));
  shown_step_ = brought.step;
}

void RankTrainer::Finish(int64_t step) {
  summary_.steps = step;
  if (plan_.audits()) {
    summary_.audits = audits_.cost();
    if (step_seconds_ > 0) summary_.audit_share = summary_.audits->seconds / step_seconds_;
  }
  // A group that found the run done, in a checkpoint, does not know the last step's loss.
  if (past_.empty() || !last_.known) return;
  summary_.steps_taken = static_cast<int64_t>(past_.size());
  summary_.final_loss = static_cast<float>(last_.loss);
  std::vector<double> seconds;
  Staleness all;
  for (const PastStep& past : past_) {
    seconds.push_back(past.seconds);
    all.max = std::max(all.max, past.staleness.max);
    all.mean += past.staleness.mean;
  }
  all.mean /= static_cast<double>(past_.size());
  if (plan_.asynchronous()) summary_.staleness = all;
  summary_.median_step_seconds = MedianOf(std::move(seconds));
  summary_.tokens_per_second =
      static_cast<double>(plan_.request.batch.rows() * plan_.global_micro_batches()) /
      summary_.median_step_seconds;
}

}  // namespace sluice
