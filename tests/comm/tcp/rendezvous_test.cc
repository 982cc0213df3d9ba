// How ranks find each other over TCP, and how it fails. Every test has a deadline: no rank hangs.
#include "comm/tcp/rendezvous/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comm/tcp/greeting.h"
#include "comm/tcp/greeting_proof.h"
#include "comm/tcp/rendezvous/rendezvous_group.h"
#include "comm/tcp/tcp_socket.h"
#include "tests/comm/faults/free_port.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);  // for what ends much earlier
constexpr absl::Duration kShort = absl::Seconds(2);  // for what ends at its deadline

struct Rank {
  int rank;
  int size;
  std::string secret = "secret";
  std::string address = "127.0.0.1";
  bool of_another_user = false;
};

constexpr uid_t kAnotherUser = 65534;

// From now on this thread's sockets belong to another user, whichever this process's is; false where
// the process may not do that.
bool BecomeAnotherUser() {
  setfsuid(kAnotherUser);
  return setfsuid(static_cast<uid_t>(-1)) == static_cast<int>(kAnotherUser);
}

bool MayBecomeAnotherUser() {
  bool may = false;
  std::thread([&may] { may = BecomeAnotherUser(); }).join();
  return may && geteuid() != kAnotherUser;
}

// All ranks join at the same time at a free port; returns the result of each. `meanwhile` runs
// beside them.
std::vector<absl::Status> Meet(const std::vector<Rank>& ranks, absl::Duration timeout,
                               const std::function<void(int port)>& meanwhile = nullptr) {
  Descriptor listener = *ListenOn(Endpoint::Loopback(0));
  const int port = LocalEndpoint(listener)->port;
  std::vector<absl::Status> results(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Descriptor own;
    if (ranks[i].rank == 0) std::swap(own, listener);
    threads.emplace_back([&, i, own = std::move(own)]() mutable {
      if (ranks[i].of_another_user) BecomeAnotherUser();
      Launch launch;
      launch.rank = ranks[i].rank;
      launch.size = ranks[i].size;
      launch.address = ranks[i].address;
      launch.port = port;
      results[i] = MeetRanks(launch, ranks[i].secret, timeout, std::move(own)).status();
    });
  }
  if (meanwhile) meanwhile(port);
  for (std::thread& thread : threads) thread.join();
  return results;
}

Endpoint Loopback(int port) { return *Resolve("127.0.0.1", port); }

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(Rendezvous, AnyNumberOfRanksMeets) {
  for (int size : {1, 2, 3, 8}) {
    std::vector<Rank> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back({r, size});
    for (const absl::Status& status : Meet(ranks, kLong)) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Rendezvous, OnLoopbackNoSecretIsASecretToo) {
  for (const absl::Status& status : Meet({{0, 2, ""}, {1, 2, ""}}, kLong)) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Rendezvous, WithoutASecretAnotherUserCannotJoin) {
  if (!MayBecomeAnotherUser()) GTEST_SKIP() << "needs the right to be another user";
  const Rank stranger{.rank = 1, .size = 2, .secret = "", .of_another_user = true};
  const auto results = Meet({{0, 2, ""}, stranger}, kShort);
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(results[0]), AllOf(HasSubstr("rank 1 of 2 did not come"),
                                      HasSubstr("belongs to another user (number 65534, not ")));
  EXPECT_THAT(Text(results[1]), AllOf(HasSubstr("belongs to another user (number 65534, not "),
                                      HasSubstr("SLUICE_SECRET")));
}

TEST(Rendezvous, WithoutASecretAnotherUserCannotBeRankZero) {
  if (!MayBecomeAnotherUser()) GTEST_SKIP() << "needs the right to be another user";
  const Rank stranger{.rank = 0, .size = 2, .secret = "", .of_another_user = true};
  const auto results = Meet({stranger, {1, 2, ""}}, kShort);
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(results[1].code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(results[1]), AllOf(HasSubstr("rank 1"), HasSubstr("SLUICE_SECRET"),
                                      HasSubstr("belongs to another user (number 65534, not ")));
}

