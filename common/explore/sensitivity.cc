#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/explore/meter.h"
#include "common/explore/region_search.h"
#include "common/explore/run.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/mixed_precision.h"

namespace gq::explore {
namespace {

using base::StrCat;
using nlohmann::json;

// Multiply-accumulates that a search may spend on measuring; what makes the number of samples
// depend on the model and not on the clock.
constexpr double kSearchMacs = 6e11;
constexpr int64_t kMostSearchSamples = 12;
constexpr int64_t kMostCheckSamples = 16;
// What a join has to bring for its conversions, in dB.
constexpr double kLeastJoinGain = 0.3;

std::vector<int64_t> Spread(int64_t count, int64_t wanted) {
  std::vector<int64_t> samples;
  wanted = std::min(wanted, count);
  for (int64_t i = 0; i < wanted; ++i) samples.push_back(i * count / wanted);
  return samples;
}

class SensitivitySearch {
 public:
  SensitivitySearch(const Problem& problem, CandidateMaker& maker, Run& run,
                    Exploration* exploration)
      : problem_(problem),
        maker_(maker),
        run_(run),
        exploration_(*exploration),
        check_samples_(
            Spread(problem.evaluation.size(),
                   std::clamp<int64_t>(problem.evaluation.size() / 4, 4, kMostCheckSamples))) {}

  absl::StatusOr<StrategyResult> Run() {
    StrategyResult result;
    GQ_RETURN_IF_ERROR(Presets());
    if (start_.goal_met) {
      result.searched_row = start_row_;
      result.stop = "the goal is met without promotions";
      return result;
    }
    GQ_RETURN_IF_ERROR(Prepare());
    if (candidates_.empty() || most_ == 0) {
      result.searched_row = start_row_;
      result.stop = most_ == 0 ? StopText(StopReason::kShare, problem_.limits)
                               : "no compute layer is left that could be promoted";
      return result;
    }
    GQ_RETURN_IF_ERROR(FindPath());
    return Confirm();
  }

 private:
  // The named configurations, as far as they differ from the start.
  absl::Status Presets() {
    GQ_ASSIGN_OR_RETURN(const auto start, run_.TryStart({}));
    start_ = start.figures;
    GQ_RETURN_IF_ERROR(run_.Decide("preset", "start", "kept", start, {}, 0, true));
    start_row_ = run_.rows();
    if (problem_.recover.passes.empty()) return absl::OkStatus();
    const std::string name = "without recovery";
    const explore::Run::Make make = Once([&maker = maker_] { return maker.Plain({}); });
    GQ_ASSIGN_OR_RETURN(const auto plain, run_.Try("preset", name, check_samples_, make));
    const std::string again = "start, few samples";
    GQ_ASSIGN_OR_RETURN(const auto few, run_.Try("preset", again, check_samples_, start.make));
    const bool better = !plain.failed && !few.failed && IsBetter(plain.figures, few.figures);
    GQ_RETURN_IF_ERROR(
        run_.Decide("preset", name, better ? "kept" : "skipped", plain, {}, 0, false));
    GQ_RETURN_IF_ERROR(
        run_.Decide("preset", again, better ? "skipped" : "kept", few, {}, 0, false));
    if (better) {
      GQ_ASSIGN_OR_RETURN(plain_, make());
    }
    return absl::OkStatus();
  }

  const graph::Model& Source() const { return plain_ ? problem_.float_model : problem_.source; }
  const graph::Model& Quantized() const { return plain_ ? plain_->model : problem_.start; }

  // Regions of what the start was made from, without nodes that no configuration can name.
  std::vector<Region> NamedRegions() const {
    std::vector<Region> regions = FindRegions(Source().graph());
    for (Region& region : regions) {
      std::erase_if(region.nodes, [this](const auto& node) { return !maker_.CanName(node); });
    }
    return regions;
  }

