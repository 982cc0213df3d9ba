// Runs every test here with the instruction set named by SLUICE_TEST_TARGET instead of the
// machine's best, so that the paths of smaller machines are tested on any.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "hwy/highway.h"

namespace sluice {
namespace {

constexpr int64_t kNone = 0;

int64_t TargetNamed(const char* name) {
  for (const int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if (std::strcmp(name, hwy::TargetName(target)) == 0) return target;
  }
  return kNone;
}

class InstructionSet : public testing::Environment {
 public:
  void SetUp() override {
    const char* name = std::getenv("SLUICE_TEST_TARGET");
    if (name == nullptr) return;
    const int64_t target = TargetNamed(name);
    ASSERT_NE(target, kNone) << "SLUICE_TEST_TARGET=" << name << " is none of SSE4, AVX2, AVX3";
    if ((hwy::SupportedTargets() & target) == 0) GTEST_SKIP() << "no " << name << " here";
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    std::printf("using %s\n", hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets()));
  }
};

[[maybe_unused]] const auto* const kEnvironment =
    testing::AddGlobalTestEnvironment(new InstructionSet);

}  // namespace
}  // namespace sluice
