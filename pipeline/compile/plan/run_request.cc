#include "pipeline/compile/plan/run_request.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Layer>> RunRequest::MakeLayerAt(int index) const {
  return make_layer ? make_layer(index)
                    : MakeLayer(spec, index, batch, dtype, *kernels, adaptation);
}

}  // namespace sluice
