#include "tools/train/commands/asked_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "models/spec/bfloat16.h"
#include "models/spec/dtype.h"
#include "models/spec/json.h"
#include "schedules/counted.h"
#include "tools/files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol's numbers are");

constexpr char kPrefix[] = "fd:";
// An answer is a micro-batch of tokens or pixels, or an error in words.
constexpr int64_t kMostBytes = int64_t{1} << 32;
// The first rank of a pipeline asks for inputs some micro-batches before the last for their targets.
constexpr size_t kKept = 8;

enum class Ask : int64_t { kDescription = 0, kMicroBatch = 1 };

// As it is written.
struct Question {
  Ask ask = Ask::kDescription;
  int64_t split = 0;   // 0: training, 1: validation
  int64_t index = 0;   // of the micro-batch
  int64_t size = 0;    // samples
  int64_t values = 0;  // per sample of the input
  int64_t tokens = 0;  // 1: the values are tokens, each with a target; 0: pixels, with a label
};

absl::Status Lost(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("the program that makes the data ", what));
}

absl::Status ReadAll(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t taken = read(fd, at, bytes);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return Lost(absl::StrCat("cannot be heard: ", std::strerror(errno)));
    if (taken == 0) return Lost("has ended");
    at += taken;
    bytes -= static_cast<size_t>(taken);
  }
  return absl::OkStatus();
}

// One question after the other.
class Channel {
 public:
  explicit Channel(DataChannel fds) : fds_(fds) {}

  // `expected`: bytes; nullopt: any number. InvalidArgument: what the program says.
  absl::StatusOr<std::string> Get(const Question& question, std::optional<int64_t> expected) const {
    static_assert(sizeof(Question) == 6 * sizeof(int64_t));
    absl::Status status = WriteAll(
        fds_.to, {reinterpret_cast<const char*>(&question), sizeof(question)}, "a question");
    if (!status.ok()) return Lost(absl::StrCat("cannot be asked: ", status.message()));
    int64_t bytes = 0;  // negative: of an error
    status = ReadAll(fds_.from, &bytes, sizeof(bytes));
    if (!status.ok()) return status;
    const bool failed = bytes < 0;
    if (bytes < -kMostBytes || bytes > kMostBytes || (!failed && expected && bytes != *expected)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the program that makes the data answered with ", bytes, " bytes; expected ",
                       expected.value_or(kMostBytes), expected ? "" : " at most"));
    }
    std::string answer(static_cast<size_t>(failed ? -bytes : bytes), '\0');
    status = ReadAll(fds_.from, answer.data(), answer.size());
    if (!status.ok()) return status;
    if (failed) return absl::InvalidArgumentError(answer);
    return answer;
  }

 private:
  const DataChannel fds_;
};

// What the program says of its data.
struct Description {
  bool documents = false;  // some targets may not count
  int64_t validation = 0;  // micro-batches
};

absl::StatusOr<Description> ParseDescription(const std::string& text) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(text);
  const nlohmann::json json = parsed.ok() ? *parsed : nlohmann::json();
  Description description;
  if (json.is_object() && json.contains("documents") && json["documents"].is_boolean() &&
      json.contains("validation") && json["validation"].is_number_unsigned()) {
    description.documents = json["documents"].get<bool>();
    description.validation = json["validation"].get<int64_t>();
    if (description.validation >= 0) return description;
  }
  return absl::InvalidArgumentError(
      "the program that makes the data does not describe them; expected "
      "{\"documents\": true or false, \"validation\": micro-batches}");
}

class AskedData : public Dataset {
 public:
  AskedData(const AskedDataRequest& request, Description description)
      : request_(request), description_(description), channel_(request.channel) {}

  std::string description() const override {
    return absl::StrCat(tokens() ? "tokens" : "images", " from an input function, ",
                        Counted(description_.validation, "micro-batch"), " for validation");
  }
  // A function of the number of the micro-batch has no end.
  int64_t samples(Split split) const override {
    return split == Split::kTrain ? int64_t{1} << 40
                                  : description_.validation * request_.micro_batch_size;
  }
  int classes() const override { return request_.classes; }
  int64_t input_size() const override { return tokens() ? request_.seq : request_.pixels; }
  DType input_dtype() const override { return tokens() ? DType::kInt32 : DType::kFloat32; }
  bool has_documents() const override { return description_.documents; }

  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override {
    const std::lock_guard lock(mutex_);
    const std::string& batch = Get(split, index, size);
    const auto inputs = static_cast<size_t>(size * input_size());
    const auto targets = static_cast<size_t>(TargetCount(size));
    if (out.input != nullptr && dtype == DType::kBFloat16) {
      auto* to = static_cast<uint16_t*>(out.input);
      for (size_t i = 0; i < inputs; ++i) {
        float value = 0;
        std::memcpy(&value, batch.data() + i * sizeof(value), sizeof(value));
        to[i] = ToBFloat16(value);
      }
    } else if (out.input != nullptr) {
      std::memcpy(out.input, batch.data(), inputs * sizeof(int32_t));
    }
    if (out.targets != nullptr) {
      std::memcpy(out.targets, batch.data() + inputs * sizeof(int32_t), targets * sizeof(int32_t));
    }
    // Each sample is one document.
    if (out.starts != nullptr && tokens()) std::fill_n(out.starts, inputs, 0);
  }

