// tokenizer_bench TOKENIZER.json TEXT [ROUNDS]: seconds to encode TEXT, as JSON, for bench/tokenizers.
// Each round begins without words that it remembers, as a program does that encodes one text.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "models/tokens/decode_stream.h"
#include "models/tokens/encoder.h"
#include "models/tokens/tokenizer.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

std::string Read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Work>
double Seconds(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int Run(const char* tokenizer_path, const char* text_path, int rounds) {
  const std::string json = Read(tokenizer_path);
  const std::string text = Read(text_path);
  absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer;
  const double load = Seconds([&] { tokenizer = Tokenizer::Load(json, tokenizer_path); });
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "tokenizer_bench: %s\n",
                 std::string(tokenizer.status().message()).c_str());
    return 1;
  }
  double encode = 1e9, decode = 1e9;
  std::vector<int32_t> ids;
  for (int round = 0; round < rounds; ++round) {
    Encoder encoder(**tokenizer);
    ids.clear();
    encode = std::min(encode, Seconds([&] {
                        const absl::Status status = encoder.Append(text, SpecialTokens::kAdd, &ids);
                        if (!status.ok()) std::abort();
                      }));
    decode = std::min(decode, Seconds([&] {
                        if (!Decode(**tokenizer, ids).ok()) std::abort();
                      }));
  }
  std::printf(
      "{\"bytes\": %zu, \"tokens\": %zu, \"load_seconds\": %.6f, \"encode_seconds\": %.6f, "
      "\"decode_seconds\": %.6f}\n",
      text.size(), ids.size(), load, encode, decode);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  constexpr int kRounds = 5;
  if (argc == 3 || argc == 4) {
    return sluice::Run(argv[1], argv[2], argc == 4 ? std::atoi(argv[3]) : kRounds);
  }
  std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER.json TEXT [ROUNDS]\n");
  return 2;
}
