#include "tools/train/replanning/replanner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "models/device/host_memory.h"
#include "partitioner/planning/answer/default_partition.h"
#include "pipeline/compile/compile_run.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"
#include "tools/train/train_job.h"
#include "tools/train/train_shape.h"

namespace sluice {
namespace {

// Of a rank that takes so many times as long as the fastest, the rank is slow and not its layers.
constexpr double kSlowRank = 1.5;
// What differs by less is what was planned.
constexpr double kDeviation = 1.1;
constexpr double kLinkDeviation = 0.1;  // of what a stage takes
constexpr double kLeastGain = 1.1;
// Of a group whose plan was made for what had been measured, before there is another one.
constexpr double kWaitSeconds = 10;
constexpr double kLongestWaitSeconds = 3600;
// To go over to a new plan: ranks meet again, and send each other the state of layers that move.
constexpr double kMeetingSeconds = 1;
constexpr double kMoveBytesPerSecond = 5e8;
// Between two measurements of links, at least, and as a multiple of what the last one took.
constexpr double kProbeSeconds = 5;
constexpr double kNewLink = 1.5;  // what takes so many times as long, or as short, as before
constexpr double kProbeShare = 50;
constexpr double kAgainShare = 10;  // where the last one has found something new
// A message that takes a smaller part of what a stage takes is not worth mentioning.
constexpr double kShortMessage = 0.05;
// All orders of more ranks are too many to look at.
constexpr int kMostPermuted = 7;
constexpr double kStatePerWeight = 3;  // a weight and AdamW's moments of it

double ProbeSeconds(const MeasuredLink& link) {
  return link.Seconds(static_cast<double>(kProbeBytes));
}

double At(const std::vector<double>& values, size_t index) {
  return values.empty() ? 1 : values[index];
}

}  // namespace

bool MayReplan(const TrainQuestion& question) {
  return question.partition.empty() && question.timetable.plan.empty() &&
         question.timetable.stage_members.empty();
}

Replanner::Replanner(const TrainQuestion& question, std::shared_ptr<const Dataset> data,
                     RankNumbers numbers)
    : question_(question), data_(std::move(data)), numbers_(numbers) {}

void Replanner::Begin(std::shared_ptr<const RunPlan> plan, int processes,
                      const MeasuredSpeeds& speeds, std::optional<Replan> replan) {
  plan_ = std::move(plan);
  processes_ = processes;
  planned_ = speeds;
  stages_ = StagesOnRanks(*plan_);
  if (!speeds.layers.empty()) layers_ = speeds.layers;
  stage_seconds_ = StageSeconds();
  blocks_.reset();
  blocks_to_look_ = 0;
  looked_.reset();
  group_seconds_ = 0;
  links_.clear();
  last_links_.clear();
  probe_at_ = 0;
  if (replan) wait_seconds_ = std::max(wait_seconds_, kWaitSeconds);
  made_ = std::move(replan);
  // Copies of the model on the same ranks, and steps that do not end, are planned otherwise.
  if (plan_->lowered.placement.copies() == 1 && !plan_->asynchronous())
    blocks_.emplace(stages_.size());
}

std::optional<Replan> Replanner::Observe(const StageTimes& times) {
  if (!blocks_.has_value()) return std::nullopt;
  group_seconds_ += times.step_seconds;
  if (!blocks_->Add(times.step_seconds, times.stage_seconds) || !blocks_->full())
    return std::nullopt;
  if (const auto made = std::exchange(made_, std::nullopt)) {
    gain_ = {times.step, blocks_->MedianStep(), made->step_seconds, made->expected_seconds};
    const bool kept = made->step_seconds - gain_->step_seconds >=
                      (made->step_seconds - made->expected_seconds) / 2;
    if (kept) {
      wait_seconds_ = kWaitSeconds;
    } else {
      WaitLonger();
    }
  }
  // What was planned for the links holds until they have been measured twice.
  if (links_.empty() && !planned_.links.empty()) return std::nullopt;
  if (layers_.empty()) LearnLayers();
  if (blocks_to_look_ > 0) {
    --blocks_to_look_;
    return std::nullopt;
  }
  const MeasuredSpeeds speeds = Measure();
  if (group_seconds_ < wait_seconds_ || !Deviates(speeds, planned_)) return std::nullopt;
  // A search takes its time, and for the same speeds would find the same again.
  if (looked_.has_value() && !Deviates(speeds, *looked_)) return std::nullopt;
  looked_ = speeds;
  blocks_to_look_ = StageBlocks::kRecent;
  return Propose(times, speeds);
}

void Replanner::WaitLonger() {
  wait_seconds_ = std::clamp(2 * wait_seconds_, kWaitSeconds, kLongestWaitSeconds);
}

bool Replanner::WantsLinks() const {
  return blocks_.has_value() && processes_ > 1 && plan_->world_size() == processes_ &&
         group_seconds_ >= probe_at_;
}

void Replanner::TakeLinks(const std::vector<MeasuredLink>& links) {
  bool is_new = last_links_.empty();
  for (size_t way = 0; way < last_links_.size(); ++way) {
    const double before = ProbeSeconds(last_links_[way]), now = ProbeSeconds(links[way]);
    is_new = is_new || now > kNewLink * before || before > kNewLink * now;
  }
  // What is slow once may be so for a moment.
  links_ = last_links_;
  for (size_t way = 0; way < links_.size(); ++way) {
    links_[way].latency = std::min(links_[way].latency, links[way].latency);
    links_[way].seconds_per_byte =
        std::min(links_[way].seconds_per_byte, links[way].seconds_per_byte);
  }
  last_links_ = links;
  // There and back, with each of the others in turn.
  double taken = 0;
  for (const MeasuredLink& link : links) taken = std::max(taken, 2 * ProbeSeconds(link));
  const double share = is_new ? kAgainShare : kProbeShare;
  probe_at_ = group_seconds_ + std::max(kProbeSeconds, share * taken * (processes_ - 1));
}

std::optional<ReplanGain> Replanner::TakeGain() { return std::exchange(gain_, std::nullopt); }

std::vector<double> Replanner::StageSeconds() const {
  TrainQuestion question = question_;
  question.speeds = {.layers = layers_};
  const RunRequest& request = plan_->request;
  const absl::StatusOr<StageCosts> costs =
      PriceDefaultStages(LayersOf(question, request.spec, plan_->ranks(), plan_->replicas()),
                         ComputeOnly(plan_->lowered), request.partition);
  std::vector<double> seconds;
  for (const StageOnRank& at : stages_) {
    const auto stage = static_cast<size_t>(at.stage);
    seconds.push_back(costs.ok() ? costs->forward[stage] + costs->backward[stage] : 1);
  }
  return seconds;
}

// [rank of the world] what its stages take, as a multiple of what they should.
std::vector<double> Replanner::RankRatios() const {
  const auto ranks = static_cast<size_t>(plan_->world_size());
  std::vector<double> measured(ranks), planned(ranks);
  for (size_t at = 0; at < stages_.size(); ++at) {
    const auto rank = static_cast<size_t>(stages_[at].rank);
    measured[rank] += blocks_->Median(at);
    planned[rank] += stage_seconds_[at];
  }
  for (size_t rank = 0; rank < ranks; ++rank) measured[rank] /= planned[rank];
  return measured;
}

// Where a stage takes longer than its FLOPs say, and its ranks are not slow, its layers do.
void Replanner::LearnLayers() {
  const std::vector<double> ratios = RankRatios();
  const double least = *std::min_element(ratios.begin(), ratios.end());
  const size_t count = plan_->request.partition.size();
  std::vector<double> sums(count), ranks(count), known;
  for (size_t at = 0; at < stages_.size(); ++at) {
    if (ratios[static_cast<size_t>(stages_[at].rank)] > kSlowRank * least) continue;
    const auto stage = static_cast<size_t>(stages_[at].stage);
    sums[stage] += blocks_->Median(at) / stage_seconds_[at] / least;
    ranks[stage] += 1;
  }
  for (size_t stage = 0; stage < count; ++stage) {
    if (ranks[stage] > 0) known.push_back(sums[stage] / ranks[stage]);
  }
  const double usual = known.empty() ? 1 : MedianOf(known);
  layers_.resize(plan_->layers.size());
  for (size_t stage = 0; stage < count; ++stage) {
    const LayerRange& range = plan_->request.partition[stage];
    for (int layer = range.first; layer <= range.last; ++layer)
      layers_[static_cast<size_t>(layer)] = ranks[stage] > 0 ? sums[stage] / ranks[stage] : usual;
  }
  stage_seconds_ = StageSeconds();
}

std::vector<double> Replanner::LinkSeconds(const std::vector<int>& order) const {
  int64_t bytes = 0;
  for (const LayerDecl& layer : plan_->layers)
    bytes = std::max(bytes, ElementCount(layer.output_shape) * SizeOf(layer.output_dtype));
  std::vector<double> seconds;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto from = static_cast<size_t>(order[rank]);
    const auto to = static_cast<size_t>(order[(rank + 1) % order.size()]);
    const MeasuredLink& link = links_[from * order.size() + to];
    seconds.push_back(link.Seconds(static_cast<double>(bytes)) / unit_);
  }
  return seconds;
}