TEST(Rendezvous, WithASecretRanksMayBelongToSeveralUsers) {
  const Rank other{.rank = 1, .size = 2, .of_another_user = true};
  for (const absl::Status& status : Meet({{0, 2}, other}, kLong)) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// All ranks of a group of three, each of which is told only where rank 0 will be.
std::vector<absl::Status> MeetAt(const std::string& address, const std::string& secret) {
  constexpr int kRanks = 3;
  Launch launch{.size = kRanks, .address = address, .port = FreePort()};
  std::vector<absl::Status> results(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    launch.rank = rank;
    threads.emplace_back([&results, &secret, launch] {
      results[static_cast<size_t>(launch.rank)] = MeetRanks(launch, secret, kLong, {}).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Rendezvous, AtEveryLoopbackAddressWithoutASecret) {
  for (const std::string address :
       {"127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1", "localhost", "LOCALHOST", "::1"}) {
    const absl::StatusOr<Endpoint> host = Resolve(address, 0);
    ASSERT_TRUE(host.ok()) << host.status();
    if (!ListenOn(*host).ok()) continue;  // a machine without IPv6
    for (const absl::Status& status : MeetAt(address, "")) {
      EXPECT_TRUE(status.ok()) << address << ": " << status;
    }
  }
}

TEST(Rendezvous, AtTheNameOfThisMachine) {
  char name[256] = "";
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  if (!Resolve(name, 0).ok()) GTEST_SKIP() << "this machine cannot find itself as " << name;
  for (const absl::Status& status : MeetAt(name, "a secret of this test alone")) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Rendezvous, ANameThatBeginsLikeALoopbackAddressIsNone) {
  const Launch launch{.size = 2, .address = "127.no.such.host.invalid", .port = 1};
  const absl::Status status = MeetRanks(launch, "", kShort, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("127.no.such.host.invalid"));
}

TEST(Rendezvous, BeyondLoopbackASecretIsNeeded) {
  Launch launch;
  launch.size = 2;
  launch.address = "192.0.2.1";
  launch.port = 1;
  const absl::Status status = MeetRanks(launch, "", kShort, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("SLUICE_SECRET"));
  const absl::Status guessable = MeetRanks(launch, "fifteen letters", kShort, {}).status();
  EXPECT_EQ(guessable.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(guessable), AllOf(HasSubstr("has 15 bytes"), HasSubstr("at least 16"),
                                     HasSubstr("openssl rand")));
  launch.address = "";
  EXPECT_THAT(Text(MeetRanks(launch, "x", kShort, {}).status()), HasSubstr("--master-addr"));
}

TEST(Rendezvous, TwoProcessesWithOneRank) {
  const auto results = Meet({{0, 4}, {2, 4}, {2, 4}}, kLong);
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), HasSubstr("two processes have rank 2"));
  }
}

TEST(Rendezvous, WorldSizesThatDiffer) {
  const auto results = Meet({{0, 3}, {1, 4}}, kLong);
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), AllOf(HasSubstr("world sizes differ"), HasSubstr("rank 1"),
                                    HasSubstr("was told 4"), HasSubstr("was told 3")));
  }
}

TEST(Rendezvous, ThoseAlreadyThereLearnWhyItFails) {
  // Rank 1 must join before the conflict between the other two. The test cannot see when it has, so
  // where it was late, on a loaded machine, the next attempt has a longer pause.
  absl::Duration pause = absl::Milliseconds(100);
  std::vector<absl::Status> results;
  do {
    results = Meet({{0, 4}, {1, 4}}, kLong, [pause](int port) {
      absl::SleepFor(pause);
      Launch launch;
      launch.rank = 2;
      launch.size = 5;
      launch.address = "127.0.0.1";
      launch.port = port;
      EXPECT_FALSE(MeetRanks(launch, "secret", kLong, {}).ok());
    });
    EXPECT_THAT(Text(results[0]), HasSubstr("world sizes differ"));
    pause *= 4;
  } while (Text(results[1]).find("world sizes differ") == std::string::npos && pause < kLong);
  EXPECT_THAT(Text(results[1]), HasSubstr("world sizes differ"));
}

