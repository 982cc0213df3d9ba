#include "comm/tcp/greeting.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "comm/printable.h"

namespace sluice {
namespace {

constexpr absl::string_view kMagic = "SLUICE";
constexpr size_t kProofBytes = sizeof(Proof);

template <typename Number>
void Append(Number number, std::string* bytes) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    bytes->push_back(static_cast<char>((static_cast<uint64_t>(number) >> (8 * i)) & 0xffU));
  }
}

template <size_t kSize>
void Append(const std::array<uint8_t, kSize>& array, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(array.data()), kSize);
}

void Append(const TableRow& row, std::string* bytes) {
  Append(row.address, bytes);
  Append(row.port, bytes);
}

// Takes fields off the front; what is missing reads as zero and is counted.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : bytes_(bytes) {}

  template <typename Number>
  void Read(Number* number) {
    uint64_t value = 0;
    const absl::string_view field = Take(sizeof(Number));
    for (size_t i = 0; i < field.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(field[i])) << (8 * i);
    }
    *number = static_cast<Number>(value);
  }
  template <size_t kSize>
  void Read(std::array<uint8_t, kSize>* array) {
    const absl::string_view field = Take(kSize);
    if (!field.empty()) std::memcpy(array->data(), field.data(), field.size());
  }
  void Read(TableRow* row) {
    Read(&row->address);
    Read(&row->port);
  }
  absl::string_view Take(size_t bytes) {
    if (bytes_.size() < bytes) {
      short_ = true;
      bytes_ = {};
      return {};
    }
    const absl::string_view field = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return field;
  }
  size_t left() const { return bytes_.size(); }
  bool exact() const { return !short_ && bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool short_ = false;
};

size_t MostBytes(GreetingKind kind) {
  switch (kind) {
    case GreetingKind::kTable:
      return 2 * sizeof(Nonce) + kMostRanksOfTcp * (sizeof(TableRow::address) + 2);
    case GreetingKind::kRefusal:
    case GreetingKind::kIncomplete:
      return kMostRefusalBytes + kProofBytes;
    default:
      return 128;
  }
}

std::string Payload(const Greeting& greeting) {
  std::string bytes;
  switch (greeting.kind) {
    case GreetingKind::kChallenge:
      Append(greeting.nonce, &bytes);
      return bytes;
    case GreetingKind::kJoin:
      Append(greeting.nonce, &bytes);
      Append(greeting.rank, &bytes);
      Append(greeting.size, &bytes);
      Append(greeting.listens, &bytes);
      Append(greeting.reached, &bytes);
      break;
    case GreetingKind::kTable:
      Append(greeting.session, &bytes);
      for (const TableRow& row : greeting.table) Append(row, &bytes);
      break;
    case GreetingKind::kRefusal:
    case GreetingKind::kIncomplete:
      bytes = greeting.text.substr(0, kMostRefusalBytes);
      break;
    case GreetingKind::kLinked:
      Append(greeting.session, &bytes);
      Append(greeting.rank, &bytes);
      break;
    case GreetingKind::kLink:
      Append(greeting.session, &bytes);
      Append(greeting.nonce, &bytes);
      Append(greeting.rank, &bytes);
      Append(greeting.peer, &bytes);
      Append(static_cast<uint8_t>(greeting.use), &bytes);
      break;
  }
  Append(greeting.proof, &bytes);
  return bytes;
}

absl::Status Garbage(absl::string_view bytes) {
  constexpr size_t kShown = 16;
  return absl::InvalidArgumentError(absl::StrCat("these bytes are not from sluice: '",
                                                 absl::CHexEscape(bytes.substr(0, kShown)),
                                                 bytes.size() > kShown ? "...'" : "'"));
}

absl::Status CheckHeader(absl::string_view bytes) {
  const size_t shown = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, shown) != kMagic.substr(0, shown)) return Garbage(bytes);
  if (bytes.size() < kGreetingHeaderBytes) return absl::OkStatus();
  uint16_t version = 0;
  Fields(bytes.substr(kMagic.size())).Read(&version);
  if (version == kWireVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the other side is another version of sluice: it speaks version ", version,
                   " of the protocol, this one version ", kWireVersion));
}