MeasuredSpeeds Replanner::Reordered(const MeasuredSpeeds& speeds,
                                    const std::vector<int>& order) const {
  MeasuredSpeeds moved{.layers = speeds.layers};
  for (const int rank : order) moved.ranks.push_back(speeds.ranks[static_cast<size_t>(rank)]);
  if (!links_.empty()) moved.links = LinkSeconds(order);
  const bool short_ones = std::all_of(moved.links.begin(), moved.links.end(), [&](double seconds) {
    return seconds < kShortMessage * LongestStage();
  });
  if (short_ones) moved.links.clear();
  absl::StatusOr<MeasuredSpeeds> rounded =
      ParseMeasuredSpeeds(moved.ToText(), static_cast<int>(layers_.size()));
  return rounded.ok() ? *std::move(rounded) : speeds;
}

// Which ranks might better have other numbers: the slowest the last, which may be left without work; and
// those with which the slowest link between neighbours is faster.
std::vector<std::vector<int>> Replanner::OrdersToTry(const MeasuredSpeeds& speeds) const {
  std::vector<int> same(static_cast<size_t>(processes_));
  std::iota(same.begin(), same.end(), 0);
  std::vector<std::vector<int>> orders = {same};
  if (numbers_ == RankNumbers::kFixed) return orders;
  const auto slowest = std::min_element(speeds.ranks.begin(), speeds.ranks.end());
  const bool may_leave_out = question_.chooses_shape() || plan_->world_size() < processes_;
  if (may_leave_out && std::next(slowest) != speeds.ranks.end()) {
    orders.push_back(same);
    const auto from = orders.back().begin() + (slowest - speeds.ranks.begin());
    std::rotate(from, std::next(from), orders.back().end());
  }
  if (speeds.links.empty() || processes_ > kMostPermuted || plan_->replicas() > 1) return orders;
  // Without the way from the last rank to the first where no stage goes it.
  const bool closes = plan_->lowered.placement.stages() > plan_->ranks();
  const auto longest = [&](const std::vector<int>& order) {
    std::vector<double> seconds = LinkSeconds(order);
    if (!closes) seconds.pop_back();
    return *std::max_element(seconds.begin(), seconds.end());
  };
  std::vector<int> best = same;
  double least = longest(same);
  for (std::vector<int> order = same; std::next_permutation(order.begin(), order.end());) {
    const double seconds = longest(order);
    if (seconds >= least) continue;
    least = seconds;
    best = order;
  }
  if (best != same) orders.push_back(best);
  return orders;
}

