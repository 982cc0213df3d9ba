#include "pipeline/audit/audits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/run/bit_flip.h"
#include "pipeline/run/timed.h"

namespace sluice {
namespace {

// Adds a 64-bit number, in halves, since an all-gather carries doubles.
void Append(uint64_t value, std::vector<double>* words) {
  words->push_back(static_cast<double>(value >> 32U));
  words->push_back(static_cast<double>(value & UINT32_MAX));
}

uint64_t Take(const double** words) {
  const auto high = static_cast<uint64_t>(*(*words)++);
  return (high << 32U) | static_cast<uint64_t>(*(*words)++);
}

void Append(const StageHashes& hashes, std::vector<double>* words) {
  for (const uint64_t hash : {hashes.weights, hashes.input, hashes.output_grad, hashes.output,
                              hashes.input_grad, hashes.gradients})
    Append(hash, words);
}

StageHashes TakeHashes(const double** words) {
  StageHashes hashes;
  for (uint64_t* hash : {&hashes.weights, &hashes.input, &hashes.output_grad, &hashes.output,
                         &hashes.input_grad, &hashes.gradients})
    *hash = Take(words);
  return hashes;
}

// The host's ordinary memory for tensors that travel piece by piece.
class HostPieces {
 public:
  explicit HostPieces(const TensorPieces& tensors) {
    size_t bytes = 0;
    for (size_t i = 0; i < tensors.count(); ++i) bytes += tensors[i].size;
    memory_.resize(bytes);
    std::byte* at = memory_.data();
    for (size_t i = 0; i < tensors.count(); ++i) {
      pieces_.Add(at, static_cast<int64_t>(tensors[i].size));
      at += tensors[i].size;
    }
  }
  const TensorPieces& pieces() const { return pieces_; }