bool ReadTable(Fields& fields, Greeting* greeting) {
  constexpr size_t kRow = sizeof(TableRow::address) + 2;
  fields.Read(&greeting->session);
  if (fields.left() < kProofBytes || (fields.left() - kProofBytes) % kRow != 0) return false;
  greeting->table.resize((fields.left() - kProofBytes) / kRow);
  for (TableRow& row : greeting->table) fields.Read(&row);
  return !greeting->table.empty();
}

// Whether the payload is what its kind promises.
bool ReadPayload(absl::string_view payload, Greeting* greeting) {
  Fields fields(payload);
  switch (greeting->kind) {
    case GreetingKind::kChallenge:
      fields.Read(&greeting->nonce);
      return fields.exact();
    case GreetingKind::kJoin:
      fields.Read(&greeting->nonce);
      fields.Read(&greeting->rank);
      fields.Read(&greeting->size);
      fields.Read(&greeting->listens);
      fields.Read(&greeting->reached);
      break;
    case GreetingKind::kTable:
      if (!ReadTable(fields, greeting)) return false;
      break;
    case GreetingKind::kRefusal:
    case GreetingKind::kIncomplete:
      if (payload.size() < kProofBytes) return false;
      greeting->text = ToPrintableLine(fields.Take(payload.size() - kProofBytes));
      break;
    case GreetingKind::kLinked:
      fields.Read(&greeting->session);
      fields.Read(&greeting->rank);
      break;
    case GreetingKind::kLink:
      fields.Read(&greeting->session);
      fields.Read(&greeting->nonce);
      fields.Read(&greeting->rank);
      fields.Read(&greeting->peer);
      fields.Read(&greeting->use);
      if (greeting->use != LinkUse::kControl && greeting->use != LinkUse::kData) return false;
      break;
  }
  fields.Read(&greeting->proof);
  return fields.exact();
}

}  // namespace

std::string FormatGreeting(const Greeting& greeting, uint16_t version) {
  const std::string payload = Payload(greeting);
  std::string bytes(kMagic);
  Append(version, &bytes);
  Append(static_cast<uint8_t>(greeting.kind), &bytes);
  Append(static_cast<uint32_t>(payload.size()), &bytes);
  return bytes + payload;
}

absl::string_view ProvenPart(absl::string_view formatted) {
  return formatted.substr(0, formatted.size() - std::min(formatted.size(), kProofBytes));
}

absl::StatusOr<Greeting> ParseGreeting(absl::string_view bytes, size_t* used) {
  *used = 0;
  if (absl::Status status = CheckHeader(bytes); !status.ok()) return status;
  if (bytes.size() < kGreetingHeaderBytes) return Greeting();
  Greeting greeting;
  uint32_t length = 0;
  Fields header(bytes.substr(kMagic.size() + sizeof(uint16_t)));
  header.Read(&greeting.kind);
  header.Read(&length);
  if (greeting.kind < GreetingKind::kChallenge || greeting.kind > GreetingKind::kLinked) {
    return absl::InvalidArgumentError(
        absl::StrCat("no greeting is of kind ", static_cast<int>(greeting.kind)));
  }
  if (length > MostBytes(greeting.kind)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a greeting of kind ", static_cast<int>(greeting.kind), " has no ", length, " bytes"));
  }
  const size_t total = kGreetingHeaderBytes + length;
  if (bytes.size() < total) return Greeting();
  if (!ReadPayload(bytes.substr(kGreetingHeaderBytes, length), &greeting)) {
    return absl::InvalidArgumentError(absl::StrCat("a greeting of kind ",
                                                   static_cast<int>(greeting.kind),
                                                   " does not have these ", length, " bytes"));
  }
  *used = total;
  return greeting;
}

size_t GreetingBytesMissing(absl::string_view bytes) {
  if (bytes.size() < kGreetingHeaderBytes) return kGreetingHeaderBytes - bytes.size();
  uint32_t length = 0;
  Fields(bytes.substr(kGreetingHeaderBytes - sizeof(length))).Read(&length);
  const size_t total = kGreetingHeaderBytes + length;
  return total - std::min(total, bytes.size());
}

}  // namespace sluice
