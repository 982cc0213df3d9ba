// The module sluice._core: what the Python files beside it are made of. It takes and gives texts
// and numbers; everything that people see is in python/sluice.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/json_text.h"
#include "partitioner/planning/file/plan_file.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "python/bindings/ask.h"
#include "python/bindings/interruptible.h"
#include "python/bindings/timetable_state.h"
#include "schedules/csv.h"
#include "schedules/render/render.h"
#include "tools/command.h"
#include "tools/plan/plan_drawing.h"
#include "tools/schedule/answer/schedule_list.h"
#include "tools/schedule/answer/schedule_report.h"
#include "tools/schedule/timetable/priced_timetable.h"

namespace sluice::python {
namespace {

namespace py = pybind11;

using SharedTimetable = std::shared_ptr<AskedTimetable>;
using SharedPlan = std::shared_ptr<PlanAnswer>;

// Raises what sluice._errors makes of an exit code of the command line and a message.
[[noreturn]] void Raise(int exit_code, const std::string& message,
                        const HeldActivations& held = {}) {
  const py::object error = py::module_::import("sluice._errors")
                               .attr("from_exit_code")(exit_code, message, held.chunks, held.peak);
  PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

template <typename T>
T Value(absl::StatusOr<T> result) {
  const absl::Status& status = result.status();
  if (!status.ok()) {
    Raise(ExitCodeOf(status), std::string(status.message()), HeldActivationsOf(status));
  }
  return *std::move(result);
}

// What work() returns, which is computed without the interpreter's lock. py::call_guard would also
// cover what raises an error, and that needs the lock.
template <typename Work>
auto WithoutLock(Work work) {
  const py::gil_scoped_release release;
  return work();
}

// As `sluice plan` ends: a search that found nothing in its time has lost no peer.
PlanAnswer PlanOf(absl::StatusOr<PlanAnswer> result) {
  const absl::Status& status = result.status();
  if (absl::IsFailedPrecondition(status) || absl::IsDeadlineExceeded(status)) {
    Raise(kExitNoPlan, std::string(status.message()));
  }
  return Value(std::move(result));
}

SharedTimetable Shared(AskedTimetable table) {
  return std::make_shared<AskedTimetable>(std::move(table));
}

SharedTimetable Schedule(const std::string& name, const Flags& flags, const CostsText& costs,
                         bool one_of_several) {
  return Shared(Value(Interruptible([&](const StopFunction& stop) {
    return AskSchedule(name, flags, costs, one_of_several, stop);
  })));
}

SharedTimetable Table(const std::string& text, const std::string& name, const Flags& flags,
                      const CostsText& costs) {
  return Shared(Value(
      Interruptible([&](const StopFunction&) { return AskTable(text, name, flags, costs); })));
}

SharedTimetable ReadPlan(const std::string& json, const std::string& name) {
  return Shared(
      Value(Interruptible([&](const StopFunction&) { return AskPlanTable(json, name); })));
}

SharedPlan MakePlan(const std::string& model, const Flags& flags) {
  return std::make_shared<PlanAnswer>(
      PlanOf(Interruptible([&](const StopFunction& stop) { return AskPlan(model, flags, stop); })));
}

// Without `latest` it verifies checkpoints, which may take as long as to read them.
std::string FindToResume(const std::string& path) {
  return Value(Interruptible([&](const StopFunction&) { return FindCheckpointToResume(path); }));
}

// The table with one row per rank, where there are times.
const Timetable& Shown(const AskedTimetable& asked) {
  return asked.shown ? asked.shown->table : asked.table;
}

std::string DefectsText(const AskedTimetable& asked) {
  return JsonText(DefectsJson(asked.table.name, asked.table, asked.defects));
}

// Of a sound timetable.
std::string Json(const AskedTimetable& asked, bool actions) {
  return JsonText(SimulationJson(asked.shown->run, asked.shown->table, actions));
}

std::string Text(const AskedTimetable& asked, int columns, bool unicode) {
  return RenderText(asked.shown->run, asked.shown->table,
                    {.columns = columns,
                     .colour = false,
                     .unicode = unicode,
                     .seconds = asked.shown->costs.seconds});
}

std::string Svg(const AskedTimetable& asked) {
  return RenderSvg(asked.shown->run, asked.shown->table, {.seconds = asked.shown->costs.seconds});
}

std::string Html(const AskedTimetable& asked) { return PageOf({*asked.shown}); }

std::string Trace(const AskedTimetable& asked) {
  return RenderTrace(asked.shown->run, asked.shown->table, &asked.shown->costs.stages);
}

std::string Csv(const AskedTimetable& asked) {
  return FormatTimetableCsv(asked.table, asked.line_end);
}

// One action as numpy reads it from the bytes of Actions.
struct PackedAction {
  int32_t rank, op, stage, micro_batch;
  double start, end;
};

// All actions, rank by rank, in the order of their rows; ops by their place in OpNames.
py::bytes Actions(const AskedTimetable& asked) {
  std::vector<PackedAction> packed;
  {
    const py::gil_scoped_release release;
    const auto& rows = asked.shown->run.rows;
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      for (const TimedAction& timed : rows[rank]) {
        const Action& action = timed.action;
        if (RunsNothing(action.op)) continue;
        packed.push_back({static_cast<int32_t>(rank), static_cast<int32_t>(action.op), action.stage,
                          action.micro_batch, timed.start, timed.end});
      }
    }
  }
  std::string bytes(packed.size() * sizeof(PackedAction), '\0');
  if (!packed.empty()) std::memcpy(bytes.data(), packed.data(), bytes.size());
  return py::bytes(bytes);
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (int op = 0; op <= static_cast<int>(kLastOp); ++op) {
    names.emplace_back(OpName(static_cast<Op>(op)));
  }
  return names;
}

// A schedule that does not fit: its name, its chunks and the most activations that a rank would
// hold, both 0 where there is no timetable.
using Misfit = std::tuple<std::string, int, int>;

std::string ComparisonOf(const std::vector<std::variant<SharedTimetable, Misfit>>& rows) {
  std::vector<Comparison> lines;
  lines.reserve(rows.size());
  for (const auto& row : rows) {
    if (const auto* asked = std::get_if<SharedTimetable>(&row)) {
      const ShownSchedule& shown = *(*asked)->shown;
      lines.push_back({.table = shown.table, .run = shown.run, .cut = (*asked)->cut});
      continue;
    }
    const auto& [name, chunks, peak] = std::get<Misfit>(row);
    lines.push_back(
        {.table = {}, .run = {}, .does_not_fit = DoesNotFit{.why = {}, .held = {chunks, peak}}});
    lines.back().table.name = name;
  }
  return ComparisonText(lines);
}

std::string PlanText(const PlanAnswer& answer) {
  return FormatPlan(answer.plan, answer.context, answer.variants);
}

SharedTimetable PlanTable(const PlanAnswer& answer) { return Shared(TimetableOf(answer.plan)); }

void CheckCompared(const std::vector<std::string>& names, const Flags& flags,
                   const CostsText& costs) {
  if (absl::Status status = CheckComparison(names, flags, costs); !status.ok())
    Raise(ExitCodeOf(status), std::string(status.message()));
}

SharedTimetable Restore(const std::string& state) {
  return Shared(Value(WithoutLock([&] { return TimetableOfState(state); })));
}

void AddTimetable(py::module_& module) {
  using Free = py::call_guard<py::gil_scoped_release>;
  py::class_<AskedTimetable, std::shared_ptr<AskedTimetable>>(module, "Timetable")
      .def_property_readonly("sound", [](const AskedTimetable& it) { return it.defects.empty(); })
      .def_property_readonly("name", [](const AskedTimetable& it) { return it.table.name; })
      .def_property_readonly("ranks",
                             [](const AskedTimetable& it) { return Shown(it).placement.ranks(); })
      .def_property_readonly("stages",
                             [](const AskedTimetable& it) { return it.table.placement.stages(); })
      .def_property_readonly("micro_batches",
                             [](const AskedTimetable& it) { return it.table.micro_batches; })
      .def_property_readonly(
          "seconds", [](const AskedTimetable& it) { return it.shown && it.shown->costs.seconds; })
      .def("defects", DefectsText, Free())
      .def("json", Json, Free())
      .def("text", Text, Free())
      .def("svg", Svg, Free())
      .def("html", Html, Free())
      .def("trace", Trace, Free())
      .def("csv", Csv, Free())
      .def("state", TimetableState, Free())
      .def("comms_csv",
           [](const AskedTimetable& it, const std::string& torch, int max_active_stages) {
             return Value(WithoutLock([&] { return CommsCsv(it, torch, max_active_stages); }));
           })
      .def("actions", Actions);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.attr("version") = SLUICE_VERSION;
  AddTimetable(module);
  py::class_<PlanAnswer, std::shared_ptr<PlanAnswer>>(module, "Plan")
      .def_property_readonly("has_timetable",
                             [](const PlanAnswer& it) { return it.plan.has_schedule(); })
      .def_property_readonly("completed", [](const PlanAnswer& it) { return it.completed; })
      .def_property_readonly("costs", [](const PlanAnswer& it) { return it.costs; })
      .def("json", PlanText)
      .def("svg", [](const PlanAnswer& it) { return DrawPlan(it, {}, 0); })
      .def("timetable", PlanTable);
  module.def("schedule", Schedule);
  module.def("table", Table);
  module.def("plan", MakePlan);
  module.def("plan_table", ReadPlan);
  module.def("plan_flags", PlanFlagNames);
  module.def("comparison", ComparisonOf);
  module.def("catalogue", [] { return JsonText(CatalogueJson()); });
  module.def("check_compared", CheckCompared);
  module.def("restore", Restore);
  module.def("op_names", OpNames);
  module.def("find_checkpoint_to_resume", FindToResume);
}

}  // namespace sluice::python