MeasuredSpeeds Replanner::Measure() {
  MeasuredSpeeds speeds{.layers = layers_};
  const std::vector<double> ratios = RankRatios();
  const double least = *std::min_element(ratios.begin(), ratios.end());
  unit_ = least;
  for (size_t rank = 0; rank < static_cast<size_t>(processes_); ++rank) {
    // Who has no work is as it was thought to be.
    speeds.ranks.push_back(rank < ratios.size() ? least / ratios[rank] : At(planned_.ranks, rank));
  }
  std::vector<int> same(static_cast<size_t>(processes_));
  std::iota(same.begin(), same.end(), 0);
  return Reordered(speeds, same);
}

bool Replanner::Deviates(const MeasuredSpeeds& speeds, const MeasuredSpeeds& from) const {
  const auto differs = [](double a, double b) { return a > kDeviation * b || b > kDeviation * a; };
  for (size_t rank = 0; rank < speeds.ranks.size(); ++rank) {
    if (differs(speeds.ranks[rank], At(from.ranks, rank))) return true;
  }
  for (size_t layer = 0; layer < speeds.layers.size(); ++layer) {
    if (differs(speeds.layers[layer], At(from.layers, layer))) return true;
  }
  return LinksDeviate(speeds, from);
}

double Replanner::LongestStage() const {
  return *std::max_element(stage_seconds_.begin(), stage_seconds_.end());
}

bool Replanner::LinksDeviate(const MeasuredSpeeds& speeds, const MeasuredSpeeds& from) const {
  const auto at = [](const std::vector<double>& links, size_t rank) {
    return links.empty() ? 0 : links[rank];
  };
  const double tolerated = kLinkDeviation * LongestStage();
  for (size_t rank = 0; rank < speeds.ranks.size(); ++rank) {
    if (std::abs(at(speeds.links, rank) - at(from.links, rank)) > tolerated) return true;
  }
  return false;
}

absl::StatusOr<double> Replanner::SecondsOf(const RunRequest& request,
                                            const MeasuredSpeeds& speeds) const {
  TrainQuestion question = question_;
  question.speeds = speeds;
  const Timetable timetable = ComputeOnly(request.timetable);
  const int stages = timetable.placement.ranks();
  absl::StatusOr<StageCosts> costs = PriceDefaultStages(
      LayersOf(question, request.spec, stages, request.replicas), timetable, request.partition);
  if (!costs.ok()) return costs.status();
  costs->link_busy = costs->send;  // messages of one link take turns
  const absl::StatusOr<Simulation> run = Simulate(timetable, *costs, Detail::kSummary);
  if (!run.ok()) return run.status();
  return run->makespan + ExchangeSeconds(question, request.spec, stages, request.replicas);
}