 private:
  std::vector<std::byte> memory_;
  TensorPieces pieces_;
};

}  // namespace

Audits::Audits(RankState* state, Communicator* world, Communicator* tensors, absl::Duration timeout)
    : state_(*state),
      plan_(state->plan()),
      world_(*world),
      tensors_(*tensors),
      timeout_(timeout),
      record_(state),
      seal_(state) {}

absl::Status Audits::Begin() {
  if (!plan_.audits()) return absl::OkStatus();
  absl::Status status = record_.Open();
  if (status.ok()) status = seal_.Open();
  if (status.ok()) status = mirror_.Open(state_, 2 * state_.mirrored().size());
  if (!status.ok()) return status;
  for (const int stage :
       plan_.deal.StagesOf(plan_.pipeline_rank(plan_.AuditedRank(world_.rank())))) {
    const absl::StatusOr<StageAgain*> again = Again(stage);
    if (!again.ok()) return again.status();
  }
  SealWeights();
  return absl::OkStatus();
}

absl::StatusOr<StageAgain*> Audits::Again(int stage) {
  std::unique_ptr<StageAgain>& again = again_[stage];
  if (again == nullptr) {
    absl::StatusOr<std::unique_ptr<StageAgain>> made = StageAgain::Create(state_, stage);
    if (!made.ok()) return made.status();
    again = *std::move(made);
  }
  return again.get();
}

AuditRecord* Audits::RecordOf(int64_t step) {
  if (!plan_.audits()) return nullptr;
  MaybeFlipWeight(state_, "memory", state_.parameters().front().weight);
  if (!plan_.audits(step)) return nullptr;
  record_.Begin(plan_.TurnOf(world_.rank(), step));
  return &record_;
}

void Audits::SealWeights() {
  if (!plan_.audits()) return;
  MaybeFlipWeight(state_, "update", state_.parameters().front().weight);
  const Timed timed(&hashing_);
  seal_.Take();
}

absl::StatusOr<int> Audits::BrokenWeight() {
  if (!plan_.audits()) return -1;
  const Timed timed(&hashing_);
  return seal_.Broken(Instant::Now() + timeout_);
}

Audits::Work Audits::WorkOf(int rank, int64_t step, const Pass& pass,
                            const Executor& executor) const {
  const AuditTurn turn = plan_.TurnOf(rank, step);
  const int number = plan_.GlobalMicroBatch(plan_.replica(rank), turn.micro_batch);
  const RankProgram& program = plan_.train[static_cast<size_t>(plan_.pipeline_rank(rank))];
  return {.rank = rank,
          .turn = turn,
          .calls = {.loss_scale = executor.loss_scale(turn.micro_batch),
                    .seed = pass.seed,
                    .first_row = (pass.first_micro_batch + number) * plan_.request.batch.rows(),
                    .accumulates = Accumulates(program, turn)}};
}

StageHashes Audits::Claimed(const AuditTurn& turn) const {
  StageHashes claimed = record_.Hashes();
  claimed.weights = seal_.OfStage(turn.stage);
  return claimed;
}

absl::StatusOr<StageHashes> Audits::Run(const Work& work, StageAgain& again, std::byte* memory) {
  absl::StatusOr<StageHashes> computed =
      again.Compute(memory, work.calls, world_.progress(), Instant::Now() + timeout_);
  // Where messages have failed, the work that waited for them is done all the same.
  if (computed.ok() && state_.device().queues()) {
    if (absl::Status failed = tensors_.failure(); !failed.ok()) return failed;
  }
  return computed;
}

void Audits::CopyPieces(const TensorPieces& from, const TensorPieces& to) {
  for (size_t i = 0; i < from.count(); ++i)
    state_.device().Copy(state_.stream(), to[i].data, from[i].data, from[i].size);
}

absl::StatusOr<Audits::Answers> Audits::ComputeAgain(int64_t step, const Work& work) {
  const Timed timed(&cost_.seconds);
  const int rank = world_.rank();
  const absl::StatusOr<StageAgain*> again = Again(work.turn.stage);
  if (!again.ok()) return again.status();
  auto* const memory = state_.arena().at<std::byte>(state_.step_region());
  absl::Status status = PassOn(
      tensors_, {.peer = plan_.AuditorOf(rank), .pieces = record_.Tensors()},
      {.peer = work.rank, .pieces = (*again)->Places(memory, work.calls.accumulates)}, timeout_);
  if (!status.ok()) return status;
  HashMirror(work.turn, **again, memory);
  const absl::StatusOr<StageHashes> computed = Run(work, **again, memory);
  if (!computed.ok()) return computed.status();
  return Gather(Claimed(plan_.TurnOf(rank, step)), *computed, MirrorAgrees());
}

absl::StatusOr<std::optional<AuditFinding>> Audits::Compare(int64_t step, const Pass& pass,
                                                            const Executor& executor) {
  std::optional<AuditFinding> none;
  if (!plan_.audits(step)) return none;
  // Ranks end a pass at different times, which is not what an audit costs.
  if (absl::Status status = world_.Barrier(Instant::Now() + timeout_); !status.ok()) return status;
  const absl::StatusOr<Answers> answers =
      ComputeAgain(step, WorkOf(plan_.AuditedRank(world_.rank()), step, pass, executor));
  if (!answers.ok()) return answers.status();
  ++cost_.audits;
  cost_.micro_batches += world_.size();
  std::optional<AuditFinding> found;
  for (int audited = 0; audited < world_.size(); ++audited) {
    const auto auditor = static_cast<size_t>(plan_.AuditorOf(audited));
    if (answers->claimed[static_cast<size_t>(audited)] == answers->computed[auditor]) continue;
    absl::StatusOr<AuditFinding> finding = Settle(WorkOf(audited, step, pass, executor), *answers);
    if (!finding.ok()) return finding.status();
    const bool tells = finding->verdict.suspects.size() == 1;
    if (!found.has_value() || tells) found = *std::move(finding);
    if (tells) break;
  }
  if (!found.has_value()) found = CompareMessages(step, *answers);
  if (!found.has_value()) found = CompareUpdates(step, *answers);
  if (!found.has_value() && first_step_ < 0) first_step_ = step;
  return found;
}

absl::StatusOr<Audits::Answers> Audits::Gather(const StageHashes& claimed,
                                               const StageHashes& computed, bool mirror_agrees) {
  std::vector<double> mine = {hashing_ + record_.seconds(), mirror_agrees ? 1.0 : 0.0};
  Append(claimed, &mine);
  Append(computed, &mine);
  std::vector<double> all(mine.size() * static_cast<size_t>(world_.size()));
  absl::Status status = world_.AllGather(mine, absl::MakeSpan(all), Instant::Now() + timeout_);
  if (!status.ok()) return status;
  Answers answers;
  const double* words = all.data();
  for (int rank = 0; rank < world_.size(); ++rank) {
    most_hashing_ = std::max(most_hashing_, *words++);
    answers.mirror_agrees.push_back(*words++ != 0);
    answers.claimed.push_back(TakeHashes(&words));
    answers.computed.push_back(TakeHashes(&words));
  }
  return answers;
}

// A mirror's weights come from gradients that the rank has sent, by updates of its own.
void Audits::HashMirror(const AuditTurn& turn, const StageAgain& again, std::byte* memory) {
  mirror_.Clear();
  // Those of the stage that are trained, in this order.
  std::vector<const ParameterView*> mirrored;
  for (const ParameterView& view : state_.mirrored()) {
    if (view.stage == turn.stage) mirrored.push_back(&view);
  }
  size_t next = 0;
  for (const StageAgain::Weight& weight : again.Weights(memory)) {
    if (!weight.trained || next == mirrored.size()) continue;
    mirror_.Add(weight.tensor.data, weight.tensor.bytes);
    mirror_.Add(mirrored[next++]->weight, weight.tensor.bytes);
  }
  mirror_.Queue();
}

bool Audits::MirrorAgrees() const {
  for (size_t i = 0; i < mirror_.size(); i += 2) {
    if (mirror_[i] != mirror_[i + 1]) return false;
  }
  return true;
}

// Neighbouring stages whose turn is the same micro-batch: each has what the other has computed.
std::optional<AuditFinding> Audits::CompareMessages(int64_t step, const Answers& answers) const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    const AuditTurn turn = plan_.TurnOf(rank, step);
    const int next = plan_.lowered.placement.NextStage(turn.stage);
    if (next == kNoStage) continue;
    const int first = plan_.replica(rank) * plan_.ranks();
    const int other = first + plan_.deal.rank(next, turn.micro_batch);
    const AuditTurn others = plan_.TurnOf(other, step);
    if (others.stage != next || others.micro_batch != turn.micro_batch) continue;
    const StageHashes& here = answers.claimed[static_cast<size_t>(rank)];
    const StageHashes& there = answers.claimed[static_cast<size_t>(other)];
    const bool forward = here.output == there.input;
    if (forward && here.output_grad == there.input_grad) continue;
    const int sender = forward ? other : rank;
    const int receiver = forward ? rank : other;
    return AuditFinding{
        .kind = AuditFinding::Kind::kMessage,
        .audited = sender,
        .auditor = receiver,
        .stage = forward ? next : turn.stage,
        .micro_batch = plan_.GlobalMicroBatch(plan_.replica(rank), turn.micro_batch),
        .difference = forward ? "input gradient" : "output",
        .verdict = {.suspects = {sender, receiver},
                    .why = "each has computed rightly with the bits that it has"}};
  }
  return std::nullopt;
}

