#ifndef SLUICE_PIPELINE_SAMPLE_CACHED_MODEL_H_
#define SLUICE_PIPELINE_SAMPLE_CACHED_MODEL_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pipeline/sample/cached_stage.h"

namespace sluice {

struct CachedModelOptions {
  int64_t positions = 0;  // most tokens of a sequence
  int stages = 1;         // threads that the layers are dealt to; logits do not depend on it
  int threads = 1;        // of each stage's kernels
};

// Where and how a model computes.
struct ComputeChoice {
  DType dtype = DType::kFloat32;  // of activations, caches and matrices
  const Kernels* kernels = &CpuKernels();
  // On which the kernels run: stages are dealt to them, neighbours to one, and have their weights
  // and caches there. Empty: the processor.
  std::vector<Device*> devices = {};
};

// A sequence of tokens and, for each block, the keys and values of all of them.
struct CachedSequence {
  std::vector<int32_t> tokens;
  std::vector<std::unique_ptr<Arena>> arenas;  // [stage]
  std::vector<void*> caches;                   // [layer]; null for those that are no blocks
};

// Tokens that continue a sequence.
struct Piece {
  CachedSequence* sequence = nullptr;
  int64_t position = 0;  // tokens of the sequence before it
  int64_t rows = 0;
  int64_t logit_rows = 0;  // the last rows of it, whose logits are wanted
  std::vector<int32_t> tokens;
  std::vector<std::byte> hidden;  // between stages: [rows, dim] of the compute type
  std::vector<float> logits;      // [logit_rows, vocab]
  absl::Status status;            // the first error of a stage
};

// A decoder's layers, dealt to stages, and pieces that go through them in the order of Submit(),
// each with its sequence's cache: pieces of several sequences are computed at the same time, one in
// each stage. Submit() and Wait() from one thread.
class CachedModel {
 public:
  // `parameters`, of the types that MakeCachedLayer declares, and the devices outlive it.
  // InvalidArgument where there are more stages than layers, or as MakeCachedLayer;
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<CachedModel>> Make(const ModelSpec& spec,
                                                           const ParameterTable& parameters,
                                                           const CachedModelOptions& options,
                                                           const ComputeChoice& compute);
  ~CachedModel();

  int64_t positions() const { return options_.positions; }
  // Bytes of keys and values: of all blocks, for all positions.
  int64_t cache_bytes() const;
  absl::StatusOr<CachedSequence> NewSequence() const;
  // Queues the first tokens of `tokens`, PieceRows() of them, behind the sequence's, and returns how
  // many. They must be of the vocabulary and fit into the positions. Logits of the last
  // `logit_rows` of `tokens`, as far as they are among those. The sequence stays where it is until
  // Wait() has given the piece back.
  int64_t Submit(CachedSequence& sequence, absl::Span<const int32_t> tokens, int64_t logit_rows);
  // The next piece that is done, in the order of Submit(). Requires one that is not given back yet.
  // ResourceExhausted where a stage had no memory for it.
  absl::StatusOr<Piece> Wait();

 private:
  // One piece. It moves from list to list, which needs no memory, so it always arrives.
  using Parcel = std::list<Piece>;
  // Pieces on their way to a stage, or done.
  class Queue {
   public:
    void Push(Parcel parcel);
    Parcel Pop();

   private:
    std::mutex mutex_;
    std::condition_variable filled_;
    std::list<Piece> pieces_;
  };

  CachedModel(const ModelSpec& spec, const CachedModelOptions& options,
              const ComputeChoice& compute)
      : spec_(spec), options_(options), compute_(compute) {}
  // The first layer of a stage, and behind the last stage their number.
  int FirstLayer(int stage) const { return stage * spec_.layer_count() / options_.stages; }
  Device* DeviceOf(int stage) const;
  void RunStage(size_t stage);
  absl::Status Compute(size_t stage, Piece& piece);

  ModelSpec spec_;
  CachedModelOptions options_;
  ComputeChoice compute_;
  std::vector<std::unique_ptr<CachedStage>> stages_;
  std::vector<Queue> queues_;  // [stages + 1]: before each stage, and of what is done
  Parcel last_{1};             // ends the stages
  std::vector<std::thread> threads_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SAMPLE_CACHED_MODEL_H_
