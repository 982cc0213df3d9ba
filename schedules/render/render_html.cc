#include "schedules/render/render_html.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedules/render/pack_actions.h"
#include "schedules/render/render_common.h"
#include "schedules/render/viewer_files.h"

namespace sluice {
namespace {

// A browser treats a script of an unknown type as data. Neither JSON strings (JsonQuoted) nor
// base64 contain "<", so nothing can end the element early.
std::string DataElement(const std::string& id, const std::string& text) {
  return absl::StrCat("<script type=\"text/plain\" id=\"", id, "\">", text, "</script>\n");
}

std::string JsonNumbers(absl::Span<const double> values) {
  return absl::StrCat("[",
                      absl::StrJoin(values, ",",
                                    [](std::string* out, double value) {
                                      absl::StrAppend(out, JsonNumber(value));
                                    }),
                      "]");
}

template <typename Value>
std::string JsonIntegers(const std::vector<Value>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

std::string JsonStrings(const std::vector<std::string>& texts) {
  return absl::StrCat("[",
                      absl::StrJoin(texts, ",",
                                    [](std::string* out, const std::string& text) {
                                      absl::StrAppend(out, JsonQuoted(text));
                                    }),
                      "]");
}

// One layer of bars: the content of its data element, and how to read it.
struct Layer {
  std::string json;
  std::string element;
};

Layer MakeLayer(const std::string& id, const std::string& name,
                const std::vector<std::vector<TimedAction>>& rows, const CriticalSet& critical) {
  const PackedActions packed = PackActions(rows, critical);
  const std::string json = absl::StrCat(
      "{\"data\":", JsonQuoted(id), ",\"name\":", JsonQuoted(name),
      ",\"tick\":", JsonNumber(packed.tick), ",\"counts\":", JsonIntegers(packed.counts), "}");
  return {json, DataElement(id, absl::Base64Escape(packed.bytes))};
}

// [stage] how many stages of the same rank come before it; later ones get lighter bars.
std::string PanelJson(const HtmlPanel& panel, const std::vector<Layer>& layers) {
  const Timetable& table = *panel.table;
  const Simulation& run = *panel.run;
  const Placement& placement = table.placement;
  const auto costs = [&](const std::vector<double> StageCosts::*field) {
    return panel.costs == nullptr ? std::string("[]") : JsonNumbers(panel.costs->*field);
  };
  std::vector<std::string> kinds;
  for (const BarKind& kind : KindsIn(table)) kinds.emplace_back(OpName(kind.op));
  return absl::StrCat(
      "{\"title\":", JsonQuoted(TitleOf(table)), ",\"facts\":", JsonStrings(FactsOf(run)),
      ",\"ranks\":", run.rows.size(), ",\"stages\":", placement.stages(),
      ",\"modelStages\":", placement.model_stages(), ",\"chunks\":", placement.chunks(),
      ",\"microBatches\":", table.micro_batches,
      ",\"chunkOfStage\":", JsonIntegers(ChunkOfStage(placement)),
      ",\"makespan\":", JsonNumber(run.makespan), ",\"lowerBound\":", JsonNumber(run.lower_bound),
      ",\"work\":", JsonNumbers(run.work), ",\"kinds\":", JsonStrings(kinds),
      ",\"peakActivations\":", JsonIntegers(run.peak_activations),
      ",\"activationLimit\":", panel.activation_limit.value_or(-1),
      ",\"activationBytes\":", costs(&StageCosts::activation_bytes),
      ",\"weightGradBytes\":", costs(&StageCosts::weight_grad_bytes),
      ",\"send\":", costs(&StageCosts::send),
      ",\"checkpointBytes\":", costs(&StageCosts::checkpoint_bytes),
      ",\"byteLimit\":", JsonNumbers(panel.byte_limit),
      ",\"fitted\":", panel.fitted ? "true" : "false", ",\"layers\":[",
      absl::StrJoin(layers, ",",
                    [](std::string* out, const Layer& layer) { absl::StrAppend(out, layer.json); }),
      "]}");
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// The template with each {{key}} replaced, in one pass: values may contain anything, even {{keys}}.
std::string Fill(absl::string_view text,
                 const std::vector<std::pair<absl::string_view, absl::string_view>>& values) {
  size_t size = text.size();
  for (const auto& [key, value] : values) size += value.size();
  std::string filled;
  filled.reserve(size);
  for (const auto& [key, value] : values) {
    const size_t at = text.find(key);
    if (at == absl::string_view::npos) continue;
    absl::StrAppend(&filled, text.substr(0, at), value);
    text.remove_prefix(at + key.size());
  }
  absl::StrAppend(&filled, text);
  return filled;
}

}  // namespace

std::string RenderHtml(absl::Span<const HtmlPanel> panels, const HtmlOptions& options) {
  std::vector<std::string> titles, descriptions;
  std::string data;
  for (size_t p = 0; p < panels.size(); ++p) {
    const HtmlPanel& panel = panels[p];
    std::vector<Layer> layers = {MakeLayer(absl::StrCat("planned-", p), "planned", panel.run->rows,
                                           CriticalSet(panel.run->critical_path))};
    if (panel.measured.has_value()) {
      layers.push_back(MakeLayer(absl::StrCat("measured-", p), panel.measured->name,
                                 panel.measured->rows, CriticalSet({})));
    }
    for (Layer& layer : layers) data += std::exchange(layer.element, {});
    titles.push_back(TitleOf(*panel.table));
    descriptions.push_back(PanelJson(panel, layers));
  }
  data +=
      DataElement("about", absl::StrCat("{\"seconds\":", options.seconds ? "true" : "false",
                                        ",\"panels\":[", absl::StrJoin(descriptions, ",\n"), "]}"));
  // In the order in which the template names them.
  return Fill(kViewerHtml, {{"{{title}}", Escaped(absl::StrJoin(titles, " and "))},
                            {"{{style}}", kViewerCss},
                            {"{{data}}", data},
                            {"{{script}}", kViewerScript}});
}

}  // namespace sluice
