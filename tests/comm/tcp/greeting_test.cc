#include "comm/tcp/greeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::vector<Greeting> OneOfEach() {
  Greeting challenge{.kind = GreetingKind::kChallenge};
  challenge.nonce.fill(7);
  Greeting join{.kind = GreetingKind::kJoin, .rank = 3, .size = 70000, .listens = {.port = 65535}};
  join.nonce.fill(255);
  join.listens.address.fill(4);
  join.reached = {.address = join.listens.address, .port = 29500};
  join.proof.fill(1);
  Greeting table{.kind = GreetingKind::kTable, .table = std::vector<TableRow>(5)};
  table.table[4].address.fill(9);
  table.table[2].port = 1234;
  table.session.fill(2);
  Greeting refusal{.kind = GreetingKind::kRefusal, .text = "rank 3 has come twice"};
  refusal.proof.fill(3);
  Greeting link{.kind = GreetingKind::kLink, .rank = 1, .peer = 70000, .use = LinkUse::kData};
  link.session.fill(5);
  link.nonce.fill(6);
  Greeting linked{.kind = GreetingKind::kLinked, .rank = 7};
  linked.session.fill(8);
  const Greeting go_home{.kind = GreetingKind::kIncomplete, .text = "rank 3 did not come"};
  return {challenge, join, table, refusal, link, go_home, linked};
}

TEST(Greeting, EachComesBackFromItsBytes) {
  for (const Greeting& greeting : OneOfEach()) {
    const std::string bytes = FormatGreeting(greeting);
    size_t used = 0;
    const auto again = ParseGreeting(bytes + "what follows", &used);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(used, bytes.size());
    EXPECT_EQ(*again, greeting);
  }
}

TEST(Greeting, ABeginningAsksForExactlyTheRest) {
  for (const Greeting& greeting : OneOfEach()) {
    const std::string bytes = FormatGreeting(greeting);
    std::string read;
    size_t used = 0;
    while (used == 0) {
      const size_t missing = GreetingBytesMissing(read);
      ASSERT_GT(missing, 0);
      ASSERT_LE(read.size() + missing, bytes.size());
      read = bytes.substr(0, read.size() + missing);
      ASSERT_TRUE(ParseGreeting(read, &used).ok());
    }
    EXPECT_EQ(read, bytes);
    for (size_t length = 0; length < bytes.size(); ++length) {
      ASSERT_TRUE(ParseGreeting(bytes.substr(0, length), &used).ok());
      ASSERT_EQ(used, 0) << length;
    }
  }
}

TEST(Greeting, GarbageIsRefusedAtItsFirstByte) {
  size_t used = 0;
  const auto http = ParseGreeting("GET / HTTP/1.1\r\n", &used);
  EXPECT_EQ(http.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(http.status().message()), HasSubstr("GET / HTTP"));
  EXPECT_FALSE(ParseGreeting("X", &used).ok());
  EXPECT_FALSE(ParseGreeting("SLUICX", &used).ok());
}

TEST(Greeting, AnotherVersionIsCalledThat) {
  size_t used = 0;
  const auto other = ParseGreeting(FormatGreeting({}, kWireVersion + 6), &used);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr(absl::StrCat("version ", kWireVersion + 6)));
}

TEST(Greeting, LengthsThatMakeNoSenseAreRefusedBeforeTheyAreWaitedFor) {
  for (const Greeting& greeting : OneOfEach()) {
    std::string bytes = FormatGreeting(greeting);
    bytes[kGreetingHeaderBytes - 1] = '\x7f';  // 2 GB
    size_t used = 0;
    EXPECT_FALSE(ParseGreeting(bytes.substr(0, kGreetingHeaderBytes), &used).ok());
  }
  Greeting join = OneOfEach()[1];
  std::string bytes = FormatGreeting(join);
  bytes[kGreetingHeaderBytes - 4] = static_cast<char>(bytes[kGreetingHeaderBytes - 4] + 1);
  size_t used = 0;
  EXPECT_FALSE(ParseGreeting(bytes + "x", &used).ok());
}

TEST(Greeting, ARefusalIsPrintable) {
  size_t used = 0;
  const Greeting refusal{.kind = GreetingKind::kRefusal, .text = "a\x1b[31m\n\xff"};
  EXPECT_EQ(ParseGreeting(FormatGreeting(refusal), &used)->text, "a\uFFFD[31m\uFFFD\uFFFD");
}

TEST(Greeting, AnyFlippedBitIsRefusedOrLeavesNoProof) {
  const Nonce challenge = *DrawNonce();
  std::mt19937 random(1);
  for (const Greeting& greeting : OneOfEach()) {
    if (greeting.kind == GreetingKind::kChallenge) continue;
    const std::string bytes = *FormatProven(greeting, challenge, "secret");
    size_t used = 0;
    ASSERT_TRUE(IsProven(*ParseGreeting(bytes, &used), challenge, "secret"));
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      const auto parsed = ParseGreeting(flipped, &used);
      EXPECT_FALSE(parsed.ok() && used > 0 && IsProven(*parsed, challenge, "secret")) << bit;
    }
  }
}

TEST(Greeting, AProofHoldsForOneSecretAndOneChallenge) {
  const Nonce challenge = *DrawNonce();
  const Nonce other = *DrawNonce();
  EXPECT_NE(challenge, other);
  const Greeting join = OneOfEach()[1];
  for (const char* secret : {"", "a", "secret"}) {
    size_t used = 0;
    const auto proven = ParseGreeting(*FormatProven(join, challenge, secret), &used);
    EXPECT_TRUE(IsProven(*proven, challenge, secret));
    EXPECT_FALSE(IsProven(*proven, other, secret));
    EXPECT_FALSE(IsProven(*proven, challenge, "Secret"));
  }
}

// The bytes of HMAC-SHA256 as `openssl dgst -sha256 -mac HMAC` prints them for the challenge
// (zeros) and the proven part of a Link of rank 1.
TEST(Greeting, TheProofIsHmacSha256) {
  const Greeting link{.kind = GreetingKind::kLink, .rank = 1};
  size_t used = 0;
  const auto proven = ParseGreeting(*FormatProven(link, Nonce{}, "key"), &used);
  std::string hex;
  for (const uint8_t byte : proven->proof) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  EXPECT_EQ(hex, "2a40deef6080a153557e8d5cc3c6794c4d7a086f8e76be56d42d9ce7cf6123a9");
}

}  // namespace
}  // namespace sluice
