#include "pipeline/checkpoint/saving/save_together.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/collectives/collectives.h"
#include "comm/where.h"
#include "pipeline/checkpoint/directory/checkpoint_folder.h"
#include "pipeline/checkpoint/directory/own_folder.h"
#include "pipeline/checkpoint/saving/running_checksum.h"
#include "pipeline/checkpoint/saving/shared_file.h"
#include "pipeline/state/rounds.h"
#include "pipeline/state/state_pieces.h"

namespace sluice {
namespace {

constexpr int kLeader = 0;
constexpr size_t kMostWords = 8192;  // bytes of an error, which names paths

// One checkpoint, on one rank.
class Save {
 public:
  Save(const SaveRequest& request, Communicator& world)
      : request_(request),
        world_(world),
        rounds_(&world, request.timeout),
        pieces_(&world, &rounds_) {}

  absl::StatusOr<SaveOutcome> Run() {
    absl::Status status = Open();
    if (status.ok() && !failed_) status = Write();
    if (status.ok() && !failed_) status = Commit();
    if (status.ok()) return std::move(outcome_);
    status = AtThisSave(status);
    world_.Abort(status);  // messages use this object's memory until then
    // Whoever was lost since the checkpoint was put in its place, it is there.
    if (!outcome_.path.empty()) return std::move(outcome_);
    return status;
  }

 private:
  using Next = std::function<absl::Status()>;  // as of Rounds::Pieces

  bool leads() const { return world_.rank() == kLeader; }

  // What another rank has aborted with says already which rank that is.
  absl::Status AtThisSave(const absl::Status& status) const {
    if (world_.size() == 1 || WhereOf(status).moment == Where::Moment::kCheckpoint) return status;
    return WithWhere(status, Here());
  }
  Where Here() const {
    return {
        .rank = world_.rank(), .moment = Where::Moment::kCheckpoint, .step = request_.state.step};
  }

  // Has rank 0 make the folder and the files, and finds out who sees them.
  absl::Status Open() {
    Rounds making(&world_, request_.timeout);
    absl::Status status = absl::OkStatus();
    if (leads()) {
      status = Try(making, "makes the files of a checkpoint",
                   [this](const Next& next) { return Make(next); });
    }
    if (status.ok()) status = Agree(making);
    if (!status.ok() || failed_) return status;
    double nonce = leads() ? static_cast<double>(folder_->nonce()) : 0;
    status = Gather(nonce, &seen_);
    if (!status.ok()) return status;
    nonce = seen_[kLeader];
    if (!leads()) Look(SavingFolder(request_.directory, static_cast<uint64_t>(nonce)));
    return Gather(open_.empty() ? 0 : 1, &seen_);
  }

  absl::Status Write() {
    absl::Status status = WriteParts();
    if (status.ok()) status = PassChecksums();
    if (status.ok() && mine_.ok() && request_.check_read) mine_ = request_.check_read();
    if (status.ok() && request_.on_read) request_.on_read();
    if (status.ok()) {
      status = Try(rounds_, "writes a checkpoint to the disk",
                   [this](const Next& next) { return Sync(next); });
    }
    return status.ok() ? Agree(rounds_) : status;
  }

  // Does `work`, which may take long in all, unless something that this rank tried before has
  // failed. An error of the work is remembered for Agree; what is returned is that of a lost rank.
  absl::Status Try(Rounds& rounds, const char* doing, const Rounds::Pieces& work) {
    return rounds.DoInPieces(doing, [&](const Next& next) {
      if (mine_.ok()) mine_ = work(next);
      return absl::OkStatus();
    });
  }

  // Ends `rounds`. Afterwards all ranks know whether one of them has failed, and why.
  absl::Status Agree(Rounds& rounds) {
    std::vector<double> words;
    absl::Status status = rounds.Finish(mine_.ok() ? 0 : 1, &words);
    if (!status.ok()) return status;
    const auto first = std::find(words.begin(), words.end(), 1);
    failed_ = first != words.end();
    return failed_ ? Tell(static_cast<int>(first - words.begin())) : absl::OkStatus();
  }

  // Tells all ranks the error of rank `failed`.
  absl::Status Tell(int failed) {
    std::string& text = told_;
    text.clear();
    if (failed == world_.rank()) {
      const absl::Status told = world_.size() == 1 ? mine_ : WithWhere(mine_, Here());
      text = absl::StrCat(std::string(1, static_cast<char>(told.code())),
                          EncodeError(told, kMostWords));
    }
    text.resize(1 + kLongestWhere + kMostWords + 1);  // ends in a zero
    // All of it is the slice of the rank that failed.
    std::vector<int64_t> bounds(static_cast<size_t>(world_.size()) + 1);
    std::fill(bounds.begin() + failed + 1, bounds.end(), static_cast<int64_t>(text.size()));
    const SlicedBytes all = {.data = text.data(), .bounds = bounds};
    absl::Status status = AllGatherSlices(world_, {&all, 1}, request_.timeout);
    if (status.ok()) outcome_.failed = DecodeError(static_cast<uint64_t>(text[0]), &text[1]);
    return status;
  }

  absl::Status Gather(double mine, std::vector<double>* all) {
    all->resize(static_cast<size_t>(world_.size()));
    return world_.AllGather({&mine, 1}, absl::MakeSpan(*all), Instant::Now() + request_.timeout);
  }

