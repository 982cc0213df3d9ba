#ifndef SLUICE_COMM_TCP_GREETING_PROOF_H_
#define SLUICE_COMM_TCP_GREETING_PROOF_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comm/tcp/greeting.h"

namespace sluice {

// From the operating system's random numbers.
absl::StatusOr<Nonce> DrawNonce();

// The greeting as it goes over the wire, with its proof: HMAC-SHA256 under `secret` over the
// challenge that it answers and all its other bytes.
absl::StatusOr<std::string> FormatProven(Greeting greeting, const Nonce& challenge,
                                         absl::string_view secret);
// The key of a connection between two ranks, which both know once the one has sent a Link with
// `nonce` for `challenge`.
absl::StatusOr<Proof> DeriveKey(const Nonce& session, const Nonce& challenge, const Nonce& nonce,
                                absl::string_view secret);

// Whether `greeting` carries that proof. Takes the same time whatever differs.
bool IsProven(const Greeting& greeting, const Nonce& challenge, absl::string_view secret);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_GREETING_PROOF_H_
