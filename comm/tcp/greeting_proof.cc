#include "comm/tcp/greeting_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::string_view Bytes(const Nonce& nonce) {
  return {reinterpret_cast<const char*>(nonce.data()), nonce.size()};
}

absl::StatusOr<Proof> Hmac(absl::string_view text, absl::string_view secret) {
  Proof proof{};
  unsigned bytes = 0;
  // An empty key is a key too, but HMAC takes a null pointer for "the last one".
  const char* key = secret.empty() ? "" : secret.data();
  if (HMAC(EVP_sha256(), key, static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(),
           &bytes) == nullptr ||
      bytes != proof.size()) {
    return absl::InternalError("libcrypto computes no HMAC-SHA256");
  }
  return proof;
}

absl::StatusOr<Proof> Prove(const Greeting& greeting, const Nonce& challenge,
                            absl::string_view secret) {
  const std::string formatted = FormatGreeting(greeting);
  return Hmac(absl::StrCat(Bytes(challenge), ProvenPart(formatted)), secret);
}

}  // namespace

absl::StatusOr<Proof> DeriveKey(const Nonce& session, const Nonce& challenge, const Nonce& nonce,
                                absl::string_view secret) {
  // Longer than a nonce: nothing that is proven has these bytes where a greeting begins.
  constexpr absl::string_view kPurpose = "sluice: the key of a connection between two ranks";
  return Hmac(absl::StrCat(kPurpose, Bytes(session), Bytes(challenge), Bytes(nonce)), secret);
}

absl::StatusOr<Nonce> DrawNonce() {
  Nonce nonce{};
  if (RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) != 1) {
    return absl::InternalError("libcrypto has no random numbers");
  }
  return nonce;
}

absl::StatusOr<std::string> FormatProven(Greeting greeting, const Nonce& challenge,
                                         absl::string_view secret) {
  absl::StatusOr<Proof> proof = Prove(greeting, challenge, secret);
  if (!proof.ok()) return proof.status();
  greeting.proof = *proof;
  return FormatGreeting(greeting);
}

bool IsProven(const Greeting& greeting, const Nonce& challenge, absl::string_view secret) {
  const absl::StatusOr<Proof> proof = Prove(greeting, challenge, secret);
  return proof.ok() &&
         CRYPTO_memcmp(proof->data(), greeting.proof.data(), greeting.proof.size()) == 0;
}

}  // namespace sluice
