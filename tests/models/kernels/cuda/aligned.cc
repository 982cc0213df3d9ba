// Tensors of this program are aligned, as those of an arena are: cuBLASLt needs 16 bytes.
#include <cstdlib>

namespace sluice {
namespace {

[[maybe_unused]] const int kAligned = setenv("SLUICE_TEST_ALIGNED", "1", 1);

}  // namespace
}  // namespace sluice
