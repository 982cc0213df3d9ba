#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_RENDER_LIMITS_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_RENDER_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace sluice::jinja {

// What one conversation may take; a template that takes more is refused. With these some seconds.
struct RenderLimits {
  int64_t statements = 5'000'000;   // that are run
  size_t text = size_t{256} << 20;  // bytes that are written
  int64_t work = 5'000'000;         // units of Charge; about a second
  int64_t kept = 2'000'000;         // units that have names; 128 MiB of text
};

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_RENDER_LIMITS_H_
