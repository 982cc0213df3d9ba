// A process of a group, against a supervisor that the test plays.
#include "comm/membership/member.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/membership/message.h"

namespace sluice {
namespace {

Instant Soon() { return Instant::Now() + absl::Seconds(60); }

// A process, and its supervisor's end of the pair of sockets.
class Process {
 public:
  Process() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends.data()), 0);
    supervisor_ = Descriptor(ends[0]);
    const auto environment = [&ends](absl::string_view name) -> std::optional<std::string> {
      if (name == kMemberVariable) return absl::StrCat(ends[1]);
      return std::nullopt;
    };
    absl::StatusOr<std::unique_ptr<Member>> member = Member::Open(environment, &leave_, &stop_);
    EXPECT_TRUE(member.ok()) << member.status();
    member_ = *std::move(member);
  }

  Member& member() { return *member_; }
  int port() const { return port_; }
  const Descriptor& supervisor() const { return supervisor_; }

  // Waits for a place in a group and gets this one, with rank 0 at this port; 0: at its own.
  // `lock`: a descriptor that comes along; -1: none.
  GroupPlace Join(int rank, int size, int port, int lock = -1) {
    std::thread supervisor([&] {
      std::optional<MemberMessage> told;
      while (!told || told->kind != MemberMessage::Kind::kWaiting) {
        if (!AwaitEvents(supervisor_, POLLIN, Soon()).ok()) return;
        if (!ReceiveMessage(supervisor_.get(), &told).ok()) return;
      }
      port_ = told->port;
      MemberMessage group{.kind = MemberMessage::Kind::kGroup};
      group.generation = 1;
      group.rank = rank;
      group.size = size;
      group.port = port == 0 ? port_ : port;
      EXPECT_TRUE(SendMessage(supervisor_.get(), group, lock).ok());
    });
    const absl::StatusOr<GroupPlace> place = member_->Join({});
    supervisor.join();
    EXPECT_TRUE(place.ok()) << place.status();
    return *place;
  }

 private:
  Descriptor supervisor_;
  std::atomic<bool> leave_{false}, stop_{false};
  std::unique_ptr<Member> member_;
  int port_ = 0;
};

bool Listens(int port) { return ConnectTo(Endpoint::Loopback(port), Soon()).ok(); }

// Rank 0's does until its group trains, since the group may meet once more before; that of another
// rank until it knows that it is another one.
TEST(Member, ListensNoLongerThanAGroupMayMeetThere) {
  const TcpOptions options{.shutdown_timeout = absl::Milliseconds(9)};
  Process processes[2];
  for (int group = 0; group < 2; ++group) {
    const GroupPlace first = processes[0].Join(0, 2, 0);
    const GroupPlace second = processes[1].Join(1, 2, processes[0].port());
    EXPECT_FALSE(Listens(processes[1].port()));
    for (int meeting = 0; meeting < 2; ++meeting) {
      ASSERT_TRUE(Listens(processes[0].port()));
      absl::StatusOr<std::unique_ptr<Communicator>> other;
      std::thread rank([&] { other = processes[1].member().Meet(second, 2, options); });
      const absl::StatusOr<std::unique_ptr<Communicator>> met =
          processes[0].member().Meet(first, 2, options);
      rank.join();
      EXPECT_TRUE(met.ok() && other.ok()) << met.status() << other.status();
    }
    processes[0].member().TellBegan(0, 2, 1, "0-1,2-3", "");
    EXPECT_FALSE(Listens(processes[0].port()));
  }
}

bool IsSameFile(int one, int other) {
  struct stat a = {};
  struct stat b = {};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

// From one rank 0 to the next, by their supervisor.
TEST(Member, HandsTheLockOver) {
  const Descriptor lock(memfd_create("lock", MFD_CLOEXEC));
  Process first, next;
  first.Join(0, 1, 0);
  EXPECT_FALSE(first.member().TakeLock().valid());
  first.member().TellLocked(lock.get());
  std::optional<MemberMessage> told;
  Descriptor kept;
  ASSERT_TRUE(ReceiveMessage(first.supervisor().get(), &told, &kept).ok());
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->kind, MemberMessage::Kind::kLocked);
  EXPECT_TRUE(IsSameFile(kept.get(), lock.get()));
  EXPECT_EQ(fcntl(kept.get(), F_GETFD), FD_CLOEXEC);
  next.Join(0, 1, 0, kept.get());
  const Descriptor given = next.member().TakeLock();
  EXPECT_TRUE(IsSameFile(given.get(), lock.get()));
  EXPECT_EQ(fcntl(given.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(next.member().TakeLock().valid());
  // It is that of one group only.
  next.Join(0, 1, 0, kept.get());
  next.Join(0, 1, 0);
  EXPECT_FALSE(next.member().TakeLock().valid());
}

}  // namespace
}  // namespace sluice
