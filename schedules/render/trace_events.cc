#include "schedules/render/trace_events.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/render/render_common.h"

namespace sluice {

// Fifteen digits: nanoseconds of a run of days, and no rounding error shows.

TraceEvents::TraceEvents(absl::string_view process)
    : text_(absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                         "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":",
                         JsonQuoted(process), "}}")) {}

void TraceEvents::Thread(size_t thread, absl::string_view name, size_t place) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
                        "\"args\":{\"name\":%s}},\n{\"name\":\"thread_sort_index\","
                        "\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                        thread, JsonQuoted(name), thread, place);
}

void TraceEvents::Slice(const TraceSlice& slice, absl::Span<const TraceArgument> arguments) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\":%s,\"cat\":%s,\"ph\":\"X\",\"pid\":1,\"tid\":%d,"
                        "\"ts\":%.15g,\"dur\":%.15g,\"args\":{",
                        JsonQuoted(slice.name), JsonQuoted(slice.category), slice.thread,
                        slice.start, slice.duration);
  const char* separator = "";
  for (const auto& [name, value] : arguments) {
    absl::StrAppend(&text_, separator, "\"", name, "\":", value);
    separator = ",";
  }
  absl::StrAppend(&text_, "}}");
}

void TraceEvents::Instant(absl::string_view name, size_t thread, double time) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\":%s,\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":%d,"
                        "\"ts\":%.15g}",
                        JsonQuoted(name), thread, time);
}

void TraceEvents::Mark(absl::string_view name, double time) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\":%s,\"cat\":\"mark\",\"ph\":\"i\",\"s\":\"p\",\"pid\":1,"
                        "\"tid\":1,\"ts\":%.15g}",
                        JsonQuoted(name), time);
}

void TraceEvents::Memory(size_t rank, absl::string_view unit, double time, double held) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\":\"rank %d %s\",\"ph\":\"C\",\"pid\":1,\"ts\":%.15g,"
                        "\"args\":{\"held\":%.15g}}",
                        rank, unit, time, held);
}

void TraceEvents::Arrow(absl::string_view name, size_t from_thread, double from, size_t to_thread,
                        double to) {
  ArrowEnd(name, "\"s\"", from_thread, from);
  ArrowEnd(name, "\"f\",\"bp\":\"e\"", to_thread, to);
  ++arrows_;
}

void TraceEvents::ArrowEnd(absl::string_view name, absl::string_view phase, size_t thread,
                           double time) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\":%s,\"cat\":\"message\",\"ph\":%s,\"id\":%d,\"pid\":1,"
                        "\"tid\":%d,\"ts\":%.15g}",
                        JsonQuoted(name), phase, arrows_, thread, time);
}

std::string TraceEvents::Take() {
  absl::StrAppend(&text_, "\n]}\n");
  return std::move(text_);
}

}  // namespace sluice
