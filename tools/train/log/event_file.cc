#include "tools/train/log/event_file.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "models/files/file_writer.h"
#include "models/files/host_name.h"
#include "tools/files.h"

namespace sluice {
namespace {

constexpr absl::string_view kNameBegins = "events.out.tfevents.";

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

// The names of the event files of a directory, in the order in which TensorBoard reads them.
std::vector<std::string> EventFiles(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, kNameBegins)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

int64_t SecondsAfter(const std::vector<std::string>& names) {
  constexpr size_t kDigits = 10;  // of the time, until the year 2286
  int64_t seconds = absl::ToUnixSeconds(absl::Now()), found = 0;
  for (const absl::string_view name : names) {
    if (absl::SimpleAtoi(name.substr(kNameBegins.size(), kDigits), &found))
      seconds = std::max(seconds, found + 1);
  }
  return seconds;
}

// The next record of a TFRecord file; nullopt where there is none, or it is not whole.
std::optional<std::string> NextRecord(std::istream* file, int64_t most) {
  std::string length(sizeof(uint64_t), '\0');
  uint32_t checksum = 0;
  const auto matches = [&](const std::string& bytes) {
    return file->read(reinterpret_cast<char*>(&checksum), sizeof(checksum)) &&
           checksum == MaskedChecksum(bytes);
  };
  uint64_t size = 0;
  if (!file->read(length.data(), sizeof(size)) || !matches(length)) return std::nullopt;
  std::memcpy(&size, length.data(), sizeof(size));
  if (size > static_cast<uint64_t>(most)) return std::nullopt;
  std::string record(size, '\0');
  if (!file->read(record.data(), static_cast<std::streamsize>(size)) || !matches(record))
    return std::nullopt;
  return record;
}

struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;            // of a varint
  absl::string_view bytes = {};  // of the other types
};

// Removes a varint from the front.
std::optional<uint64_t> TakeVarint(absl::string_view* bytes) {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80U) return value;
  }
  return std::nullopt;
}

// The fields of a message of protocol buffers, up to what is none.
std::vector<WireField> FieldsOf(absl::string_view message) {
  std::vector<WireField> fields;
  while (const std::optional<uint64_t> key = TakeVarint(&message)) {
    const uint64_t type = *key & 7U;
    WireField field{.number = *key >> 3U};
    std::optional<uint64_t> size = 0;
    if (type == kVarint) {
      const std::optional<uint64_t> value = TakeVarint(&message);
      if (!value.has_value()) break;
      field.value = *value;
    } else {
      size = type == kBytes     ? TakeVarint(&message)
             : type == kFixed64 ? std::make_optional<uint64_t>(8)
             : type == kFixed32 ? std::make_optional<uint64_t>(4)
                                : std::nullopt;
    }
    if (!size.has_value() || *size > message.size()) break;
    field.bytes = message.substr(0, *size);
    message.remove_prefix(*size);
    fields.push_back(field);
  }
  return fields;
}

// The last field of that number, as its format says; an empty one where there is none.
WireField FieldOf(absl::string_view message, uint64_t number) {
  WireField found;
  for (const WireField& field : FieldsOf(message)) {
    if (field.number == number) found = field;
  }
  return found;
}

// What one event file shows of a step: as ShownAt.
struct FileShows {
  std::map<std::string, std::string> shown;
  bool hides_older = false;  // of the files before it, all that they say of that step
};

FileShows WhatFileShows(const std::filesystem::path& path, int64_t step) {
  FileShows file;
  std::error_code error;
  // To open a named pipe would wait for whoever writes into it.
  if (!std::filesystem::is_regular_file(path, error)) return file;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return file;
  std::ifstream stream(path, std::ios::binary);
  while (const std::optional<std::string> event = NextRecord(&stream, bytes)) {
    const auto at = static_cast<int64_t>(FieldOf(*event, kStep).value);
    const bool starts = FieldOf(FieldOf(*event, kSession).bytes, kStatus).value == kStarted;
    if (starts && at <= step) {
      file.shown.clear();
      file.hides_older = true;
    }
    if (at != step) continue;
    for (const WireField& value : FieldsOf(FieldOf(*event, kSummary).bytes)) {
      if (value.number != kValue) continue;
      const absl::string_view image = FieldOf(value.bytes, kImage).bytes;
      file.shown[std::string(FieldOf(value.bytes, kTag).bytes)] =
          std::string(FieldOf(image, kEncodedImage).bytes);
    }
  }
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& directory) {
  const std::string name = absl::StrCat(kNameBegins, SecondsAfter(EventFiles(directory)), ".",
                                        HostName(), ".", getpid(), ".");
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
  return WriteAll(fd_, EventRecord(event), path_);
}

std::string EventRecord(const std::string& event) {
  std::string length, record;
  PutFixed(static_cast<uint64_t>(event.size()), &length);
  record = length;
  PutFixed(MaskedChecksum(length), &record);
  record += event;
  PutFixed(MaskedChecksum(event), &record);
  return record;
}

std::map<std::string, std::string> ShownAt(const std::string& directory, int64_t step) {
  std::map<std::string, std::string> shown;
  std::vector<std::string> names = EventFiles(directory);
  // The newest first: a run that began at `step` or before it hides what is older.
  std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    FileShows file = WhatFileShows(std::filesystem::path(directory) / name, step);
    shown.merge(file.shown);
    if (file.hides_older) break;
  }
  return shown;
}

}  // namespace sluice
