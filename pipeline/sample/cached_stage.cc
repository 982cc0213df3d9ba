#include "pipeline/sample/cached_stage.h"

#include <algorithm>
#include <array>
#include <map>
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
  absl::Status Place(int64_t result_bytes, Device& device);

  int64_t rows = 0;
  std::vector<std::unique_ptr<Layer>> layers;
  std::unique_ptr<Arena> arena;
  std::vector<std::vector<void*>> tensors;  // [layer][tensor]; null where forward needs none
  std::vector<LayerCall> calls;             // [layer]
  std::vector<int32_t> starts;              // [rows], the host's
  void* result = nullptr;                   // [rows, dim], or behind the head [rows, vocab]
};

absl::Status CachedStage::Sized::Place(int64_t result_bytes, Device& device) {
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
  buffers.push_back({rows * SizeOf(DType::kInt32), 0, count - 1});
  const BufferLayout layout = PackBuffers(buffers);
  absl::StatusOr<Arena> allocated = Arena::Allocate(device, layout.bytes);
  if (!allocated.ok()) return allocated.status();
  arena = std::make_unique<Arena>(*std::move(allocated));
  auto offset = layout.offsets.begin();
  for (const std::unique_ptr<Layer>& layer : layers) {
    LayerCall& call = calls.emplace_back();
    call.input = arena->at(*offset++);
    std::vector<void*>& of_layer = tensors.emplace_back();
    for (const TensorDecl& tensor : layer->decl().tensors) {
      of_layer.push_back(NeededByForward(tensor) ? arena->at(*offset++) : nullptr);
    }
    call.tensors = of_layer;  // its elements stay where they are when the outer list grows
  }
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    calls[i].output = const_cast<void*>(calls[i + 1].input);
  }
  result = arena->at(*offset++);
  for (LayerCall& call : calls) call.starts = arena->at<int32_t>(*offset);
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
  const absl::StatusOr<Stream> stream = layers.device->NewStream();
  if (!stream.ok()) return stream.status();
  stage->stream_ = *stream;
  absl::Status status;
  for (const int64_t rows : kPieces) {
    if (rows <= layers.positions && status.ok()) status = stage->MakeSized(spec, rows, parameters);
  }
  if (status.ok()) status = stage->Finish();
  if (!status.ok()) return status;
  return stage;
}

absl::Status CachedStage::PlaceParameters(const std::vector<std::unique_ptr<Layer>>& layers,
                                          const ParameterTable& parameters) {
  const auto first = parameters.begin() + layers_.first, end = parameters.begin() + layers_.end;
  parameters_.assign(first, end);
  if (!layers_.device->queues()) return absl::OkStatus();
  struct Copied {
    int64_t offset, bytes;
  };
  std::map<const void*, Copied> copied;  // by where the host has it: tied ones once
  int64_t bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::vector<ParameterDecl>& decls = layers[i]->decl().parameters;
    for (size_t p = 0; p < decls.size(); ++p) {
      const void* const host = parameters_[i][p];
      if (copied.try_emplace(host, Copied{bytes, decls[p].bytes()}).second)
        bytes += AlignUp(decls[p].stored_bytes());
    }
  }
  absl::StatusOr<Arena> arena = Arena::Allocate(*layers_.device, bytes);
  if (!arena.ok()) return arena.status();
  weights_ = std::make_unique<Arena>(*std::move(arena));
  for (const auto& [host, place] : copied) {
    layers_.device->Copy(stream_, weights_->at(place.offset), host,
                         static_cast<size_t>(place.bytes));
  }
  for (std::vector<void*>& of_layer : parameters_) {
    for (void*& parameter : of_layer) parameter = weights_->at(copied.at(parameter).offset);
  }
  return Finish();
}