  int64_t counted_targets(Split split, int64_t index, int64_t size) const override {
    if (!description_.documents) return Dataset::counted_targets(split, index, size);
    const std::lock_guard lock(mutex_);
    const std::vector<int32_t> targets = Targets(Get(split, index, size), size);
    return std::count_if(targets.begin(), targets.end(),
                         [](int32_t target) { return target != kNoTarget; });
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 protected:
  // Of what a function makes only the beginning can be compared.
  std::string MakeFingerprint() const override {
    const std::lock_guard lock(mutex_);
    const std::string& batch = Get(Split::kTrain, 0, request_.micro_batch_size);
    return absl::StrCat("function:", input_size(), ":",
                        absl::Hex(XXH3_64bits(batch.data(), batch.size()), absl::kZeroPad16));
  }

 private:
  struct Kept {
    Split split = Split::kTrain;
    int64_t index = 0, size = 0;
    std::string batch;
  };

  bool tokens() const { return request_.seq > 0; }
  int64_t TargetCount(int64_t size) const { return tokens() ? size * request_.seq : size; }
  // Inputs and targets have four bytes each.
  int64_t BatchBytes(int64_t size) const { return 4 * (size * input_size() + TargetCount(size)); }

  // The `count` ids of an answer from byte `first` on.
  static std::vector<int32_t> IdsAt(const std::string& batch, size_t first, size_t count) {
    std::vector<int32_t> ids(count);
    if (count > 0) std::memcpy(ids.data(), batch.data() + first, count * sizeof(int32_t));
    return ids;
  }
  std::vector<int32_t> Targets(const std::string& batch, int64_t size) const {
    return IdsAt(batch, static_cast<size_t>(4 * size * input_size()),
                 static_cast<size_t>(TargetCount(size)));
  }

  // Zeros after the first failure. With the lock.
  const std::string& Get(Split split, int64_t index, int64_t size) const {
    // The last round of an evaluation is filled up with micro-batches that do not count: for these
    // the program, which has no more, is asked for its first ones again.
    if (split == Split::kValidation && description_.validation > 0)
      index %= description_.validation;
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.split == split && kept.index == index && kept.size == size;
    });
    if (found != kept_.end()) return found->batch;
    std::string batch(static_cast<size_t>(BatchBytes(size)), '\0');
    if (status_.ok()) {
      absl::StatusOr<std::string> answer = Answer(split, index, size);
      status_ = answer.status();
      if (answer.ok()) batch = *std::move(answer);
    }
    if (kept_.size() == kKept) kept_.pop_front();
    kept_.push_back({split, index, size, std::move(batch)});
    return kept_.back().batch;
  }

  // Checked.
  absl::StatusOr<std::string> Answer(Split split, int64_t index, int64_t size) const {
    absl::StatusOr<std::string> batch = channel_.Get({.ask = Ask::kMicroBatch,
                                                      .split = split == Split::kTrain ? 0 : 1,
                                                      .index = index,
                                                      .size = size,
                                                      .values = input_size(),
                                                      .tokens = tokens() ? 1 : 0},
                                                     BatchBytes(size));
    if (!batch.ok()) return batch;
    absl::Status status = Check(*batch, index, size);
    if (!status.ok()) return status;
    return batch;
  }

  absl::Status Check(const std::string& batch, int64_t index, int64_t size) const {
    const auto inputs = static_cast<size_t>(tokens() ? size * input_size() : 0);
    for (const int32_t id : IdsAt(batch, 0, inputs)) {
      if (id < 0 || id >= request_.classes) return OutOfRange("input", index, id);
    }
    for (const int32_t id : Targets(batch, size)) {
      const bool counts = id != kNoTarget;
      if (!counts && description_.documents) continue;
      if (id < 0 || id >= request_.classes) return OutOfRange("target", index, id);
    }
    return absl::OkStatus();
  }

  absl::Status OutOfRange(const char* what, int64_t index, int32_t id) const {
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batch ", index, " of the input function: ", what, " ", id,
                     "; expected 0 to ", request_.classes - 1, ", as the model has them"));
  }

  const AskedDataRequest request_;
  const Description description_;
  const Channel channel_;
  mutable std::mutex mutex_;
  mutable std::deque<Kept> kept_;
  mutable absl::Status status_;
};

}  // namespace

bool NamesDataChannel(const std::string& path) { return absl::StartsWith(path, kPrefix); }

absl::StatusOr<std::optional<DataChannel>> ParseDataChannel(const std::string& path) {
  if (!NamesDataChannel(path)) return std::nullopt;
  DataChannel channel;
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(absl::string_view(path).substr(sizeof(kPrefix) - 1), absl::MaxSplits(',', 1));
  const bool numbers =
      absl::SimpleAtoi(ends.first, &channel.from) && absl::SimpleAtoi(ends.second, &channel.to);
  if (numbers && channel.from >= 0 && channel.to >= 0 && fcntl(channel.from, F_GETFD) != -1 &&
      fcntl(channel.to, F_GETFD) != -1) {
    return channel;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--data ", path,
                   ": expected two open file descriptors, to read answers from and "
                   "to write questions to, such as fd:5,6"));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenAskedData(const AskedDataRequest& request) {
  const bool tokens = request.seq > 0;
  absl::StatusOr<std::string> text = Channel(request.channel)
                                         .Get({.size = request.micro_batch_size,
                                               .values = tokens ? request.seq : request.pixels,
                                               .tokens = tokens ? 1 : 0},
                                              std::nullopt);
  if (!text.ok()) return text.status();
  absl::StatusOr<Description> description = ParseDescription(*text);
  if (!description.ok()) return description.status();
  return std::make_unique<AskedData>(request, *description);
}

}  // namespace sluice
