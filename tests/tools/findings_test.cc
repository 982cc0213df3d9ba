#include "tools/doctor/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/kernels/cuda_kernels.h"

namespace sluice {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

// A machine that lacks nothing.
Findings Everything() {
  Findings found;
  found.processor.flags = {"avx2", "fma", "avx512bw", "avx512_bf16"};
  found.bf16 = true;
  found.usable_cores = 2;
  found.accelerators.gpus.resize(1);
  found.accelerators.nccl = "2.18.5";
  found.cuda_build = found.cublaslt = true;
  found.mpirun = "/usr/bin/mpirun";
  found.mpi_library = "Open MPI";
  found.ssh = "/usr/bin/ssh";
  found.fashion_mnist = "/data";
  found.bible = "/usr/bin/bible";
  return found;
}

std::vector<std::string> LackedBy(const Findings& found) {
  std::vector<std::string> names;
  for (const Lack& lack : FindLacks(found)) names.push_back(lack.what);
  return names;
}

TEST(FindLacks, FindsNothingWhereEverythingIs) { EXPECT_THAT(FindLacks(Everything()), IsEmpty()); }

TEST(FindLacks, NamesExactlyWhatWasTakenAway) {
  Findings found = Everything();
  found.mpirun.clear();
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("MPI"));
  found = Everything();
  found.mpi_library.clear();
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("MPI in this build"));
  found = Everything();
  found.ssh.clear();
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("ssh"));
  found = Everything();
  found.bf16 = false;
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("fast bf16"));
  found = Everything();
  found.usable_cores = 1;
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("a second core"));
}

TEST(FindLacks, AsksForCublasLtOnlyWhereItsKernelsCouldRun) {
  Findings found = Everything();
  found.cublaslt = false;
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("cuBLASLt"));
  found.cuda_build = false;
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("CUDA in this build"));
  found.accelerators.gpus.clear();
  EXPECT_THAT(LackedBy(found), testing::ElementsAre("a GPU"));
}

TEST(Examine, KnowsWhetherThisBuildHasKernelsForGpus) {
  const Findings found = Examine();
  EXPECT_EQ(found.cuda_build, !absl::IsFailedPrecondition(PrepareCudaKernels()));
  EXPECT_TRUE(found.cuda_build || !found.cublaslt);
}

TEST(FindLacks, AsksForNcclOnlyBesideAGpu) {
  Findings found = Everything();
  found.accelerators.nccl.clear();
  EXPECT_THAT(LackedBy(found), Contains("NCCL"));
  found.accelerators.gpus.clear();
  EXPECT_THAT(LackedBy(found), Not(Contains("NCCL")));
}

TEST(FindLacks, SaysWhatEveryLackMeans) {
  for (const Lack& lack : FindLacks(Findings())) EXPECT_FALSE(lack.meaning.empty()) << lack.what;
}

TEST(ToJson, WritesNullForWhatIsNotThere) {
  const Findings nothing;
  const nlohmann::ordered_json json = ToJson(nothing, FindLacks(nothing));
  EXPECT_TRUE(json["mpi"]["mpirun"].is_null());
  EXPECT_TRUE(json["nccl"].is_null());
  EXPECT_TRUE(json["cudnn"].is_null());
  EXPECT_EQ(json["gpus"].size(), 0U);
  EXPECT_EQ(json["missing"].size(), FindLacks(nothing).size());
}

TEST(Examine, SeesTheProcessorAndOneDnnOfThisMachine) {
  const Findings found = Examine();
  EXPECT_GE(found.usable_cores, 1);
  EXPECT_LE(found.usable_cores, found.processor.logical_cores);
  EXPECT_GT(found.memory.total_bytes, 0);
  EXPECT_THAT(found.onednn, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace sluice
