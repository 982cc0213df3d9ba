#ifndef SLUICE_COMM_TCP_GREETING_H_
#define SLUICE_COMM_TCP_GREETING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// What ranks say to each other over a new TCP connection before it carries messages; WIRE.md has it
// byte by byte. The side that accepted speaks first:
//
//   rank 0 or a peer          a rank
//     Challenge   ->            a random number
//                 <-  Join      to rank 0: "I am rank 3 of 8, listen there, and reached you here"
//     Table       ->            where everybody listens; or
//     Refusal     ->            why not; or
//     Incomplete  ->            which ranks did not come
//
//     Challenge   ->
//                 <-  Link      to a peer: "I am rank 3 of that group; this is for data"
//     Linked      ->            "and I am rank 1 of it"
//
// All but the challenge carry an HMAC-SHA256 under the shared secret over the random number that
// they answer and their own bytes (greeting_proof.h), so the secret never leaves a process and an
// old message proves nothing. What follows is encrypted where it leaves the machine (connection.h).
//
// On the wire: "SLUICE", the version (2 bytes), the kind (1), the length of what follows (4), all
// little-endian.
inline constexpr uint16_t kWireVersion = 4;
inline constexpr size_t kGreetingHeaderBytes = 13;
inline constexpr size_t kMostRanksOfTcp = 1024;
inline constexpr size_t kMostRefusalBytes = 1024;

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

// kRefusal: the rank was started wrongly. kIncomplete: it was not, but some other rank did not come
// in time.
enum class GreetingKind : uint8_t {
  kChallenge = 1,
  kJoin,
  kTable,
  kRefusal,
  kLink,
  kIncomplete,
  kLinked
};

// What a connection between two ranks is for.
enum class LinkUse : uint8_t { kControl = 0, kData = 1 };

// Where a rank listens: an IPv6 address (IPv4 mapped into it) and a port.
struct TableRow {
  std::array<uint8_t, 16> address{};
  uint16_t port = 0;
  bool operator==(const TableRow&) const = default;
};

// Any of the messages; each uses the fields named after it.
struct Greeting {
  GreetingKind kind = GreetingKind::kChallenge;
  Nonce nonce{};                    // Challenge; Join, Link: the caller's own, to be answered
  uint32_t rank = 0;                // Join, Link, Linked: who speaks
  uint32_t size = 0;                // Join
  TableRow listens{};               // Join: where the caller listens
  TableRow reached{};               // Join: where the caller has reached rank 0
  uint32_t peer = 0;                // Link: the rank that is called
  LinkUse use = LinkUse::kControl;  // Link
  Nonce session{};                  // Table, Link, Linked: drawn by rank 0 for this group
  std::vector<TableRow> table{};    // Table
  std::string text{};               // Refusal, Incomplete; printable
  Proof proof{};                    // all but Challenge
  bool operator==(const Greeting&) const = default;
};

std::string FormatGreeting(const Greeting& greeting, uint16_t version = kWireVersion);

// The part of a formatted greeting that its proof covers: all but the proof.
absl::string_view ProvenPart(absl::string_view formatted);

// Reads the first greeting of `bytes`, which may be anything, and says in `used` how many bytes it
// took; 0 means that more are needed (no greeting is longer than some 20 kB, and garbage is refused
// as soon as it differs). InvalidArgument says what is wrong; FailedPrecondition is another version
// of sluice.
absl::StatusOr<Greeting> ParseGreeting(absl::string_view bytes, size_t* used);

// How many bytes, at least, the greeting that `bytes` begins still needs; ParseGreeting must have
// taken them for the beginning of one.
size_t GreetingBytesMissing(absl::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_GREETING_H_