  // All nodes of the float model that belong to these layers and make floats, and the promoted
  // joins.
  std::vector<std::string> FloatNodesOf(const std::vector<std::string>& layers) const {
    const graph::GraphIndex index(problem_.float_model.graph());
    std::vector<std::string> nodes;
    for (size_t i = layers_; i < regions_.size(); ++i) {
      if (!start_set_[i]) continue;
      for (const std::string& node : regions_[i].nodes) {
        if (index.FindNode(node) != nullptr) nodes.push_back(node);
      }
    }
    for (const Region& region : FindRegions(problem_.float_model.graph())) {
      if (std::find(layers.begin(), layers.end(), region.layer) == layers.end()) continue;
      for (const std::string& node : region.nodes) {
        const std::string_view output = graph::OutputName(*index.FindNode(node), 0);
        if (index.ElemType(output) != onnx::TensorProto::FLOAT) continue;
        if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
      }
    }
    return nodes;
  }

  // Nodes that the start has in float.
  std::set<std::string> FloatNodesOfStart() const {
    std::set<std::string> nodes;
    const json& report = plain_ ? plain_->report : problem_.start_report;
    for (const json& layer : report.value("layers", json::array())) {
      if (layer.value("precision", "") == "float32") nodes.insert(layer.value("node", ""));
    }
    return nodes;
  }

  // Decibels that are enough for an output, with a margin, where the goal rests on them.
  void ReadGoal(MeterOptions* options) {
    constexpr double kMargin = 1.5;  // dB
    if (problem_.evaluate.targets.empty() &&
        problem_.evaluate.task == graph::TaskType::kRegression) {
      enough_db_ = 30 + kMargin;  // the default goal
    }
    for (const auto& target : problem_.evaluate.targets) {
      const bool snr = target.metric == accuracy::Metric::kSnr;
      if (!snr && target.metric != accuracy::Metric::kPsnr) continue;
      options->snr = snr;
      enough_db_ = target.bound + kMargin;
    }
  }

  absl::Status Prepare() {
    regions_ = NamedRegions();
    layers_ = regions_.size();
    const auto layers = static_cast<int>(layers_);
    AddJoins();
    GQ_ASSIGN_OR_RETURN(const auto kept, NodesOfPatterns(problem_, problem_.limits.keep));
    GQ_ASSIGN_OR_RETURN(const auto forbidden, NodesOfPatterns(problem_, problem_.limits.forbid));
    const auto quantized = QuantizedLayers(problem_, maker_);
    const std::set<std::string> quantized_set(quantized.begin(), quantized.end());
    const std::set<std::string> kept_set(kept.begin(), kept.end());
    const std::set<std::string> forbidden_set(forbidden.begin(), forbidden.end());
    most_ = problem_.limits.MostPromotions(layers);

    int64_t macs = graph::Analyze(problem_.float_model).macs;
    macs = std::max<int64_t>(macs, 1000000);
    const double runs = 2.0 * layers + 14.0 * most_;
    search_samples_ =
        std::clamp<int64_t>(static_cast<int64_t>(kSearchMacs / (runs * static_cast<double>(macs))),
                            1, std::min(kMostSearchSamples, problem_.evaluation.size()));
    MeterOptions options{.precision = problem_.limits.precision,
                         .threads = problem_.threads,
                         .in_float = FloatNodesOfStart()};
    ReadGoal(&options);
    GQ_ASSIGN_OR_RETURN(
        meter_,
        Meter::Create(problem_.float_model, Source(), Quantized(), regions_, problem_.evaluation,
                      Spread(problem_.evaluation.size(), search_samples_), options));
    start_set_.assign(regions_.size(), false);
    for (size_t i = 0; i < layers_; ++i) {
      const std::string& layer = regions_[i].layer;
      if (forbidden_set.contains(layer) || !quantized_set.contains(layer) ||
          !meter_->model().CanPromote(i)) {
        continue;
      }
      if (kept_set.contains(layer)) {
        start_set_[i] = true;
      } else {
        candidates_.push_back(i);
      }
    }
    run_.reporter().Info(
        "Explore", StrCat(candidates_.size(), " regions to choose from, at most ", most_, " of ",
                          layers, " compute layers; measuring on ", search_samples_, " samples"));
    return absl::OkStatus();
  }

