#include "common/explore/region_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/status.h"

namespace gq::explore {
namespace {

constexpr size_t kLookedAt = 4;  // of each ranking, at every step
constexpr size_t kBlocksLookedAt = 2;
constexpr int kMostSwaps = 6;
constexpr double kLeastSwapGain = 0.05;  // dB

class RegionSearch {
 public:
  RegionSearch(const std::vector<size_t>& candidates, const std::vector<bool>& start,
               const ScoreFunction& score, const SearchOptions& options)
      : candidates_(candidates), start_(start), score_(score), options_(options) {}

  absl::StatusOr<RegionPath> Run() {
    const auto room = static_cast<size_t>(std::max<std::ptrdiff_t>(
        0, options_.most - std::count(start_.begin(), start_.end(), true)));
    GQ_RETURN_IF_ERROR(Rank());
    RegionPath path;
    GQ_RETURN_IF_ERROR(Grow(room, &path));
    GQ_RETURN_IF_ERROR(TakeBetterPrefix(room, &path));
    GQ_RETURN_IF_ERROR(Swap(&path));
    return path;
  }

 private:
  absl::StatusOr<double> Measure(const std::vector<bool>& promoted) {
    const auto known = known_.find(promoted);
    if (known != known_.end()) return known->second;
    GQ_ASSIGN_OR_RETURN(const double value, score_(promoted, /*ranking=*/false));
    known_[promoted] = value;
    return value;
  }

  std::vector<bool> With(const std::vector<size_t>& regions) const {
    std::vector<bool> promoted = start_;
    for (const size_t region : regions) promoted[region] = true;
    return promoted;
  }

  bool OutOfTime() const { return options_.out_of_time && options_.out_of_time(); }

  // Noise power from decibels: what adds up over regions.
  static double Power(double decibels) { return std::pow(10, -decibels / 10); }

  absl::Status Rank() {
    std::vector<bool> all = start_;
    for (const size_t region : candidates_) all[region] = true;
    GQ_ASSIGN_OR_RETURN(const double nothing, score_(start_, /*ranking=*/true));
    for (const size_t region : candidates_) {
      if (OutOfTime()) break;
      std::vector<bool> alone = all;
      alone[region] = false;
      GQ_ASSIGN_OR_RETURN(const double damage, score_(alone, /*ranking=*/true));
      damage_[region] = Power(damage);
      std::vector<bool> first = start_;
      first[region] = true;
      GQ_ASSIGN_OR_RETURN(const double gain, score_(first, /*ranking=*/true));
      gain_[region] = gain - nothing;
    }
    return absl::OkStatus();
  }

  // Regions that are not in `taken`, the best by `figure` first.
  std::vector<size_t> Best(const std::map<size_t, double>& figure, const std::vector<size_t>& taken,
                           size_t count) const {
    std::vector<size_t> regions;
    for (const auto& [region, value] : figure) {
      if (std::find(taken.begin(), taken.end(), region) == taken.end()) regions.push_back(region);
    }
    std::stable_sort(regions.begin(), regions.end(),
                     [&](size_t a, size_t b) { return figure.at(a) > figure.at(b); });
    if (regions.size() > count) regions.resize(count);
    return regions;
  }

  std::vector<size_t> LookAt(const std::vector<size_t>& taken) const {
    std::vector<size_t> regions = Best(damage_, taken, kLookedAt);
    for (const size_t region : Best(gain_, taken, kLookedAt)) {
      if (std::find(regions.begin(), regions.end(), region) == regions.end()) {
        regions.push_back(region);
      }
    }
    return regions;
  }

  absl::Status Grow(size_t room, RegionPath* path) {
    GQ_ASSIGN_OR_RETURN(const double from, Measure(start_));
    path->scores.push_back(from);
    while (path->regions.size() < room && !OutOfTime()) {
      size_t best = 0;
      double best_score = 0;
      bool found = false;
      for (const size_t region : LookAt(path->regions)) {
        std::vector<size_t> tried = path->regions;
        tried.push_back(region);
        GQ_ASSIGN_OR_RETURN(const double value, Measure(With(tried)));
        // Later steps rank by what was seen last.
        gain_[region] = value - path->scores.back();
        if (found && !(value > best_score)) continue;
        best = region;
        best_score = value;
        found = true;
      }
      if (!found) break;
      const double gain = best_score - path->scores.back();
      GQ_ASSIGN_OR_RETURN(const std::vector<size_t> block,
                          BetterBlock(room - path->regions.size(), gain, *path));
      if (block.empty()) {
        path->regions.push_back(best);
        path->scores.push_back(best_score);
      }
      for (const size_t region : block) {
        path->regions.push_back(region);
        GQ_ASSIGN_OR_RETURN(const double value, Measure(With(path->regions)));
        path->scores.push_back(value);
      }
    }
    return absl::OkStatus();
  }