TEST(Rendezvous, AnotherSecret) {
  const auto results = Meet({{0, 2}, {1, 2, "guessed"}}, kShort);
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(results[0]),
              AllOf(HasSubstr("rank 1 of 2 did not come"),
                    testing::ContainsRegex("[1-9][0-9]* connections? (was|were) dropped"),
                    HasSubstr("rank 1 has another secret")));
  EXPECT_EQ(results[1].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(results[1]), HasSubstr("rank 1 has another secret"));
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  const auto results = Meet({{0, 4}, {2, 4}}, kShort);
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(results[0]), HasSubstr("ranks 1, 3 of 4 did not come"));
  // A rank that came learns that it is not at fault, or its own time is over at the same moment.
  EXPECT_EQ(results[1].code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Rendezvous, RankZeroThatDoesNotListen) {
  int port = 0;
  {
    const absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
    port = LocalEndpoint(*listener)->port;
  }
  Launch launch;
  launch.rank = 1;
  launch.size = 2;
  launch.address = "127.0.0.1";
  launch.port = port;
  const absl::Status status = MeetRanks(launch, "secret", kShort, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("rank 1"), HasSubstr(absl::StrCat(":", port)), HasSubstr("refused")));
}

// The system accepts connections for a process that is stopped.
TEST(Rendezvous, RankZeroThatIsStopped) {
  const absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  const int port = LocalEndpoint(*listener)->port;
  const Launch launch{.rank = 1, .size = 2, .address = "127.0.0.1", .port = port};
  const absl::Status status = MeetRanks(launch, "secret", absl::Milliseconds(200), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("rank 1"), HasSubstr(absl::StrCat("127.0.0.1:", port)),
                    HasSubstr("200ms"), HasSubstr("stopped"), HasSubstr("another program")));
}

TEST(Rendezvous, APortThatIsTaken) {
  const absl::StatusOr<Descriptor> taken = ListenOn(Endpoint::Loopback(0));
  Launch launch;
  launch.size = 2;
  launch.address = "127.0.0.1";
  launch.port = LocalEndpoint(*taken)->port;
  const absl::Status status = MeetRanks(launch, "secret", kLong, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr(absl::StrCat("port ", launch.port)), HasSubstr("--master-port")));
}

TEST(Rendezvous, AMachineThatDoesNotExist) {
  Launch launch;
  launch.rank = 1;
  launch.size = 2;
  launch.address = "no such host";
  launch.port = 1;
  EXPECT_THAT(Text(MeetRanks(launch, "secret", kShort, {}).status()), HasSubstr("no such host"));
}

TEST(Rendezvous, RankZeroSaysWhereOthersCannotComeToIt) {
  const auto alone_at = [](const std::string& address) {
    const Rank rank{
        .rank = 0, .size = 2, .secret = "a secret of this test alone", .address = address};
    const absl::Status status = Meet({rank}, absl::Milliseconds(200))[0];
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    return Text(status);
  };
  // Of networks that are kept for examples (RFC 5737, RFC 3849), so none of this machine's.
  for (const std::string address : {"192.0.2.1", "2001:db8::1"}) {
    EXPECT_THAT(alone_at(address), AllOf(HasSubstr(absl::StrCat(address, " is no address of this")),
                                         HasSubstr("--master-addr")));
  }
  EXPECT_THAT(alone_at("no.such.host.invalid"),
              AllOf(HasSubstr("cannot find the machine 'no.such.host.invalid'"),
                    HasSubstr("--master-addr")));
  for (const std::string address : {"127.0.0.1", "127.0.0.2", "localhost"}) {
    EXPECT_THAT(alone_at(address), testing::Not(HasSubstr("--master-addr")));
  }
}