  // Joins without nodes that nobody may promote, or that cannot be named, behind the layers.
  void AddJoins() {
    for (Region& join : FindJoins(Source().graph())) {
      std::erase_if(join.nodes, [this](const auto& node) { return !maker_.CanName(node); });
      if (!join.nodes.empty()) regions_.push_back(std::move(join));
    }
  }

  // Promotes the joins that help, before any layer: they cost conversions but no compute layer.
  absl::Status ChooseJoins() {
    GQ_ASSIGN_OR_RETURN(double now, Score(start_set_, /*ranking=*/false));
    std::vector<std::pair<double, size_t>> gains;
    for (size_t i = layers_; i < regions_.size() && !run_.OutOfTime(); ++i) {
      if (!meter_->model().CanPromote(i)) continue;
      std::vector<bool> set = start_set_;
      set[i] = true;
      GQ_ASSIGN_OR_RETURN(const double value, Score(set, /*ranking=*/false));
      gains.emplace_back(value - now, i);
    }
    std::stable_sort(gains.begin(), gains.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [gain, join] : gains) {
      if (gain < kLeastJoinGain || run_.OutOfTime()) break;
      std::vector<bool> set = start_set_;
      set[join] = true;
      GQ_ASSIGN_OR_RETURN(const double value, Score(set, /*ranking=*/false));
      if (value < now + kLeastJoinGain) continue;
      start_set_ = std::move(set);
      now = value;
    }
    return absl::OkStatus();
  }

  int PromotedJoins() const {
    return static_cast<int>(std::count(start_set_.begin() + static_cast<std::ptrdiff_t>(layers_),
                                       start_set_.end(), true));
  }

  absl::StatusOr<double> Score(const std::vector<bool>& promoted, bool ranking) {
    GQ_RETURN_IF_ERROR(run_.CheckCancelled());
    return ranking ? meter_->Score(promoted, 1) : meter_->Score(promoted, 0, enough_db_);
  }

  absl::Status FindPath() {
    if (const auto remembered = run_.Remembered("path")) {
      for (const json& name : *remembered) {
        for (size_t i = 0; i < regions_.size(); ++i) {
          if (i < layers_ && name == regions_[i].layer) path_.push_back(i);
        }
      }
      for (const json& name : run_.Remembered("joins").value_or(json::array())) {
        for (size_t i = layers_; i < regions_.size(); ++i) {
          if (name == regions_[i].nodes[0]) start_set_[i] = true;
        }
      }
      for (const size_t region : StartRegions()) {
        std::erase(path_, region);
      }
      return absl::OkStatus();
    }
    const ScoreFunction score = [this](const std::vector<bool>& promoted, bool ranking) {
      return Score(promoted, ranking);
    };
    GQ_RETURN_IF_ERROR(ChooseJoins());
    const SearchOptions options{.most = most_ + PromotedJoins(),
                                .blocks = Blocks(),
                                .out_of_time = [this] { return run_.OutOfTime(); }};
    GQ_ASSIGN_OR_RETURN(RegionPath path, SearchRegions(candidates_, start_set_, score, options));
    GQ_RETURN_IF_ERROR(TryHeadAndTail(options, score, &path));
    path_ = std::move(path.regions);
    exploration_.search_runs += meter_->runs();
    return absl::OkStatus();
  }

  // Blocks all of whose regions are candidates.
  std::vector<std::vector<size_t>> Blocks() const {
    std::vector<std::vector<size_t>> blocks = FindBlocks(Source().graph(), regions_);
    std::erase_if(blocks, [this](const auto& block) {
      return std::any_of(block.begin(), block.end(), [this](size_t region) {
        return std::find(candidates_.begin(), candidates_.end(), region) == candidates_.end();
      });
    });
    return blocks;
  }