absl::Status CachedStage::MakeSized(const ModelSpec& spec, int64_t rows,
                                    const ParameterTable& parameters) {
  auto sized = std::make_unique<Sized>();
  sized->rows = rows;
  sized->starts.resize(static_cast<size_t>(rows));
  for (int index = layers_.first; index < layers_.end; ++index) {
    absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeCachedLayer(spec, index, rows, layers_.positions, layers_.dtype, *layers_.kernels);
    if (!layer.ok()) return layer.status();
    sized->layers.push_back(*std::move(layer));
  }
  const int64_t columns =
      IsHead(*sized->layers.back()) ? spec.decoder()->vocab : spec.decoder()->dim;
  absl::Status placed = sized->Place(rows * columns * SizeOf(layers_.dtype), *layers_.device);
  if (!placed.ok()) return placed;
  const bool first_size = sized_.empty();
  if (first_size) placed = PlaceParameters(sized->layers, parameters);
  if (!placed.ok()) return placed;
  // Weights are read as they are stored, so the packed memory holds the table of rotary positions
  // and a GPU's copies of biases alone, the same for any number of rows. On a GPU Pack also
  // rehearses the products of each.
  const bool packs_each = layers_.device->queues();
  for (size_t i = 0; i < sized->layers.size(); ++i) {
    LayerCall& call = sized->calls[i];
    call.stream = stream_;
    call.parameters = parameters_[i];
    if (first_size) {
      const auto bytes = static_cast<int64_t>(sized->layers[i]->decl().packed_bytes);
      absl::StatusOr<Arena> arena = Arena::Allocate(*layers_.device, AlignUp(bytes));
      if (!arena.ok()) return arena.status();
      packed_.push_back(std::make_unique<Arena>(*std::move(arena)));
    }
    call.packed = packed_[i]->at(0);
    if (first_size || packs_each) sized->layers[i]->Pack(call);
  }
  sized_.push_back(std::move(sized));
  return absl::OkStatus();
}

absl::Status CachedStage::Finish() {
  return layers_.device->Synchronize(stream_, Instant::InfiniteFuture());
}

CachedStage::Sized& CachedStage::Of(int64_t rows) {
  return **std::find_if(sized_.begin(), sized_.end(),
                        [rows](const auto& sized) { return sized->rows == rows; });
}

absl::Status CachedStage::Run(int64_t rows, int64_t position, const void* input,
                              absl::Span<void* const> caches, void* output) {
  Sized& sized = Of(rows);
  Device& device = *layers_.device;
  std::fill(sized.starts.begin(), sized.starts.end(), static_cast<int32_t>(-position));
  device.Copy(stream_, const_cast<int32_t*>(sized.calls.front().starts), sized.starts.data(),
              sized.starts.size() * sizeof(int32_t));
  device.Copy(stream_, const_cast<void*>(sized.calls.front().input), input,
              static_cast<size_t>(InputBytes(sized.layers.front()->decl())));
  for (size_t i = 0; i < sized.layers.size(); ++i) {
    const std::vector<TensorDecl>& decls = sized.layers[i]->decl().tensors;
    for (size_t t = 0; t < decls.size(); ++t) {
      if (decls[t].name == kCacheTensor) {
        sized.tensors[i][t] = caches[static_cast<size_t>(layers_.first) + i];
      }
    }
    sized.calls[i].first_position = position;
    sized.layers[i]->Forward(sized.calls[i]);
  }
  if (output == nullptr) return absl::OkStatus();
  const LayerDecl& last = sized.layers.back()->decl();
  device.Copy(stream_, output, sized.result,
              static_cast<size_t>(ElementCount(last.output_shape) * SizeOf(last.output_dtype)));
  return Finish();
}

absl::Status CachedStage::Logits(int64_t rows, int64_t first_row, float* out) {
  Sized& sized = Of(rows);
  const int64_t values = (rows - first_row) * vocab_;
  const bool halves = layers_.dtype == DType::kBFloat16;
  if (halves) halves_.resize(static_cast<size_t>(values));
  sized.layers.back()->Logits(sized.calls.back(), first_row, rows - first_row, sized.result);
  layers_.device->Copy(stream_, halves ? static_cast<void*>(halves_.data()) : out, sized.result,
                       static_cast<size_t>(values * SizeOf(layers_.dtype)));
  absl::Status status = Finish();
  if (status.ok() && halves) FromBFloat16(values, halves_.data(), out);
  return status;
}

}  // namespace sluice
