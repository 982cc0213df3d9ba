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
int64_t BlockCacheBytes(const ModelSpec& spec, int64_t positions, DType dtype) {
  const DecoderConfig& config = *spec.decoder();
  return AlignUp(2 * config.key_value_heads() * config.head_width() * positions * SizeOf(dtype));
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
                                                               const CachedModelOptions& options,
                                                               const ComputeChoice& compute) {
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
  std::unique_ptr<CachedModel> model(new CachedModel(spec, options, compute));
  for (int stage = 0; stage < options.stages; ++stage) {
    absl::StatusOr<std::unique_ptr<CachedStage>> made =
        CachedStage::Make(spec,
                          {.first = model->FirstLayer(stage),
                           .end = model->FirstLayer(stage + 1),
                           .positions = options.positions,
                           .dtype = compute.dtype,
                           .kernels = compute.kernels,
                           .device = model->DeviceOf(stage)},
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

Device* CachedModel::DeviceOf(int stage) const {
  if (compute_.devices.empty()) return &CpuDevice();
  return compute_.devices[static_cast<size_t>(stage) * compute_.devices.size() /
                          static_cast<size_t>(options_.stages)];
}

int64_t CachedModel::cache_bytes() const {
  return spec_.decoder()->layers * BlockCacheBytes(spec_, options_.positions, compute_.dtype);
}

absl::StatusOr<CachedSequence> CachedModel::NewSequence() const {
  const int64_t of_block = BlockCacheBytes(spec_, options_.positions, compute_.dtype);
  CachedSequence sequence;
  sequence.caches.resize(static_cast<size_t>(spec_.layer_count()));
  for (int stage = 0; stage < options_.stages; ++stage) {
    // Behind the embedding, before the head.
    const int64_t first = std::max(1, FirstLayer(stage));
    const int64_t end = std::min(FirstLayer(stage + 1), spec_.layer_count() - 1);
    absl::StatusOr<Arena> arena =
        Arena::Allocate(*DeviceOf(stage), std::max<int64_t>(0, end - first) * of_block);
    if (!arena.ok()) return arena.status();
    for (int64_t layer = first; layer < end; ++layer) {
      sequence.caches[static_cast<size_t>(layer)] = arena->at((layer - first) * of_block);
    }
    sequence.arenas.push_back(std::make_unique<Arena>(*std::move(arena)));
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
  const bool last = index + 1 == stages_.size();
  const std::vector<std::byte> input = std::move(piece.hidden);
  piece.hidden.clear();
  if (!last) {
    piece.hidden.resize(
        static_cast<size_t>(piece.rows * spec_.decoder()->dim * SizeOf(compute_.dtype)));
  }
  absl::Status status =
      stage.Run(piece.rows, piece.position,
                index == 0 ? static_cast<const void*>(piece.tokens.data()) : input.data(),
                piece.sequence->caches, last ? nullptr : piece.hidden.data());
  if (!status.ok() || piece.logit_rows == 0 || !last) return status;
  piece.logits.resize(static_cast<size_t>(piece.logit_rows * spec_.decoder()->vocab));
  return stage.Logits(piece.rows, piece.rows - piece.logit_rows, piece.logits.data());
}

}  // namespace sluice