  // `vint8_bf16_head_tail` as a place to start from, where it does better than as many regions of
  // the path.
  absl::Status TryHeadAndTail(const SearchOptions& options, const ScoreFunction& score,
                              RegionPath* path) {
    const auto found = quantize::FindHeadAndTail(problem_.float_model.graph());
    if (!found.ok() || run_.OutOfTime()) return absl::OkStatus();
    std::set<std::string> nodes(found->head.begin(), found->head.end());
    nodes.insert(found->tail.begin(), found->tail.end());
    std::vector<bool> set = start_set_;
    std::vector<size_t> members;
    for (const size_t region : candidates_) {
      if (!nodes.contains(regions_[region].layer)) continue;
      set[region] = true;
      members.push_back(region);
    }
    if (members.empty() || members.size() >= path->scores.size()) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const double value, score(set, /*ranking=*/false));
    if (!(value > path->scores[members.size()])) return absl::OkStatus();
    std::vector<size_t> others;
    for (const size_t region : candidates_) {
      if (!set[region]) others.push_back(region);
    }
    GQ_ASSIGN_OR_RETURN(const RegionPath other, SearchRegions(others, set, score, options));
    if (!(other.scores.back() > path->scores.back())) return absl::OkStatus();
    path->scores.resize(1);
    path->regions = members;
    path->regions.insert(path->regions.end(), other.regions.begin(), other.regions.end());
    path->scores.resize(members.size(), path->scores[0]);
    path->scores.insert(path->scores.end(), other.scores.begin(), other.scores.end());
    return absl::OkStatus();
  }

  std::vector<size_t> StartRegions() const {
    std::vector<size_t> regions;
    for (size_t i = 0; i < start_set_.size(); ++i) {
      if (start_set_[i]) regions.push_back(i);
    }
    return regions;
  }

  std::vector<size_t> First(size_t count) const {
    std::vector<size_t> regions = StartRegions();
    regions.insert(regions.end(), path_.begin(),
                   path_.begin() + static_cast<std::ptrdiff_t>(count));
    return regions;
  }

  std::vector<std::string> NodesOf(size_t count) const {
    std::vector<std::string> nodes;
    for (const size_t region : First(count)) {
      const auto& own = meter_->model().QuantizedNodes(region);
      nodes.insert(nodes.end(), own.begin(), own.end());
    }
    return nodes;
  }

  std::vector<std::string> LayersOf(size_t count) const {
    std::vector<std::string> layers;
    for (const size_t region : First(count)) {
      if (region < layers_) layers.push_back(regions_[region].layer);
    }
    return layers;
  }

  json PathState() const {
    json names = json::array();
    for (const size_t region : path_) names.push_back(regions_[region].layer);
    json joins = json::array();
    for (size_t i = layers_; i < regions_.size(); ++i) {
      if (start_set_[i]) joins.push_back(regions_[i].nodes[0]);
    }
    return {{"path", std::move(names)}, {"joins", std::move(joins)}};
  }

  explore::Run::Make FromSource(const std::vector<std::string>& nodes) const {
    if (plain_) return [&maker = maker_, nodes] { return maker.Plain(nodes); };
    return [&maker = maker_, nodes] { return maker.FromStart(nodes); };
  }

  // The first `count` regions of the path, on few samples.
  absl::StatusOr<Figures> Check(size_t count) {
    const std::vector<std::string> nodes = NodesOf(count);
    const std::string name = StrCat("the ", count, " most damaging regions");
    GQ_ASSIGN_OR_RETURN(const auto tried,
                        run_.Try("sensitivity", name, check_samples_, FromSource(nodes)));
    const bool met = !tried.failed && tried.figures.goal_met;
    GQ_RETURN_IF_ERROR(run_.Decide("sensitivity", name, met ? "promoted" : "skipped", tried, nodes,
                                   CountLayers(problem_, nodes), false, PathState()));
    if (tried.failed) return Figures{};
    checked_[count] = tried.figures;
    return tried.figures;
  }

  // How the first `count` regions are made for all samples: with the recovery passes fitted anew,
  // where that does better on few samples than what the start has from them.
  absl::StatusOr<explore::Run::Make> BestForm(size_t count, const std::vector<std::string>& nodes) {
    const explore::Run::Make from_start = FromSource(nodes);
    if (problem_.recover.passes.empty() || run_.OutOfTime()) return from_start;
    const std::vector<std::string> all = FloatNodesOf(LayersOf(count));
    const explore::Run::Make recovered =
        Once([&maker = maker_, all] { return maker.Recovered(all); });
    const std::string name = StrCat("the ", count, " most damaging regions, recovered again");
    GQ_ASSIGN_OR_RETURN(const auto tried, run_.Try("sensitivity", name, check_samples_, recovered));
    const auto before = checked_.find(count);
    const bool better =
        !tried.failed && (before == checked_.end() || IsBetter(tried.figures, before->second));
    GQ_RETURN_IF_ERROR(run_.Decide("sensitivity", name, better ? "promoted" : "rolled-back", tried,
                                   nodes, CountLayers(problem_, nodes), false, PathState()));
    return better ? recovered : from_start;
  }

