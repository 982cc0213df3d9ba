#include "pipeline/sample/cached_model.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/device/out_of_memory.h"
#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

// Keys and values of one block.
int64_t BlockCacheBytes(const ModelSpec& spec, const CachedModelOptions& options) {
  const DecoderConfig& config = *spec.decoder();
  return AlignUp(2 * config.key_value_heads() * config.head_width() * options.positions *
                 SizeOf(options.dtype));
}

}  // namespace

void CachedModel::Queue::Push(Parcel parcel) {
  {
    const std::lock_guard lock(mutex_);
    pieces_.splice(pieces_.end(), parcel);
  }
  filled_.notify_one();
}

CachedModel::Parcel CachedModel::Queue::Pop() {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [this] { return !pieces_.empty(); });
  Parcel parcel;
  parcel.splice(parcel.end(), pieces_, pieces_.begin());
  return parcel;
}

absl::StatusOr<std::unique_ptr<CachedModel>> CachedModel::Make(const ModelSpec& spec,
                                                               const ParameterTable& parameters,
                                                               const CachedModelOptions& options) {
  const int layers = spec.layer_count();
  if (options.stages < 1 || options.stages > layers) {
    return absl::InvalidArgumentError(absl::StrCat("--stages ", options.stages, ": the model has ",
                                                   layers, " layers; give 1 to ", layers));
  }
  // OpenMP ends the process where it cannot start those of the kernels.
  if (options.threads > 1) {
    absl::Status enough = CheckThreads("the model", options.stages * options.threads);
    if (!enough.ok()) return enough;
  }
  std::unique_ptr<CachedModel> model(new CachedModel(spec, options));
  for (int stage = 0; stage < options.stages; ++stage) {
    absl::StatusOr<std::unique_ptr<CachedStage>> made =
        CachedStage::Make(spec,
                          {.first = stage * layers / options.stages,
                           .end = (stage + 1) * layers / options.stages,
                           .positions = options.positions,
                           .dtype = options.dtype},
                          parameters);
    if (!made.ok()) return made.status();
    model->stages_.push_back(*std::move(made));
  }
  model->queues_ = std::vector<Queue>(model->stages_.size() + 1);
  model->threads_.reserve(model->stages_.size());
  for (size_t stage = 0; stage < model->stages_.size(); ++stage) {
    std::thread thread;
    const absl::Status started = StartThread(
        "starting a stage", [raw = model.get(), stage] { raw->RunStage(stage); }, &thread);
    if (!started.ok()) return started;
    model->threads_.push_back(std::move(thread));
  }
  return model;
}

// A piece without a sequence ends the stages, one after another.
CachedModel::~CachedModel() {
  if (!threads_.empty()) queues_.front().Push(std::move(last_));
  for (std::thread& thread : threads_) thread.join();
}

int64_t CachedModel::cache_bytes() const {
  return spec_.decoder()->layers * BlockCacheBytes(spec_, options_);
}

absl::StatusOr<CachedSequence> CachedModel::NewSequence() const {
  absl::StatusOr<Arena> arena = Arena::Allocate(CpuDevice(), cache_bytes());
  if (!arena.ok()) return arena.status();
  CachedSequence sequence;
  sequence.arena = std::make_unique<Arena>(*std::move(arena));
  sequence.caches.resize(static_cast<size_t>(spec_.layer_count()));
  for (int64_t block = 0; block < spec_.decoder()->layers; ++block) {  // behind the embedding
    sequence.caches[static_cast<size_t>(block) + 1] =
        sequence.arena->at(block * BlockCacheBytes(spec_, options_));
  }
  return sequence;
}

int64_t CachedModel::Submit(CachedSequence& sequence, absl::Span<const int32_t> tokens,
                            int64_t logit_rows) {
  const auto all = static_cast<int64_t>(tokens.size());
  const int64_t rows = CachedStage::PieceRows(all);
  const absl::Span<const int32_t> some = tokens.first(static_cast<size_t>(rows));
  Parcel parcel(1);
  Piece& piece = parcel.front();
  piece.sequence = &sequence;
  piece.position = static_cast<int64_t>(sequence.tokens.size());
  piece.rows = rows;
  piece.logit_rows = std::max(int64_t{0}, rows - std::max(int64_t{0}, all - logit_rows));
  piece.tokens.assign(some.begin(), some.end());
  sequence.tokens.insert(sequence.tokens.end(), some.begin(), some.end());
  queues_.front().Push(std::move(parcel));
  return rows;
}

absl::StatusOr<Piece> CachedModel::Wait() {
  Parcel parcel = queues_.back().Pop();
  Piece& piece = parcel.front();
  if (!piece.status.ok()) return piece.status;
  return std::move(piece);
}

void CachedModel::RunStage(size_t index) {
  omp_set_num_threads(options_.threads);
  for (bool more = true; more;) {
    Parcel parcel = queues_[index].Pop();
    Piece& piece = parcel.front();
    more = piece.sequence != nullptr;
    if (more && piece.status.ok()) {
      piece.status = OrExhausted("continuing a text", [&] { return Compute(index, piece); });
    }
    queues_[index + 1].Push(std::move(parcel));
  }
}

absl::Status CachedModel::Compute(size_t index, Piece& piece) {
  CachedStage& stage = *stages_[index];
  const void* const input =
      index == 0 ? static_cast<const void*>(piece.tokens.data()) : piece.hidden.data();
  const void* const output = stage.Run(piece.rows, piece.position, input, piece.sequence->caches);
  if (output != nullptr) {
    const auto* const bytes = static_cast<const std::byte*>(output);
    piece.hidden.assign(bytes, bytes + piece.rows * spec_.decoder()->dim * SizeOf(options_.dtype));
  } else if (piece.logit_rows > 0) {
    piece.logits.resize(static_cast<size_t>(piece.logit_rows * spec_.decoder()->vocab));
    stage.Logits(piece.rows, piece.rows - piece.logit_rows, piece.logits.data());
  }
  return absl::OkStatus();
}

}  // namespace sluice
