#include "pipeline/checkpoint/saving/save_together.h"

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/directory/checkpoint_folder.h"
#include "pipeline/checkpoint/directory/own_folder.h"
#include "pipeline/checkpoint/saving/part_pieces.h"
#include "pipeline/checkpoint/saving/running_checksum.h"
#include "pipeline/checkpoint/saving/shared_file.h"
#include "pipeline/run/rounds.h"

namespace sluice {
namespace {

constexpr int kLeader = 0;

// One checkpoint, on one rank.
class Save {
 public:
  Save(const SaveRequest& request, Communicator& world)
      : request_(request),
        world_(world),
        rounds_(&world, request.timeout),
        pieces_(&world, &rounds_, request.read) {}

  absl::StatusOr<std::string> Run() {
    absl::Status status = Open();
    if (status.ok()) status = WriteParts();
    if (status.ok()) status = PassChecksums();
    if (status.ok()) status = rounds_.Do([this] { return Sync(); });
    if (status.ok()) status = rounds_.Finish();
    if (status.ok()) status = Commit();
    if (!status.ok()) return status;
    return path_;
  }

 private:
  bool leads() const { return world_.rank() == kLeader; }

  // Has rank 0 make the folder and the files, and finds out who sees them.
  absl::Status Open() {
    Rounds making(&world_, request_.timeout);
    absl::Status status = leads() ? making.Do([this] { return Make(); }) : absl::OkStatus();
    if (status.ok()) status = making.Finish();
    double nonce = leads() && folder_ != nullptr ? static_cast<double>(folder_->nonce()) : 0;
    if (status.ok()) status = Gather(nonce, &seen_);
    if (!status.ok()) return status;
    nonce = seen_[kLeader];
    if (!leads()) Look(SavingFolder(request_.directory, static_cast<uint64_t>(nonce)));
    return Gather(open_.empty() ? 0 : 1, &seen_);
  }

  absl::Status Gather(double mine, std::vector<double>* all) {
    all->resize(static_cast<size_t>(world_.size()));
    return world_.AllGather({&mine, 1}, absl::MakeSpan(*all), Instant::Now() + request_.timeout);
  }

  absl::Status Make() {
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

  absl::Status WriteParts() {
    for (size_t file = 0; file < request_.files.size(); ++file) {
      for (const CheckpointPart& part : request_.files[file].parts) {
        absl::Status status = absl::OkStatus();
        if (IsMine(part)) {
          status = open_.empty() ? pieces_.Send(part) : pieces_.Write(part, open_[file]);
        } else if (leads() && !Sees(part.owner)) {
          status = pieces_.Receive(part, open_[file]);
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
          status = pieces_.ForEach(part, [&sum](const float* values, int64_t, int64_t count) {
            sum.Add(values, static_cast<size_t>(count) * sizeof(float));
            return absl::OkStatus();
          });
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

  absl::Status Sync() const {
    for (const SharedFile& file : open_) {
      if (absl::Status status = file.Sync(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Commit() {
    Rounds committing(&world_, request_.timeout);
    absl::Status status = absl::OkStatus();
    if (leads()) {
      status = committing.Do([this] {
        const absl::StatusOr<std::string> path =
            folder_->Commit(request_.state, records_, request_.keep);
        if (path.ok()) path_ = *path;
        return path.status();
      });
    }
    return status.ok() ? committing.Finish() : status;
  }

  const SaveRequest& request_;
  Communicator& world_;
  Rounds rounds_;
  PartPieces pieces_;
  std::unique_ptr<CheckpointFolder> folder_;  // rank 0's
  std::vector<SharedFile> open_;              // as in the request; empty where they are not seen
  std::vector<double> seen_;                  // [rank]: not 0 where it sees them
  std::string state_;                         // of a checksum, on its way
  std::map<std::string, FileRecord> records_;
  std::string path_;
};

}  // namespace

absl::StatusOr<std::string> SaveTogether(const SaveRequest& request, Communicator& world) {
  return Save(request, world).Run();
}

}  // namespace sluice