  absl::StatusOr<bool> ConfirmPrefix(size_t count, StrategyResult* result) {
    const std::vector<std::string> nodes = NodesOf(count);
    GQ_ASSIGN_OR_RETURN(const explore::Run::Make make, BestForm(count, nodes));
    const std::string name = StrCat("the ", count, " most damaging regions, all samples");
    GQ_ASSIGN_OR_RETURN(const auto tried, run_.Try("sensitivity", name, {}, make));
    const bool better = !tried.failed && IsBetter(tried.figures, best_row_ == 0 ? start_ : best_);
    GQ_RETURN_IF_ERROR(run_.Decide("sensitivity", name, better ? "promoted" : "rolled-back", tried,
                                   nodes, CountLayers(problem_, nodes), true, PathState()));
    if (better) {
      best_ = tried.figures;
      best_row_ = run_.rows();
      result->searched_row = best_row_;
    }
    return !tried.failed && tried.figures.goal_met;
  }

  // The shortest prefix that meets the goal on few samples, then on all.
  absl::StatusOr<StrategyResult> Confirm() {
    StrategyResult result{.searched_row = start_row_};
    const size_t all = path_.size();
    if (all == 0 && StartRegions().empty()) {
      result.stop = "no region could be promoted";
      return result;
    }
    GQ_ASSIGN_OR_RETURN(const Figures longest, Check(all));
    size_t wanted = all;
    if (longest.goal_met) {
      // Without promoted joins the start is known to miss the goal.
      size_t low = StartRegions().empty() ? 1 : 0;  // the least that may meet it
      while (low < wanted && !run_.OutOfTime()) {
        const size_t middle = (low + wanted) / 2;
        GQ_ASSIGN_OR_RETURN(const Figures figures, Check(middle));
        if (figures.goal_met) {
          wanted = middle;
        } else {
          low = middle + 1;
        }
      }
    }
    GQ_ASSIGN_OR_RETURN(const bool met, ConfirmPrefix(wanted, &result));
    bool longest_met = met;
    if (!met && wanted < all && !run_.OutOfTime()) {
      GQ_ASSIGN_OR_RETURN(longest_met, ConfirmPrefix(all, &result));
    }
    if (met || longest_met) {
      result.stop = StopText(StopReason::kGoalMet, problem_.limits);
    } else if (run_.OutOfTime()) {
      result.stop = StopText(StopReason::kTimeBudget, problem_.limits);
    } else {
      result.stop = StopText(StopReason::kShare, problem_.limits);
    }
    return result;
  }

  const Problem& problem_;
  CandidateMaker& maker_;
  explore::Run& run_;
  Exploration& exploration_;
  std::vector<Region> regions_;     // of compute layers, then joins
  size_t layers_ = 0;               // how many are of compute layers
  std::optional<Candidate> plain_;  // set where the search starts without recovery
  const std::vector<int64_t> check_samples_;
  std::unique_ptr<Meter> meter_;
  int64_t search_samples_ = 1;
  double enough_db_ = 80;
  int most_ = 0;
  std::vector<size_t> candidates_;
  std::vector<bool> start_set_;
  std::vector<size_t> path_;
  std::map<size_t, Figures> checked_;  // on few samples, by length of the prefix
  Figures start_, best_;
  int start_row_ = 0, best_row_ = 0;
};

}  // namespace

absl::StatusOr<StrategyResult> RunSensitivity(const Problem& problem, CandidateMaker& maker,
                                              Run& run, Exploration* exploration) {
  return SensitivitySearch(problem, maker, run, exploration).Run();
}

}  // namespace gq::explore