TEST(Rendezvous, TheAddressOfNoMachineIsRefusedOnEveryRank) {
  for (const std::string address : {"0.0.0.0", "::", "::ffff:0.0.0.0"}) {
    for (const std::string secret : {"", "a secret of this test alone"}) {
      for (const absl::Status& status : MeetAt(address, secret)) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(Text(status), absl::StrCat("--master-addr ", address,
                                             " is the address of no machine; give the name or an "
                                             "address of rank 0's machine"));
      }
    }
  }
}

// Another program's server on the port of rank 0.
absl::Status MeetServerThatSays(const std::string& bytes) {
  const absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  Launch launch;
  launch.rank = 1;
  launch.size = 2;
  launch.address = "127.0.0.1";
  launch.port = LocalEndpoint(*listener)->port;
  std::thread server([&] {
    EXPECT_TRUE(AwaitEvents(*listener, /*POLLIN*/ 1, Instant::Now() + kLong).ok());
    const absl::StatusOr<Descriptor> client = AcceptFrom(*listener);
    EXPECT_TRUE(SendAll(*client, bytes, Instant::Now() + kLong).ok());
    std::string rest;
    while (ReceiveSome(*client, 100, &rest, Instant::Now() + kLong).ok()) {
    }
  });
  absl::Status status = MeetRanks(launch, "secret", kLong, {}).status();
  server.join();
  return status;
}

TEST(Rendezvous, AnotherServerAtThePort) {
  const absl::Status status = MeetServerThatSays("220 mail.example.org ESMTP\r\n");
  EXPECT_THAT(Text(status), AllOf(HasSubstr("is not rank 0 of sluice"), HasSubstr("220 mail"),
                                  HasSubstr("--master-port")));
}

TEST(Rendezvous, AnotherVersion) {
  const absl::Status status = MeetServerThatSays(FormatGreeting({}, kWireVersion + 1));
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("another version"), HasSubstr(absl::StrCat(kWireVersion + 1))));
}

TEST(Rendezvous, AHostWithoutTheSecretIsNotBelieved) {
  Greeting table{.kind = GreetingKind::kTable, .table = std::vector<TableRow>(2)};
  const absl::Status status = MeetServerThatSays(FormatGreeting({}) + FormatGreeting(table));
  EXPECT_THAT(Text(status), HasSubstr("does not know the secret"));
}

Descriptor AcceptNext(const Descriptor& listener) {
  EXPECT_TRUE(AwaitEvents(listener, POLLIN, Instant::Now() + kLong).ok());
  absl::StatusOr<Descriptor> caller = AcceptFrom(listener);
  EXPECT_TRUE(caller.ok()) << caller.status();
  return caller.ok() ? *std::move(caller) : Descriptor();
}

void Say(const Descriptor& socket, const std::string& bytes) {
  EXPECT_TRUE(SendAll(socket, bytes, Instant::Now() + kLong).ok());
}

// Two ranks, where `stranger` accepts connections at rank 0's port before rank 0 does.
std::vector<absl::Status> MeetAfter(const std::function<void(const Descriptor&)>& stranger) {
  Descriptor listener = *ListenOn(Endpoint::Loopback(0));
  Launch launch{.size = 2, .address = "127.0.0.1", .port = LocalEndpoint(listener)->port};
  std::vector<absl::Status> results(2);
  std::thread joiner([&results, launch]() mutable {
    launch.rank = 1;
    results[1] = MeetRanks(launch, "secret", kLong, {}).status();
  });
  stranger(listener);
  results[0] = MeetRanks(launch, "secret", kLong, std::move(listener)).status();
  joiner.join();
  return results;
}

