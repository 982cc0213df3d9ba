#include "tools/train/log/event_file.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "models/files/file_writer.h"
#include "models/files/host_name.h"
#include "tools/files.h"

namespace sluice {
namespace {

// Fields of event.proto and summary.proto, and the wire types of protocol buffers.
enum EventField : uint32_t {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSession = 7
};
enum SummaryField : uint32_t { kValue = 1 };
enum ValueField : uint32_t { kTag = 1, kSimpleValue = 2, kImage = 4 };
enum ImageField : uint32_t { kHeight = 1, kWidth = 2, kColourSpace = 3, kEncodedImage = 4 };
enum SessionField : uint32_t { kStatus = 1 };
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr uint64_t kStarted = 1;  // SessionLog.START

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80U; value >>= 7U) out->push_back(static_cast<char>(value | 0x80U));
  out->push_back(static_cast<char>(value));
}

void PutKey(uint32_t field, WireType type, std::string* out) { PutVarint(field << 3U | type, out); }

// `value` as it is in memory: all that sluice runs on is little-endian, as these formats are.
template <typename T>
void PutFixed(T value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

void PutBytes(uint32_t field, const std::string& bytes, std::string* out) {
  PutKey(field, kBytes, out);
  PutVarint(bytes.size(), out);
  out->append(bytes);
}

void PutNumber(uint32_t field, uint64_t value, std::string* out) {
  PutKey(field, kVarint, out);
  PutVarint(value, out);
}

// An event of now, without what it is about.
std::string EventAt(int64_t step) {
  std::string event;
  PutKey(kWallTime, kFixed64, &event);
  PutFixed(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), &event);
  PutNumber(kStep, static_cast<uint64_t>(step), &event);
  return event;
}

// The CRC-32C of `bytes`, masked as in TFRecords: a checksum of data that have checksums in them
// is a weak one.
uint32_t MaskedChecksum(std::string bytes) {
  constexpr uint32_t kAll = 0xffffffffU, kMask = 0xa282ead8U;
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  const uint32_t crc = crc32_iscsi(data, static_cast<int>(bytes.size()), kAll) ^ kAll;
  return (crc >> 15U | crc << 17U) + kMask;
}

// What a PNG file says of its picture. https://www.w3.org/TR/png/#11IHDR
struct PngHeader {
  uint32_t width = 0;
  uint32_t height = 0;
  uint64_t channels = 0;  // which is how summary.proto numbers colour spaces, up to 4: RGBA
};

absl::StatusOr<PngHeader> HeaderOf(const std::string& png) {
  constexpr absl::string_view kBegins("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  constexpr size_t kWidthAt = 16, kHeightAt = 20, kColoursAt = 25, kHeaderBytes = 33;
  constexpr uint64_t kChannels[] = {1, 0, 3, 3, 2, 0, 4};  // [colour type]
  if (png.size() < kHeaderBytes || !absl::StartsWith(png, kBegins)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture of ", png.size(), " bytes is no PNG: its header is missing"));
  }
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t byte = at; byte < at + sizeof(value); ++byte)
      value = value << 8U | static_cast<unsigned char>(png[byte]);
    return value;
  };
  const auto colours = static_cast<unsigned char>(png[kColoursAt]);
  const uint64_t channels = colours < std::size(kChannels) ? kChannels[colours] : 0;
  if (channels != 0) return PngHeader{number(kWidthAt), number(kHeightAt), channels};
  return absl::InvalidArgumentError(
      absl::StrCat("a PNG has colour type ", colours, ", which its format does not know"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& directory) {
  const std::string name = absl::StrCat("events.out.tfevents.", absl::ToUnixSeconds(absl::Now()),
                                        ".", HostName(), ".", getpid(), ".");
  for (int number = 0;; ++number) {
    const std::string path =
        (std::filesystem::path(directory) / absl::StrCat(name, number)).string();
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return FileError(errno, absl::StrCat("cannot create ", path));
    std::unique_ptr<EventFile> file(new EventFile(path, fd));
    std::string event = EventAt(0);
    PutBytes(kFileVersion, "brain.Event:2", &event);
    if (absl::Status status = file->AddRecord(event); !status.ok()) return status;
    return file;
  }
}

EventFile::~EventFile() { close(fd_); }

absl::Status EventFile::AddStart(int64_t step) {
  std::string session, event = EventAt(step);
  PutNumber(kStatus, kStarted, &session);
  PutBytes(kSession, session, &event);
  return AddRecord(event);
}

absl::Status EventFile::AddScalars(int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary, event = EventAt(step);
  for (const auto& [tag, number] : scalars) {
    std::string value;
    PutBytes(kTag, tag, &value);
    PutKey(kSimpleValue, kFixed32, &value);
    PutFixed(static_cast<float>(number), &value);
    PutBytes(kValue, value, &summary);
  }
  PutBytes(kSummary, summary, &event);
  return AddRecord(event);
}

absl::Status EventFile::AddPng(int64_t step, const std::string& tag, const std::string& png) {
  const absl::StatusOr<PngHeader> header = HeaderOf(png);
  if (!header.ok()) return header.status();
  std::string image, value, summary, event = EventAt(step);
  PutNumber(kHeight, header->height, &image);
  PutNumber(kWidth, header->width, &image);
  PutNumber(kColourSpace, header->channels, &image);
  PutBytes(kEncodedImage, png, &image);
  PutBytes(kTag, tag, &value);
  PutBytes(kImage, image, &value);
  PutBytes(kValue, value, &summary);
  PutBytes(kSummary, summary, &event);
  return AddRecord(event);
}

absl::Status EventFile::AddRecord(const std::string& event) {
  std::string length, record;
  PutFixed(static_cast<uint64_t>(event.size()), &length);
  record = length;
  PutFixed(MaskedChecksum(length), &record);
  record += event;
  PutFixed(MaskedChecksum(event), &record);
  return WriteAll(fd_, record, path_);
}

}  // namespace sluice
