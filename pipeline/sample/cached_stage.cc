#include "pipeline/sample/cached_stage.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "models/layers/cached_layer.h"
#include "models/spec/bfloat16.h"
#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

// A prompt is computed in as few and as large pieces as there are, without padding.
constexpr std::array<int64_t, 3> kPieces = {64, 8, 1};

bool NeededByForward(const TensorDecl& tensor) {
  return tensor.name != kCacheTensor && (tensor.lifetime == Lifetime::kForwardToInputGrad ||
                                         tensor.lifetime == Lifetime::kForwardToWeightGrad ||
                                         tensor.lifetime == Lifetime::kForwardScratch);
}

int64_t InputBytes(const LayerDecl& decl) {
  return ElementCount(decl.input_shape) * SizeOf(decl.input_dtype);
}

bool IsHead(const Layer& layer) { return layer.decl().output_shape.empty(); }

}  // namespace

struct CachedStage::Sized {
  // Instruction i of the plan is layer i: its tensors live there, its input from the layer before.
  // What leaves the stage, `result_bytes`, is there as the last layer is.
  absl::Status Place(int64_t result_bytes);

  int64_t rows = 0;
  std::vector<std::unique_ptr<Layer>> layers;
  std::unique_ptr<Arena> arena;
  std::vector<std::vector<void*>> tensors;  // [layer][tensor]; null where forward needs none
  std::vector<LayerCall> calls;             // [layer]
  std::vector<int32_t> starts;              // [rows]
  void* result = nullptr;                   // [rows, dim], or behind the head [rows, vocab]
};

absl::Status CachedStage::Sized::Place(int64_t result_bytes) {
  const auto count = static_cast<int32_t>(layers.size());
  std::vector<Buffer> buffers;
  for (int32_t i = 0; i < count; ++i) {
    const LayerDecl& decl = layers[static_cast<size_t>(i)]->decl();
    buffers.push_back({InputBytes(decl), std::max(0, i - 1), i});
    for (const TensorDecl& tensor : decl.tensors) {
      if (NeededByForward(tensor)) buffers.push_back({tensor.bytes(), i, i});
    }
  }
  buffers.push_back({result_bytes, count - 1, count - 1});
  const BufferLayout layout = PackBuffers(buffers);
  absl::StatusOr<Arena> allocated = Arena::Allocate(CpuDevice(), layout.bytes);
  if (!allocated.ok()) return allocated.status();
  arena = std::make_unique<Arena>(*std::move(allocated));
  auto offset = layout.offsets.begin();
  for (const std::unique_ptr<Layer>& layer : layers) {
    LayerCall& call = calls.emplace_back();
    call.input = arena->at(*offset++);
    call.starts = starts.data();
    std::vector<void*>& of_layer = tensors.emplace_back();
    for (const TensorDecl& tensor : layer->decl().tensors) {
      of_layer.push_back(NeededByForward(tensor) ? arena->at(*offset++) : nullptr);
    }
    call.tensors = of_layer;  // its elements stay where they are when the outer list grows
  }
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    calls[i].output = const_cast<void*>(calls[i + 1].input);
  }
  result = arena->at(*offset);
  if (!IsHead(*layers.back())) calls.back().output = result;
  return absl::OkStatus();
}

CachedStage::CachedStage(const CachedLayers& layers, int64_t vocab)
    : layers_(layers), vocab_(vocab) {}
CachedStage::~CachedStage() = default;

int64_t CachedStage::PieceRows(int64_t rows) {
  return *std::find_if(kPieces.begin(), kPieces.end(), [rows](int64_t n) { return n <= rows; });
}

absl::StatusOr<std::unique_ptr<CachedStage>> CachedStage::Make(const ModelSpec& spec,
                                                               const CachedLayers& layers,
                                                               const ParameterTable& parameters) {
  std::unique_ptr<CachedStage> stage(new CachedStage(layers, spec.decoder()->vocab));
  for (const int64_t rows : kPieces) {
    if (rows > layers.positions) continue;
    absl::Status status = stage->MakeSized(spec, rows, parameters);
    if (!status.ok()) return status;
  }
  return stage;
}

absl::Status CachedStage::MakeSized(const ModelSpec& spec, int64_t rows,
                                    const ParameterTable& parameters) {
  auto sized = std::make_unique<Sized>();
  sized->rows = rows;
  sized->starts.resize(static_cast<size_t>(rows));
  for (int index = layers_.first; index < layers_.end; ++index) {
    absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeCachedLayer(spec, index, rows, layers_.positions, layers_.dtype);
    if (!layer.ok()) return layer.status();
    sized->layers.push_back(*std::move(layer));
  }
  const int64_t columns =
      IsHead(*sized->layers.back()) ? spec.decoder()->vocab : spec.decoder()->dim;
  absl::Status placed = sized->Place(rows * columns * SizeOf(layers_.dtype));
  if (!placed.ok()) return placed;
  // Weights are read as they are stored, so the packed memory holds the table of rotary positions
  // alone.
  const bool first_size = packed_.empty();
  for (size_t i = 0; i < sized->layers.size(); ++i) {
    LayerCall& call = sized->calls[i];
    call.parameters = parameters[static_cast<size_t>(layers_.first) + i];
    if (first_size) {
      const auto bytes = static_cast<int64_t>(sized->layers[i]->decl().packed_bytes);
      absl::StatusOr<Arena> arena = Arena::Allocate(CpuDevice(), AlignUp(bytes));
      if (!arena.ok()) return arena.status();
      packed_.push_back(std::make_unique<Arena>(*std::move(arena)));
    }
    call.packed = packed_[i]->at(0);
    if (first_size) sized->layers[i]->Pack(call);
  }
  sized_.push_back(std::move(sized));
  return absl::OkStatus();
}

CachedStage::Sized& CachedStage::Of(int64_t rows) {
  return **std::find_if(sized_.begin(), sized_.end(),
                        [rows](const auto& sized) { return sized->rows == rows; });
}

const void* CachedStage::Run(int64_t rows, int64_t position, const void* input,
                             absl::Span<void* const> caches) {
  Sized& sized = Of(rows);
  std::fill(sized.starts.begin(), sized.starts.end(), static_cast<int32_t>(-position));
  std::memcpy(const_cast<void*>(sized.calls.front().input), input,
              static_cast<size_t>(InputBytes(sized.layers.front()->decl())));
  for (size_t i = 0; i < sized.layers.size(); ++i) {
    const std::vector<TensorDecl>& decls = sized.layers[i]->decl().tensors;
    for (size_t t = 0; t < decls.size(); ++t) {
      if (decls[t].name == kCacheTensor) {
        sized.tensors[i][t] = caches[static_cast<size_t>(layers_.first) + i];
      }
    }
    sized.layers[i]->Forward(sized.calls[i]);
  }
  return sized.calls.back().output;
}

void CachedStage::Logits(int64_t rows, int64_t first_row, float* out) {
  Sized& sized = Of(rows);
  const int64_t values = (rows - first_row) * vocab_;
  sized.layers.back()->Logits(sized.calls.back(), first_row, rows - first_row, sized.result);
  if (layers_.dtype == DType::kBFloat16) {
    FromBFloat16(values, static_cast<const uint16_t*>(sized.result), out);
  } else {
    std::copy_n(static_cast<const float*>(sized.result), values, out);
  }
}

}  // namespace sluice
