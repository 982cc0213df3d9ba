#include "tools/text_writer.h"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/write_all.h"

namespace sluice {
namespace {

struct Piece {
  int fd = -1;
  std::string text;
  bool replaceable = false;
  OutputMark mark = {};
};

}  // namespace

struct TextWriter::Shared {
  // 0, or the error.
  int Deliver(const Piece& piece) {
    if (piece.fd == out && relay >= 0) {
      if (WriteAllTo(relay, FormatFrame(piece.mark, piece.text)) == 0) return 0;
      relay = -1;
    }
    return WriteAllTo(piece.fd, piece.text);
  }

  int out = -1;
  int relay = -1;  // the writer's thread alone uses it
  std::function<void(int)> on_failure;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> waiting;  // the first is being written while `writing`
  size_t waiting_bytes = 0;
  bool writing = false;
  bool ended = false;  // nothing more will be given
  int error = 0;       // of `out`
  OutputMark mark;     // of what is given next
};

TextWriter::TextWriter(int out, std::function<void(int)> on_failure, int relay)
    : shared_(std::make_shared<Shared>()), relayed_(relay >= 0) {
  shared_->out = out;
  shared_->relay = relay;
  shared_->on_failure = std::move(on_failure);
  thread_ = std::thread([shared = shared_] { Run(shared); });
}

TextWriter::~TextWriter() { Finish().IgnoreError(); }

void TextWriter::Write(std::string text) { WriteTo(shared_->out, std::move(text)); }

void TextWriter::SetMark(const OutputMark& mark) {
  const std::lock_guard lock(shared_->mutex);
  shared_->mark = mark;
}

void TextWriter::Tell(const OutputMark& mark) {
  if (!relayed_) return;
  std::unique_lock lock(shared_->mutex);
  shared_->waiting.push_back({shared_->out, "", false, mark});
  lock.unlock();
  shared_->changed.notify_all();
}

size_t TextWriter::waiting_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->waiting_bytes;
}

void TextWriter::WriteTo(int fd, std::string text, bool replaceable) {
  std::unique_lock lock(shared_->mutex);
  std::deque<Piece>& waiting = shared_->waiting;
  const bool older = waiting.size() > (shared_->writing ? 1 : 0) && waiting.back().replaceable;
  if (older && replaceable && waiting.back().fd == fd) {
    shared_->waiting_bytes -= waiting.back().text.size();
    waiting.pop_back();
  }
  shared_->changed.wait(lock, [this] { return shared_->waiting_bytes <= kMostWaiting; });
  shared_->waiting_bytes += text.size();
  waiting.push_back({fd, std::move(text), replaceable, shared_->mark});
  lock.unlock();
  shared_->changed.notify_all();
}

void TextWriter::Run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->ended || !shared->waiting.empty(); });
    if (shared->waiting.empty()) return;
    const Piece& piece = shared->waiting.front();  // stays where it is while others are added
    const bool dropped = piece.fd == shared->out && shared->error != 0;
    shared->writing = true;
    lock.unlock();
    const int error = dropped ? 0 : shared->Deliver(piece);
    const bool failed = error != 0 && piece.fd == shared->out;
    if (failed && shared->on_failure) shared->on_failure(error);
    lock.lock();
    if (failed) shared->error = error;
    shared->writing = false;
    shared->waiting_bytes -= piece.text.size();
    shared->waiting.pop_front();
    shared->changed.notify_all();
  }
}

absl::Status TextWriter::Finish(absl::Duration most) {
  std::unique_lock lock(shared_->mutex);
  shared_->ended = true;
  shared_->changed.notify_all();
  // Also where an earlier call has given up: nobody can join the thread any more.
  const auto written = [this] { return shared_->waiting.empty() || !thread_.joinable(); };
  if (most == absl::InfiniteDuration()) {
    shared_->changed.wait(lock, written);
  } else {
    shared_->changed.wait_for(lock, absl::ToChronoNanoseconds(most), written);
  }
  const bool hangs = !shared_->waiting.empty();
  const int error = shared_->error;
  lock.unlock();
  if (thread_.joinable()) {
    if (hangs) {
      thread_.detach();  // it may hang in a write for ever
    } else {
      thread_.join();
    }
  }
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("standard output: cannot write: ", std::strerror(error)));
  }
  return absl::OkStatus();
}

}  // namespace sluice