  absl::Status Make(const Next& next) {
    absl::StatusOr<std::unique_ptr<CheckpointFolder>> folder =
        CheckpointFolder::Create(request_.directory);
    if (!folder.ok()) return folder.status();
    folder_ = *std::move(folder);
    for (const CheckpointFile& file : request_.files) {
      absl::StatusOr<SharedFile> made =
          SharedFile::Create(absl::StrCat(folder_->path(), "/", file.name), file.bytes);
      if (!made.ok()) return made.status();
      open_.push_back(*std::move(made));
      absl::Status status = open_.back().WriteAt(0, file.head.data(), file.head.size());
      if (status.ok()) status = next();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Opens the files where this rank sees them; whatever keeps it from that, messages do not need.
  void Look(const std::string& folder) {
    for (const CheckpointFile& file : request_.files) {
      absl::StatusOr<SharedFile> there = SharedFile::Open(absl::StrCat(folder, "/", file.name));
      if (!there.ok()) return open_.clear();
      open_.push_back(*std::move(there));
    }
  }

  bool Sees(int rank) const { return seen_[static_cast<size_t>(rank)] != 0; }
  bool IsMine(const CheckpointPart& part) const { return part.owner == world_.rank(); }
  StatePieces::Read ReaderOf(const CheckpointPart& part) const {
    return
        [this, &part](int64_t first, int64_t count) { return request_.read(part, first, count); };
  }

  absl::Status WriteParts() {
    for (size_t file = 0; file < request_.files.size(); ++file) {
      for (const CheckpointPart& part : request_.files[file].parts) {
        absl::Status status = absl::OkStatus();
        const auto write = [&](const float* values, int64_t first, int64_t count) {
          const uint64_t offset = part.offset + StateBytes(first);
          if (mine_.ok()) mine_ = open_[file].WriteAt(offset, values, StateBytes(count));
          return absl::OkStatus();
        };
        if (IsMine(part)) {
          status = open_.empty() ? pieces_.Send(kLeader, part.count, ReaderOf(part))
                                 : pieces_.ForEach(part.count, ReaderOf(part), write);
        } else if (leads() && !Sees(part.owner)) {
          status = pieces_.Receive(part.owner, part.count, write);
        }
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Every file's checksum starts and ends at rank 0.
  absl::Status PassChecksums() {
    for (const CheckpointFile& file : request_.files) {
      RunningChecksum sum;
      if (leads()) sum.Add(file.head.data(), file.head.size());
      int holder = kLeader;
      for (const CheckpointPart& part : file.parts) {
        absl::Status status = Pass(holder, part.owner, &sum);
        holder = part.owner;
        if (status.ok() && IsMine(part)) {
          const auto add = [&sum](const float* values, int64_t, int64_t count) {
            sum.Add(values, StateBytes(count));
            return absl::OkStatus();
          };
          status = pieces_.ForEach(part.count, ReaderOf(part), add);
        }
        if (!status.ok()) return status;
      }
      if (absl::Status status = Pass(holder, kLeader, &sum); !status.ok()) return status;
      if (leads()) records_[file.name] = {file.bytes, sum.Hex()};
    }
    return absl::OkStatus();
  }

  absl::Status Pass(int from, int to, RunningChecksum* sum) {
    if (from == to) return absl::OkStatus();
    Ticket ticket = 0;
    absl::Status status = absl::OkStatus();
    if (from == world_.rank()) {
      state_ = sum->Export();
      status = world_.PostSend(to, state_.data(), state_.size(), &ticket);
      if (status.ok()) status = rounds_.WaitSend(to, ticket);
    } else if (to == world_.rank()) {
      state_.resize(RunningChecksum::ExportBytes());
      status = world_.PostReceive(from, state_.data(), state_.size(), &ticket);
      if (status.ok()) status = rounds_.WaitReceive(from, ticket);
      if (status.ok()) sum->Import(state_);
    }
    return status;
  }

  absl::Status Sync(const Next& next) const {
    for (const SharedFile& file : open_) {
      if (absl::Status status = file.Sync(next); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Commit() {
    Rounds committing(&world_, request_.timeout);
    absl::Status status = absl::OkStatus();
    if (leads()) {
      status = Try(committing, "puts a checkpoint in its place", [this](const Next& next) {
        absl::StatusOr<CommittedFolder> committed =
            folder_->Commit(request_.state, records_, request_.keep, request_.stays,
                            [&next] { next().IgnoreError(); });
        if (!committed.ok()) return committed.status();
        outcome_.path = std::move(committed->path);
        outcome_.removed = std::move(committed->removed);
        return absl::OkStatus();
      });
    }
    return status.ok() ? Agree(committing) : status;
  }

  const SaveRequest& request_;
  Communicator& world_;
  Rounds rounds_;
  StatePieces pieces_;
  std::unique_ptr<CheckpointFolder> folder_;  // rank 0's
  std::vector<SharedFile> open_;              // as in the request; empty where they are not seen
  std::vector<double> seen_;                  // [rank]: not 0 where it sees them
  std::string state_;                         // of a checksum, on its way
  std::string told_;                          // an error, on its way
  std::map<std::string, FileRecord> records_;
  absl::Status mine_;    // the first error of this rank's files
  bool failed_ = false;  // some rank's, as all know
  SaveOutcome outcome_;
};

}  // namespace

absl::StatusOr<SaveOutcome> SaveTogether(const SaveRequest& request, Communicator& world) {
  return Save(request, world).Run();
}

}  // namespace sluice
