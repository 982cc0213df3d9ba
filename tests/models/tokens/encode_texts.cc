// encode_texts FILE: the tokenizer FILE over texts from stdin, for tests/peers/hf_tokenizers.py. A
// text is its length in bytes (uint32, little-endian) and its bytes; the answer to it on stdout is
// the number of its tokens, these, the length of their text, and that text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "models/tokens/decode_stream.h"
#include "models/tokens/encoder.h"
#include "models/tokens/tokenizer.h"

namespace sluice {
namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "encode_texts: %s\n", why.c_str());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}

void Write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, stdout) != bytes) Die("cannot write");
}

void Answer(const Tokenizer& tokenizer, const std::string& text, Encoder& encoder) {
  std::vector<int32_t> ids;
  Check(encoder.Append(text, SpecialTokens::kAdd, &ids));
  const absl::StatusOr<std::string> decoded = Decode(tokenizer, ids);
  Check(decoded.status());
  const auto count = static_cast<uint32_t>(ids.size());
  Write(&count, sizeof(count));
  Write(ids.data(), ids.size() * sizeof(ids[0]));
  const auto length = static_cast<uint32_t>(decoded->size());
  Write(&length, sizeof(length));
  Write(decoded->data(), decoded->size());
}

int Run(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream json;
  json << file.rdbuf();
  const auto tokenizer = Tokenizer::Load(json.str(), path);
  Check(tokenizer.status());
  Encoder encoder(**tokenizer);
  uint32_t length = 0;
  while (std::fread(&length, sizeof(length), 1, stdin) == 1) {
    std::string text(length, '\0');
    if (std::fread(text.data(), 1, length, stdin) != length) Die("a text is cut off");
    Answer(**tokenizer, text, encoder);
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc == 2) return sluice::Run(argv[1]);
  std::fprintf(stderr, "usage: encode_texts tokenizer.json\n");
  return 2;
}
