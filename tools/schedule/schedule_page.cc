#include "tools/schedule/schedule_page.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/simulate/simulate.h"
#include "tools/command.h"
#include "tools/schedule/measured_trace.h"
#include "tools/schedule/schedule_auto.h"

namespace sluice {
namespace {

absl::StatusOr<ShownSchedule> Prepare(Timetable table, const ScheduleFlags& flags) {
  ShownSchedule shown;
  shown.table = std::move(table);
  absl::StatusOr<ScheduleCosts> costs = ReadScheduleCosts(flags.costs, shown.table.placement);
  if (!costs.ok()) return costs.status();
  shown.costs = *std::move(costs);
  if (absl::Status status = TakeMeasured(flags, &shown); !status.ok()) return status;
  absl::StatusOr<Simulation> run = Simulate(shown.table, shown.costs.stages);
  if (!run.ok()) return run.status();
  shown.run = *std::move(run);
  return shown;
}

// The other schedule, of the same size, and what is proved of its like (0: nothing).
absl::StatusOr<std::pair<Timetable, double>> OtherTable(const ScheduleFlags& asked) {
  ScheduleFlags flags = FlagsFor(asked.against, asked);
  flags.what = asked.against;
  if (flags.what == kAuto) {
    absl::StatusOr<OptimisedTimetable> best = AutoTimetable(flags);
    if (!best.ok()) return best.status();
    return std::pair(std::move(best->table), best->lower_bound);
  }
  flags.placement.clear();
  const bool file = NamesFile(flags.what);
  if (file) flags.chunks.reset();
  absl::StatusOr<Timetable> table = file ? ReadTable(flags) : GenerateTable(flags.what, flags);
  if (!table.ok()) return table.status();
  if (absl::Status sound = ValidateTimetable(*table); !sound.ok()) {
    return WithExitCode(std::move(sound), kExitInvalidTimetable);
  }
  return std::pair(*std::move(table), 0.0);
}

HtmlPanel PanelOf(const ShownSchedule& shown, const ScheduleFlags& flags) {
  HtmlPanel panel;
  panel.table = &shown.table;
  panel.run = &shown.run;
  panel.costs = &shown.costs.stages;
  panel.activation_limit = flags.memory_limit;
  panel.byte_limit = shown.costs.device_memory;
  panel.measured = shown.measured;
  return panel;
}

}  // namespace

ScheduleFlags FlagsFor(const std::string& name, ScheduleFlags flags) {
  const absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(name);
  if (entry.ok() && (*entry)->chunk_step == 0) flags.chunks.reset();
  if (entry.ok() && !(*entry)->takes_group) flags.group.reset();
  return flags;
}

absl::Status TakeMeasured(const ScheduleFlags& flags, ShownSchedule* shown) {
  if (flags.measured.empty()) return absl::OkStatus();
  absl::StatusOr<MeasuredRun> measured = ReadMeasuredRun(flags.measured, shown->table);
  if (!measured.ok()) return measured.status();
  if (flags.costs.uniform.empty() && flags.costs.file.empty())
    shown->costs.stages = FittedCosts(*measured, shown->table.placement);
  shown->measured = *std::move(measured);
  return absl::OkStatus();
}

std::string PageOf(const std::deque<ShownSchedule>& shown, const ScheduleFlags& flags) {
  std::vector<HtmlPanel> panels;
  panels.reserve(shown.size());
  for (const ShownSchedule& each : shown) panels.push_back(PanelOf(each, flags));
  return RenderHtml(panels, {.seconds = !flags.measured.empty()});
}

absl::StatusOr<std::string> SchedulePage(const Timetable& table, const ScheduleFlags& flags,
                                         double bound) {
  std::deque<ShownSchedule> all;
  absl::StatusOr<ShownSchedule> first = Prepare(table, flags);
  if (!first.ok()) return first.status();
  if (absl::Status fits = CheckMemoryLimit(table.name, first->run, flags); !fits.ok()) return fits;
  UseBound(bound, first->run);
  all.push_back(*std::move(first));
  if (!flags.against.empty()) {
    absl::StatusOr<std::pair<Timetable, double>> other = OtherTable(flags);
    if (!other.ok()) return other.status();
    ScheduleFlags plain = flags;
    plain.measured.clear();  // it was the first one that ran
    absl::StatusOr<ShownSchedule> second = Prepare(std::move(other->first), plain);
    if (!second.ok()) return second.status();
    UseBound(other->second, second->run);
    all.push_back(*std::move(second));
  }
  return PageOf(all, flags);
}

}  // namespace sluice
