#include "partitioner/planning/profiling/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/models/device/fake_root.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// One logical core, as /proc/cpuinfo lists it.
std::string Core(int number, int socket, int core) {
  return "processor\t: " + std::to_string(number) +
         "\nmodel name\t: Some CPU @ 2.00GHz\nphysical id\t: " + std::to_string(socket) +
         "\ncore id\t\t: " + std::to_string(core) + "\nflags\t\t: fpu avx2 avx512_bf16\n\n";
}

TEST(ReadProcessor, CountsThreadsOfOneCoreOnce) {
  FakeRoot root;
  root.Write("/proc/cpuinfo", Core(0, 0, 0) + Core(1, 0, 1) + Core(2, 1, 0) + Core(3, 1, 1) +
                                  Core(4, 0, 0) + Core(5, 0, 1) + Core(6, 1, 0) + Core(7, 1, 1));
  const Processor processor = ReadProcessor(root.path());
  EXPECT_EQ(processor.model, "Some CPU @ 2.00GHz");
  EXPECT_EQ(processor.logical_cores, 8);
  EXPECT_EQ(processor.physical_cores, 4);
  EXPECT_THAT(processor.flags, ElementsAre("fpu", "avx2", "avx512_bf16"));
}

TEST(ReadProcessor, TakesAFlagOnlyAsAWhole) {
  FakeRoot root;
  root.Write("/proc/cpuinfo", Core(0, 0, 0));
  const Processor processor = ReadProcessor(root.path());
  EXPECT_TRUE(processor.Has("avx512_bf16"));
  EXPECT_FALSE(processor.Has("avx512"));
}

TEST(ReadProcessor, ReadsCachesWithTheirUnitsAndSharers) {
  FakeRoot root;
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  root.Write("/proc/cpuinfo", Core(0, 0, 0));
  root.Write(cache + "0/level", "3\n");
  root.Write(cache + "0/type", "Unified\n");
  root.Write(cache + "0/size", "32M\n");
  root.Write(cache + "0/shared_cpu_list", "0-3,8,10-11\n");
  root.Write(cache + "1/level", "1\n");
  root.Write(cache + "1/type", "Data\n");
  root.Write(cache + "1/size", "48K\n");
  root.Write(cache + "1/shared_cpu_list", "0\n");
  const Processor processor = ReadProcessor(root.path());
  ASSERT_EQ(processor.caches.size(), 2U);
  EXPECT_EQ(processor.caches[0].level, 1);
  EXPECT_EQ(processor.caches[0].type, "Data");
  EXPECT_EQ(processor.caches[0].bytes, 48 << 10);
  EXPECT_EQ(processor.caches[0].shared_by, 1);
  EXPECT_EQ(processor.caches[1].bytes, 32 << 20);
  EXPECT_EQ(processor.caches[1].shared_by, 7);
}

TEST(ReadProcessor, SurvivesAMachineThatHidesEverything) {
  const Processor processor = ReadProcessor("/nowhere");
  EXPECT_EQ(processor.logical_cores, 0);
  EXPECT_TRUE(processor.caches.empty());
}

TEST(FindProgram, TakesTheFirstFolderThatHasItExecutable) {
  FakeRoot root;
  root.Write("/a/tool", "not executable");
  root.Write("/b/tool", "");
  root.Write("/c/tool", "");
  for (const char* file : {"/b/tool", "/c/tool"}) {
    std::filesystem::permissions(root.path() + file, std::filesystem::perms::owner_all);
  }
  const std::string path = root.path() + "/a:" + root.path() + "/b:" + root.path() + "/c";
  EXPECT_EQ(FindProgram("tool", path), root.path() + "/b/tool");
  EXPECT_EQ(FindProgram("no-such-tool", path), "");
}

}  // namespace
}  // namespace sluice
