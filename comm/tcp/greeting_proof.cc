#include "comm/tcp/greeting_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::StatusOr<Proof> Prove(const Greeting& greeting, const Nonce& challenge,
                            absl::string_view secret) {
  const std::string formatted = FormatGreeting(greeting);
  std::string proven(reinterpret_cast<const char*>(challenge.data()), challenge.size());
  absl::StrAppend(&proven, ProvenPart(formatted));
  Proof proof{};
  unsigned bytes = 0;
  // An empty key is a key too, but HMAC takes a null pointer for "the last one".
  const char* key = secret.empty() ? "" : secret.data();
  if (HMAC(EVP_sha256(), key, static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(proven.data()), proven.size(), proof.data(),
           &bytes) == nullptr ||
      bytes != proof.size()) {
    return absl::InternalError("libcrypto computes no HMAC-SHA256");
  }
  return proof;
}

}  // namespace

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
