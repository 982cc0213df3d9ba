#include "pipeline/compile/program/compile_audit.h"

#include <utility>

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/program/layer_calls.h"
#include "pipeline/compile/program/program_builder.h"

namespace sluice {
namespace {

class AuditCompiler {
 public:
  AuditCompiler(const RunPlan& plan, const LayerRange& layers)
      : plan_(plan), decls_(Declared(plan, layers)), calls_(decls_, 1, &builder_) {
    for (int layer = layers.first; layer <= layers.last; ++layer)
      builder_.program().layers.push_back(layer);
  }

  StageAudit Run() {
    Bring();
    Compute();
    audit_.program = std::move(builder_.program());
    KeepAll();
    BufferLayout layout = PackBuffers(audit_.program.buffers);
    audit_.offsets = std::move(layout.offsets);
    audit_.bytes = layout.bytes;
    return std::move(audit_);
  }

 private:
  static std::vector<const LayerDecl*> Declared(const RunPlan& plan, const LayerRange& layers) {
    std::vector<const LayerDecl*> decls;
    for (int layer = layers.first; layer <= layers.last; ++layer)
      decls.push_back(&plan.layers[static_cast<size_t>(layer)]);
    return decls;
  }

  BufferId Keep(int64_t bytes) { return kept_.emplace_back(builder_.New(bytes)); }

  void Bring() {
    bool uses_starts = false;
    for (const LayerDecl* decl : decls_) {
      std::vector<BufferId>& weights = audit_.weights.emplace_back();
      std::vector<BufferId>& gradients = audit_.gradients.emplace_back();
      for (const ParameterDecl& parameter : decl->parameters) {
        weights.push_back(Keep(parameter.bytes()));
        const int64_t elements = TrainedElements(parameter);
        gradients.push_back(elements == 0 ? kNoBuffer : Keep(elements * SizeOf(DType::kFloat32)));
      }
      audit_.packed.push_back(Keep(static_cast<int64_t>(decl->packed_bytes)));
      uses_starts = uses_starts || decl->uses_starts;
    }
    const int64_t rows = plan_.request.batch.rows() * SizeOf(DType::kInt32);
    audit_.input = Keep(InputBytes(*decls_.front()));
    if (uses_starts && plan_.request.documents) audit_.starts = Keep(rows);
    if (decls_.back()->output_shape.empty()) {
      audit_.targets = Keep(rows);
    } else {
      audit_.output_grad = Keep(OutputBytes(*decls_.back()));
    }
  }

  // Nothing is dropped, so nothing is rebuilt.
  void Compute() {
    BufferId current = audit_.input;
    for (size_t layer = 0; layer < decls_.size(); ++layer) {
      LayerCalls::Samples samples;
      if (decls_[layer]->output_shape.empty()) samples.targets = audit_.targets;
      if (decls_[layer]->uses_starts) samples.starts = audit_.starts;
      calls_.SetInput(PlaceOf(layer), current, samples);
      current = calls_.Forward(PlaceOf(layer));
    }
    current = audit_.output_grad;
    for (size_t layer = decls_.size(); layer-- > 0;) {
      current = calls_.InputGrad(PlaceOf(layer), current);
      calls_.WeightGrad(PlaceOf(layer));
    }
  }

  static CallPlace PlaceOf(size_t layer) { return {.layer = static_cast<int>(layer)}; }

  // What is brought is there before the first call.
  void KeepAll() {
    RankProgram& program = audit_.program;
    for (const BufferId id : kept_) {
      Buffer& buffer = program.buffers[static_cast<size_t>(id)];
      buffer.first = 0;
      buffer.last = static_cast<int32_t>(program.instructions.size()) - 1;
    }
  }

  const RunPlan& plan_;
  ProgramBuilder builder_;
  const std::vector<const LayerDecl*> decls_;
  LayerCalls calls_;
  StageAudit audit_;
  std::vector<BufferId> kept_;
};

}  // namespace

std::vector<StageAudit> CompileAudits(const RunPlan& plan) {
  std::vector<StageAudit> audits;
  if (!plan.audits()) return audits;
  const Placement& placement = plan.lowered.placement;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const auto of_model = static_cast<size_t>(placement.model_stage(stage));
    audits.push_back(AuditCompiler(plan, plan.request.partition[of_model]).Run());
  }
  return audits;
}

}  // namespace sluice