  // What is missing of a block that gains at least `gain` for each of its regions; empty for none.
  // Only the blocks that do most damage are looked at.
  absl::StatusOr<std::vector<size_t>> BetterBlock(size_t room, double gain,
                                                  const RegionPath& path) {
    std::vector<std::pair<double, std::vector<size_t>>> open;
    for (const std::vector<size_t>& block : options_.blocks) {
      std::vector<size_t> missing;
      double damage = 0;
      bool known = true;
      for (const size_t region : block) {
        if (start_[region] ||
            std::find(path.regions.begin(), path.regions.end(), region) != path.regions.end()) {
          continue;
        }
        known = known && damage_.contains(region);
        if (known) damage += damage_.at(region);
        missing.push_back(region);
      }
      if (!known || missing.size() < 2 || missing.size() > room) continue;
      open.emplace_back(damage / static_cast<double>(missing.size()), std::move(missing));
    }
    std::stable_sort(open.begin(), open.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (open.size() > kBlocksLookedAt) open.resize(kBlocksLookedAt);
    std::vector<size_t> best;
    double best_gain = gain;
    for (auto& [damage, missing] : open) {
      std::vector<size_t> tried = path.regions;
      tried.insert(tried.end(), missing.begin(), missing.end());
      GQ_ASSIGN_OR_RETURN(const double value, Measure(With(tried)));
      const double each = (value - path.scores.back()) / static_cast<double>(missing.size());
      if (each < best_gain) continue;
      best_gain = each;
      best = std::move(missing);
    }
    return best;
  }

  // The most damaging regions together may do better than the path that grew one by one.
  absl::Status TakeBetterPrefix(size_t room, RegionPath* path) {
    if (path->regions.empty() || OutOfTime()) return absl::OkStatus();
    const std::vector<size_t> ranked = Best(damage_, {}, std::min(room, path->regions.size()));
    GQ_ASSIGN_OR_RETURN(const double value, Measure(With(ranked)));
    if (!(value > path->scores.back())) return absl::OkStatus();
    return Replace(ranked, path);
  }

  absl::Status Replace(const std::vector<size_t>& regions, RegionPath* path) {
    path->regions = regions;
    path->scores.resize(1);
    for (size_t count = 1; count <= regions.size(); ++count) {
      const std::vector<size_t> first(regions.begin(),
                                      regions.begin() + static_cast<std::ptrdiff_t>(count));
      GQ_ASSIGN_OR_RETURN(const double value, Measure(With(first)));
      path->scores.push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status Swap(RegionPath* path) {
    if (path->regions.size() < 2) return absl::OkStatus();
    std::vector<size_t> members = path->regions;
    double now = path->scores.back();
    bool changed = false;
    for (int swaps = 0; swaps < kMostSwaps && !OutOfTime(); ++swaps) {
      size_t weakest = 0;
      double without_best = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        std::vector<size_t> fewer = members;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        GQ_ASSIGN_OR_RETURN(const double value, Measure(With(fewer)));
        if (i > 0 && !(value > without_best)) continue;
        weakest = i;
        without_best = value;
      }
      std::vector<size_t> fewer = members;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(weakest));
      bool better = false;
      for (const size_t region : LookAt(members)) {
        std::vector<size_t> tried = fewer;
        tried.push_back(region);
        GQ_ASSIGN_OR_RETURN(const double value, Measure(With(tried)));
        if (!(value > now + kLeastSwapGain)) continue;
        members = tried;
        now = value;
        better = changed = true;
      }
      if (!better) break;
    }
    return changed ? Replace(members, path) : absl::OkStatus();
  }

  const std::vector<size_t>& candidates_;
  const std::vector<bool>& start_;
  const ScoreFunction& score_;
  const SearchOptions& options_;
  std::map<size_t, double> damage_;  // noise power when only this region is quantized
  std::map<size_t, double> gain_;    // dB when it was last tried on top of others
  std::map<std::vector<bool>, double> known_;
};

}  // namespace

absl::StatusOr<RegionPath> SearchRegions(const std::vector<size_t>& candidates,
                                         const std::vector<bool>& start, const ScoreFunction& score,
                                         const SearchOptions& options) {
  return RegionSearch(candidates, start, score, options).Run();
}

}  // namespace gq::explore