TEST(Rendezvous, ARankThatWasHungUpOnTriesAgain) {
  const auto results = MeetAfter([](const Descriptor& listener) {
    AcceptNext(listener);  // before the challenge
    for (int visit = 0; visit < 2; ++visit) {
      const Descriptor caller = AcceptNext(listener);
      Say(caller, FormatGreeting({}));
      EXPECT_TRUE(ReceiveGreeting(caller, Instant::Now() + kLong).ok());
    }
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(Rendezvous, ARefusalWithoutAProofIsNotObeyed) {
  const auto results = MeetAfter([](const Descriptor& listener) {
    for (const GreetingKind kind : {GreetingKind::kRefusal, GreetingKind::kIncomplete}) {
      const Descriptor caller = AcceptNext(listener);
      Say(caller, FormatGreeting({}) + FormatGreeting({.kind = kind, .text = "go home"}));
      EXPECT_TRUE(ReceiveGreeting(caller, Instant::Now() + kLong).ok());
    }
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Rank 1 against a rank 0 that the test plays: it knows the secret when the group is made, and
// answers to a call with `linked`. Returns what rank 1 says.
absl::Status MeetPlayedHost(const Greeting& linked, const std::string& secret_of_link) {
  const Descriptor listener = *ListenOn(Endpoint::Loopback(0));
  Launch launch{
      .rank = 1, .size = 2, .address = "127.0.0.1", .port = LocalEndpoint(listener)->port};
  absl::Status result;
  std::thread rank([&] { result = MeetRanks(launch, "secret", kLong, {}).status(); });
  // [0] the Join, [1] and [2] the Links.
  std::vector<Descriptor> callers;
  for (int call = 0; call < 3; ++call) {
    callers.push_back(AcceptNext(listener));
    Say(callers.back(), FormatGreeting({}));
    const absl::StatusOr<Greeting> greeting =
        ReceiveGreeting(callers.back(), Instant::Now() + kLong);
    EXPECT_TRUE(greeting.ok()) << greeting.status();
    if (!greeting.ok()) break;
    const Greeting table{.kind = GreetingKind::kTable, .table = std::vector<TableRow>(2)};
    Greeting answer = call == 0 ? table : linked;
    if (call == 0) answer.table[0].port = static_cast<uint16_t>(launch.port);
    Say(callers.back(),
        *FormatProven(answer, greeting->nonce, call == 0 ? "secret" : secret_of_link));
    // Whether it calls again depends on what it thinks of this answer.
    if (call == 1 && (secret_of_link != "secret" || linked != Greeting{.kind = linked.kind})) break;
  }
  rank.join();
  return result;
}

TEST(Rendezvous, APeerProvesWhoItIs) {
  const Greeting linked{.kind = GreetingKind::kLinked};
  EXPECT_TRUE(MeetPlayedHost(linked, "secret").ok());
  const auto not_proven = HasSubstr("rank 1 cannot reach rank 0 at 127.0.0.1:");
  EXPECT_THAT(Text(MeetPlayedHost(linked, "guessed")), not_proven);
  Greeting another_rank = linked;
  another_rank.rank = 1;
  EXPECT_THAT(Text(MeetPlayedHost(another_rank, "secret")), not_proven);
  Greeting another_group = linked;
  another_group.session.fill(1);
  EXPECT_THAT(Text(MeetPlayedHost(another_group, "secret")), not_proven);
}

// Passes on what comes from one side to the other until one of them hangs up.
void PassOn(const Descriptor& from, const Descriptor& to) {
  for (std::string bytes; ReceiveSome(from, 4096, &bytes, Instant::Now() + kLong).ok();) {
    if (!SendAll(to, bytes, Instant::Now() + kLong).ok()) break;
    bytes.clear();
  }
  (void)shutdown(to.get(), SHUT_WR);
}

TEST(Rendezvous, ARankThatComesThroughARelayIsRefused) {
  absl::Status joined;
  const auto results = Meet({{0, 2}}, kShort, [&joined](int port) {
    const Descriptor listener = *ListenOn(Endpoint::Loopback(0));
    const Launch launch{
        .rank = 1, .size = 2, .address = "127.0.0.1", .port = LocalEndpoint(listener)->port};
    std::thread rank([&] { joined = MeetRanks(launch, "secret", kLong, {}).status(); });
    const Descriptor caller = AcceptNext(listener);
    const absl::StatusOr<Descriptor> host = ConnectTo(Loopback(port), Instant::Now() + kLong);
    ASSERT_TRUE(host.ok()) << host.status();
    std::thread there([&] { PassOn(caller, *host); });
    PassOn(*host, caller);
    there.join();
    rank.join();
  });
  EXPECT_EQ(joined.code(), absl::StatusCode::kInvalidArgument);
  for (const absl::Status& status : {joined, results[0]}) {
    EXPECT_THAT(Text(status), AllOf(HasSubstr("rank 1 has reached 127.0.0.1:"),
                                    HasSubstr("passes connections on")));
  }
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Rendezvous, AStrangerIsToldNothingThatIsProven) {
  (void)Meet({{0, 2}}, kShort, [](int port) {
    const absl::StatusOr<Descriptor> socket = ConnectTo(Loopback(port), Instant::Now() + kLong);
    ASSERT_TRUE(socket.ok()) << socket.status();
    // The random number of an honest rank, for which a stranger would like to have a refusal.
    const Nonce honest = *DrawNonce();
    Say(*socket, FormatGreeting({.kind = GreetingKind::kJoin, .nonce = honest, .rank = 1}));
    EXPECT_EQ(ReceiveGreeting(*socket, Instant::Now() + kLong)->kind, GreetingKind::kChallenge);
    const absl::StatusOr<Greeting> refusal = ReceiveGreeting(*socket, Instant::Now() + kLong);
    ASSERT_TRUE(refusal.ok()) << refusal.status();
    EXPECT_EQ(refusal->kind, GreetingKind::kRefusal);
    EXPECT_FALSE(IsProven(*refusal, honest, "secret"));
  });
}

TEST(Rendezvous, GarbageIsDroppedAndTheRestMeets) {
  const auto results = Meet({{0, 3}, {2, 3}}, kLong, [](int port) {
    std::mt19937 random(3);
    for (int trial = 0; trial < 40; ++trial) {
      std::string bytes = trial % 2 == 0 ? "" : FormatGreeting({.kind = GreetingKind::kJoin});
      for (int i = trial; i > 0; --i) bytes.push_back(static_cast<char>(random()));
      const absl::StatusOr<Descriptor> socket = ConnectTo(Loopback(port), Instant::Now() + kLong);
      ASSERT_TRUE(socket.ok()) << socket.status();
      // The listener may have hung up already.
      (void)SendAll(*socket, bytes, Instant::Now() + kLong);
    }
    Launch launch;
    launch.rank = 1;
    launch.size = 3;
    launch.address = "127.0.0.1";
    launch.port = port;
    EXPECT_TRUE(MeetRanks(launch, "secret", kLong, {}).ok());
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(Rendezvous, AFloodOfSilentConnectionsDoesNotKeepRanksOut) {
  std::vector<Descriptor> silent;
  const auto results = Meet({{0, 2}}, kLong, [&silent](int port) {
    for (int i = 0; i < 300; ++i) {
      absl::StatusOr<Descriptor> socket = ConnectPatiently(Loopback(port), Instant::Now() + kLong);
      ASSERT_TRUE(socket.ok());
      silent.push_back(*std::move(socket));
    }
    Launch launch;
    launch.rank = 1;
    launch.size = 2;
    launch.address = "127.0.0.1";
    launch.port = port;
    EXPECT_TRUE(MeetRanks(launch, "secret", kLong, {}).ok());
  });
  EXPECT_TRUE(results[0].ok()) << results[0];
}

TEST(Rendezvous, AnOldProofDoesNotLetAnybodyIn) {
  // The proof that a rank once sent for one challenge is no answer to the next one.
  const auto results = Meet({{0, 2}}, kShort, [](int port) {
    const std::string replayed =
        *FormatProven({.kind = GreetingKind::kJoin, .rank = 1, .size = 2, .listens = {.port = 1}},
                      Nonce{}, "secret");
    const absl::StatusOr<Descriptor> socket = ConnectTo(Loopback(port), Instant::Now() + kLong);
    ASSERT_TRUE(SendAll(*socket, replayed, Instant::Now() + kLong).ok());
    std::string answer;
    while (ReceiveSome(*socket, 100, &answer, Instant::Now() + kLong).ok()) {
    }
    EXPECT_THAT(answer, HasSubstr("another secret"));
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace sluice