std::optional<AuditFinding> Audits::CompareUpdates(int64_t step, const Answers& answers) const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (answers.mirror_agrees[static_cast<size_t>(rank)]) continue;
    const int audited = plan_.AuditedRank(rank);
    return AuditFinding{
        .kind = AuditFinding::Kind::kWeights,
        .audited = audited,
        .auditor = rank,
        .stage = plan_.TurnOf(audited, step).stage,
        .difference = "weights",
        .verdict = {.suspects = {audited, rank}, .why = "no third rank makes these updates"}};
  }
  for (int rank = 0; rank < world_.size(); ++rank) {
    const RankGroup group = plan_.GroupOf(rank);
    if (group.size == 1 || group.index > 0) continue;
    if (std::optional<AuditFinding> found = CompareGroup(group, step, answers)) return found;
  }
  return std::nullopt;
}

// The ranks that differ from most of the group lie.
std::optional<AuditFinding> Audits::CompareGroup(const RankGroup& group, int64_t step,
                                                 const Answers& answers) const {
  std::map<uint64_t, std::vector<int>> by_hash;
  for (int k = 0; k < group.size; ++k) {
    const auto member = static_cast<size_t>(group.rank(k));
    by_hash[answers.claimed[member].weights].push_back(group.rank(k));
  }
  if (by_hash.size() == 1) return std::nullopt;
  const auto most = std::max_element(
      by_hash.begin(), by_hash.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const bool is_majority = 2 * most->second.size() > static_cast<size_t>(group.size);
  AuditFinding finding{.kind = AuditFinding::Kind::kWeights,
                       .stage = plan_.TurnOf(group.rank(0), step).stage,
                       .difference = "weights",
                       .verdict = {}};
  for (const auto& [hash, ranks] : by_hash) {
    if (is_majority && hash == most->first) continue;
    finding.verdict.suspects.insert(finding.verdict.suspects.end(), ranks.begin(), ranks.end());
  }
  finding.audited = finding.verdict.suspects.front();
  finding.auditor = is_majority ? most->second.front() : finding.verdict.suspects[1];
  finding.verdict.why =
      is_majority ? absl::StrCat("most ranks that make them agree with rank ", finding.auditor)
                  : "no majority of those that make them agrees";
  return finding;
}

// One that no other rank contradicts, if there is one.
int Audits::ThirdFor(const Work& work, const Answers& answers) const {
  const auto contradicts = [&](int audited) {
    return answers.claimed[static_cast<size_t>(audited)] !=
           answers.computed[static_cast<size_t>(plan_.AuditorOf(audited))];
  };
  int third = -1;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == work.rank || rank == plan_.AuditorOf(work.rank)) continue;
    if (!contradicts(rank) && !contradicts(plan_.AuditedRank(rank))) return rank;
    if (third < 0) third = rank;
  }
  return third;
}