// The plan that ranks of such speeds would get.
absl::StatusOr<Replanner::Expected> Replanner::Try(const MeasuredSpeeds& speeds) const {
  TrainQuestion question = question_;
  question.speeds = speeds;
  const absl::StatusOr<TrainJob> job = MakeTrainJob(question, processes_, data_);
  if (!job.ok()) return job.status();
  const absl::StatusOr<RunPlan> plan = CompileRun(job->request);
  if (!plan.ok()) return plan.status();
  if (numbers_ == RankNumbers::kFixed) {
    // Ranks may be on several machines: each looks for itself whether it has the memory.
    if (plan->world_size() != processes_)
      return absl::FailedPreconditionError("a rank has no work");
  } else if (!question_.kernels.cuda) {
    // Ranks have the old plan's memory beside it, until what they hold has moved.
    int64_t bytes = 0;
    for (const ArenaLayout& arena : plan->arenas) bytes += arena.memory.total;
    if (absl::Status status = CheckHostMemory(bytes); !status.ok()) return status;
  }
  const absl::StatusOr<double> seconds = SecondsOf(job->request, speeds);
  if (!seconds.ok()) return seconds.status();
  const int stages = plan->ranks();
  const int replicas = plan->replicas();
  const absl::StatusOr<DefaultStages> best = DefaultPartition(
      LayersOf(question, job->request.spec, stages, replicas), job->request.timetable);
  const double exchange = ExchangeSeconds(question, job->request.spec, stages, replicas);
  const bool proved = best.ok() && best->lower_bound > 0;
  return Expected{*seconds, proved ? best->lower_bound + exchange : 0};
}

std::optional<Replan> Replanner::Propose(const StageTimes& times,
                                         const MeasuredSpeeds& speeds) const {
  const absl::StatusOr<double> now = SecondsOf(plan_->request, speeds);
  if (!now.ok()) return std::nullopt;
  Replan replan{.step_seconds = blocks_->MedianStep()};
  Expected best{.seconds = std::numeric_limits<double>::infinity()};
  for (const std::vector<int>& order : OrdersToTry(speeds)) {
    const MeasuredSpeeds tried = Reordered(speeds, order);
    const absl::StatusOr<Expected> expected = Try(tried);
    if (!expected.ok() || expected->seconds >= best.seconds) continue;
    best = *expected;
    replan.speeds = tried;
    replan.order = std::is_sorted(order.begin(), order.end()) ? std::vector<int>() : order;
  }
  if (!Pays(times, *now / best.seconds)) return std::nullopt;
  const double scale = replan.step_seconds / *now;
  replan.expected_seconds = best.seconds * scale;
  replan.bound_seconds = best.lower_bound * scale;
  replan.why = absl::StrFormat("%s; a step should take %.3g s instead of %.3g s", Why(speeds),
                               replan.expected_seconds, replan.step_seconds);
  return replan;
}

bool Replanner::Pays(const StageTimes& times, double gain) const {
  if (!(gain >= kLeastGain)) return false;
  double bytes = 0;
  for (const LayerDecl& layer : plan_->layers) {
    for (const ParameterDecl& parameter : layer.parameters)
      bytes += kStatePerWeight * static_cast<double>(parameter.bytes());
  }
  const double move = kMeetingSeconds + bytes / kMoveBytesPerSecond;
  const double saved = static_cast<double>(question_.options.training.steps - times.step) *
                       blocks_->MedianStep() * (1 - 1 / gain);
  return saved >= 2 * move;
}

std::string Replanner::Why(const MeasuredSpeeds& speeds) const {
  if (LinksDeviate(speeds, planned_)) {
    const auto slowest = std::max_element(speeds.links.begin(), speeds.links.end());
    if (slowest == speeds.links.end()) return "the ways between ranks are fast again";
    const auto rank = slowest - speeds.links.begin();
    return absl::StrFormat("a message from rank %d to rank %d takes %.3g s", rank,
                           (rank + 1) % processes_, *slowest * unit_);
  }
  size_t most = 0;
  double factor = 1;  // how much longer than planned
  for (size_t rank = 0; rank < speeds.ranks.size(); ++rank) {
    const double takes = At(planned_.ranks, rank) / speeds.ranks[rank];
    if (std::abs(std::log(takes)) <= std::abs(std::log(factor))) continue;
    most = rank;
    factor = takes;
  }
  if (factor >= kDeviation)
    return absl::StrFormat("rank %d takes %.1f times as long as planned", most, factor);
  if (factor <= 1 / kDeviation)
    return absl::StrFormat("rank %d is %.1f times as fast as planned", most, 1 / factor);
  return "layers take other times than their FLOPs say";
}

}  // namespace sluice
