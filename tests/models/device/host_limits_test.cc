#include "models/device/host_limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/models/device/fake_root.h"

namespace sluice {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A machine with 1,000 MiB, of which 800 are available.
class HostLimits : public testing::Test {
 protected:
  HostLimits() {
    root_.Write("/proc/meminfo",
                "MemTotal:       1024000 kB\nMemFree: 1 kB\nMemAvailable:   819200 kB\n");
  }

  // This process is in `group` of a hierarchy of version 2, whose group `mounted` is at
  // /sys/fs/cgroup.
  void Unified(const std::string& group, const std::string& mounted = "/") const {
    root_.Write("/proc/self/cgroup", "0::" + group + "\n");
    root_.Write("/proc/self/mountinfo",
                "22 1 0:20 / /proc rw - proc proc rw\n30 22 0:26 " + mounted +
                    " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  // The same of version 1, which has a hierarchy for memory and one for cores.
  void FirstVersion(const std::string& group, const std::string& mounted = "/") const {
    root_.Write("/proc/self/cgroup",
                "4:memory:" + group + "\n2:cpu,cpuacct:" + group + "\n0::/other\n");
    root_.Write("/proc/self/mountinfo",
                "35 31 0:32 " + mounted +
                    " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                    "36 31 0:33 " +
                    mounted + " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  }
  // Bytes in MiB, of a group at `folder` of version 2; an empty limit is left out.
  void UnifiedMemory(const std::string& folder, const std::string& limit, int64_t used,
                     int64_t files) const {
    if (!limit.empty()) root_.Write(folder + "/memory.max", limit + "\n");
    root_.Write(folder + "/memory.current", std::to_string(used * kMiB) + "\n");
    root_.Write(folder + "/memory.stat", "anon 1\nfile 5\nactive_file " +
                                             std::to_string(files * kMiB / 2) + "\ninactive_file " +
                                             std::to_string(files * kMiB / 2) + "\n");
  }
  void FirstMemory(const std::string& folder, const std::string& limit, int64_t used,
                   int64_t files) const {
    root_.Write(folder + "/memory.limit_in_bytes", limit + "\n");
    root_.Write(folder + "/memory.usage_in_bytes", std::to_string(used * kMiB) + "\n");
    // Without "total_" it is the group's own, without those below it.
    root_.Write(folder + "/memory.stat", "active_file 7\ntotal_active_file " +
                                             std::to_string(files * kMiB) +
                                             "\ntotal_inactive_file 0\n");
  }

  HostMemory Memory() const { return ReadHostMemory(root_.path()); }
  double Quota() const { return ReadCoreQuota(root_.path()); }

  FakeRoot root_;
};

std::string Bytes(int64_t mib) { return std::to_string(mib * kMiB); }

TEST_F(HostLimits, AreTheMachinesWhereThereAreNoGroups) {
  EXPECT_EQ(Memory().total_bytes, 1000 * kMiB);
  EXPECT_EQ(Memory().available_bytes, 800 * kMiB);
  EXPECT_FALSE(Memory().in_group);
  EXPECT_TRUE(std::isinf(Quota()));
}

TEST_F(HostLimits, AreUnknownWhereLinuxHidesThem) {
  EXPECT_EQ(ReadHostMemory("/nowhere").total_bytes, 0);
  EXPECT_EQ(ReadHostMemory("/nowhere").available_bytes, -1);
  EXPECT_TRUE(std::isinf(ReadCoreQuota("/nowhere")));
}

TEST_F(HostLimits, OfAContainerCountFilesInMemoryAsAvailable) {
  Unified("/");
  UnifiedMemory("/sys/fs/cgroup", Bytes(400), 300, 100);
  EXPECT_EQ(Memory().total_bytes, 400 * kMiB);
  EXPECT_EQ(Memory().available_bytes, 200 * kMiB);
  EXPECT_TRUE(Memory().in_group);
}

TEST_F(HostLimits, OfAnyGroupAboveHold) {
  Unified("/slurm/job_7/step_0");
  UnifiedMemory("/sys/fs/cgroup/slurm", Bytes(900), 100, 0);
  UnifiedMemory("/sys/fs/cgroup/slurm/job_7", Bytes(300), 150, 0);
  UnifiedMemory("/sys/fs/cgroup/slurm/job_7/step_0", "max", 150, 0);
  root_.Write("/sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
  root_.Write("/sys/fs/cgroup/slurm/job_7/cpu.max", "150000 100000\n");
  root_.Write("/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "400000 100000\n");
  EXPECT_EQ(Memory().total_bytes, 300 * kMiB);
  EXPECT_EQ(Memory().available_bytes, 150 * kMiB);
  EXPECT_DOUBLE_EQ(Quota(), 1.5);
}

TEST_F(HostLimits, OfOtherGroupsDoNot) {
  Unified("/mine");
  UnifiedMemory("/sys/fs/cgroup/mine", "max", 10, 0);
  UnifiedMemory("/sys/fs/cgroup/mine_too", Bytes(1), 1, 0);
  EXPECT_EQ(Memory().available_bytes, 800 * kMiB);
}

TEST_F(HostLimits, OfTheFirstVersionHold) {
  FirstVersion("/docker/ab12");
  FirstMemory("/sys/fs/cgroup/memory", "9223372036854771712", 500, 0);
  FirstMemory("/sys/fs/cgroup/memory/docker/ab12", Bytes(100), 90, 30);
  root_.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root_.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root_.Write("/sys/fs/cgroup/cpu,cpuacct/docker/ab12/cpu.cfs_quota_us", "50000\n");
  root_.Write("/sys/fs/cgroup/cpu,cpuacct/docker/ab12/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Memory().total_bytes, 100 * kMiB);
  EXPECT_EQ(Memory().available_bytes, 40 * kMiB);
  EXPECT_DOUBLE_EQ(Quota(), 0.5);
}

// The container sees its group at /sys/fs/cgroup/memory, and the name that the machine knows in
// /proc/self/cgroup.
TEST_F(HostLimits, AreFoundWhereAContainersOwnGroupIsMounted) {
  FirstVersion("/docker/ab12/below", "/docker/ab12");
  FirstMemory("/sys/fs/cgroup/memory", Bytes(100), 90, 0);
  FirstMemory("/sys/fs/cgroup/memory/below", Bytes(50), 5, 0);
  EXPECT_EQ(Memory().total_bytes, 50 * kMiB);
  EXPECT_EQ(Memory().available_bytes, 10 * kMiB);
  FirstVersion("/elsewhere", "/docker/ab12");
  EXPECT_EQ(Memory().total_bytes, 100 * kMiB);
  Unified("/../other");
  UnifiedMemory("/sys/fs/cgroup", Bytes(70), 5, 0);
  EXPECT_EQ(Memory().total_bytes, 70 * kMiB);
}

TEST_F(HostLimits, ThatAreUsedUpLeaveNothing) {
  Unified("/");
  UnifiedMemory("/sys/fs/cgroup", Bytes(100), 120, 0);
  EXPECT_EQ(Memory().available_bytes, 0);
}

TEST_F(HostLimits, ThatCannotBeReadLimitNothing) {
  Unified("/");
  for (const char* limit : {"", "x", "-5", "99999999999999999999999999"}) {
    UnifiedMemory("/sys/fs/cgroup", limit, 100, 0);
    root_.Write("/sys/fs/cgroup/cpu.max", std::string(limit) + " 0\n");
    EXPECT_EQ(Memory().available_bytes, 800 * kMiB) << limit;
    EXPECT_TRUE(std::isinf(Quota())) << limit;
  }
  root_.Write("/proc/self/mountinfo", "30 22 0:26\n - cgroup2 a\n1 2 3 4 5 6 - cgroup2\n\n");
  EXPECT_EQ(Memory().available_bytes, 800 * kMiB);
}

TEST(CoresToUse, IsOneOrMore) { EXPECT_GE(CoresToUse(), 1); }

}  // namespace
}  // namespace sluice