absl::StatusOr<StageHashes> Audits::AskRank(const Work& work, int to) {
  const int rank = world_.rank();
  StageHashes computed;
  // Ranks that are no neighbours are joined by ordinary memory alone.
  if (rank == work.rank && rank != to) {
    const TensorPieces own = record_.Tensors();
    const HostPieces brought(own);
    CopyPieces(own, brought.pieces());
    absl::Status sent = state_.device().Synchronize(state_.stream(), Instant::Now() + timeout_);
    if (sent.ok())
      sent = PassOn(world_, {.peer = to, .pieces = brought.pieces()}, {.peer = to}, timeout_);
    if (!sent.ok()) {
      world_.Abort(sent);  // messages use the memory until then
      return sent;
    }
  }
  if (rank == to) {
    const absl::StatusOr<StageAgain*> again = Again(work.turn.stage);
    if (!again.ok()) return again.status();
    // The run ends here, and no rank has room for a stage that it does not audit.
    const absl::StatusOr<DeviceMemory> memory = state_.device().Allocate((*again)->bytes());
    if (!memory.ok()) return memory.status();
    const TensorPieces places = (*again)->Places(memory->data(), work.calls.accumulates);
    if (rank == work.rank) {
      CopyPieces(record_.Tensors(), places);
    } else {
      const HostPieces brought(places);
      absl::Status received = PassOn(world_, {.peer = work.rank},
                                     {.peer = work.rank, .pieces = brought.pieces()}, timeout_);
      if (!received.ok()) {
        world_.Abort(received);  // messages use the memory until then
        return received;
      }
      CopyPieces(brought.pieces(), places);
    }
    const absl::StatusOr<StageHashes> run = Run(work, **again, memory->data());
    if (!run.ok()) return run.status();
    computed = *run;
  }
  const absl::StatusOr<Answers> answers = Gather({}, computed);
  if (!answers.ok()) return answers.status();
  return answers->computed[static_cast<size_t>(to)];
}

absl::StatusOr<AuditFinding> Audits::Settle(const Work& work, const Answers& answers) {
  AuditAnswers known{.audited = work.rank, .auditor = plan_.AuditorOf(work.rank)};
  known.claimed = answers.claimed[static_cast<size_t>(known.audited)];
  known.computed = answers.computed[static_cast<size_t>(known.auditor)];
  known.third = ThirdFor(work, answers);
  for (const auto& [rank, answer] : {std::pair{known.audited, &known.claimed_again},
                                     std::pair{known.auditor, &known.computed_again},
                                     std::pair{known.third, &known.third_computed}}) {
    if (rank < 0) continue;
    const absl::StatusOr<StageHashes> asked = AskRank(work, rank);
    if (!asked.ok()) return asked.status();
    *answer = *asked;
  }
  return AuditFinding{
      .audited = known.audited,
      .auditor = known.auditor,
      .stage = work.turn.stage,
      .micro_batch = plan_.GlobalMicroBatch(plan_.replica(work.rank), work.turn.micro_batch),
      .difference = DifferenceOf(known.claimed, known.computed),
      .verdict = Judge(known)};
}

int64_t Audits::Cycle() const {
  // Ranks may have different numbers of stages; they begin anew together where all have been
  // audited.
  int64_t stages = 1;
  for (const RankProgram& program : plan_.train)
    stages = std::max(stages, static_cast<int64_t>(program.stages.size()));
  return stages * plan_.request.audit_every;
}

int64_t Audits::PassedBefore(int64_t step) const {
  const int64_t before = step - Cycle();
  return first_step_ >= 0 && before >= first_step_ ? before : -1;
}

AuditCost Audits::cost() const {
  AuditCost cost = cost_;
  cost.seconds += std::max(most_hashing_, hashing_ + record_.seconds());
  return cost;
}

}  // namespace sluice
